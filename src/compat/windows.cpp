// SPDX-License-Identifier: Apache-2.0
// This file has windows, and the one-sided operations on them. NCCL names a signal by a context and an index. Rondo has
// 16 signals between two ranks, so both numbers are below 4.
#include <string>

#include "src/compat/communicator.h"
#include "src/compat/exports.h"
#include "src/compat/failure.h"
#include "src/compat/group.h"

using namespace rondo::compat;

namespace {

constexpr int numbers = 4;  // number of contexts, and of signals in each context
static_assert(numbers * numbers == RONDO_SIGNAL_COUNT);
constexpr int symmetric_window = 1;  // NCCL_WIN_COLL_SYMMETRIC

/// Checks the arguments that every one-sided operation has.
ncclResult_t check(const char *function, ncclComm *comm, int peer, int index, int context, unsigned flags) {
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  if (comm->finalized) return refuse(function, "the communicator was finalized; only ncclCommDestroy is left");
  if (peer < 0 || peer >= comm->rank_count)
    return refuse(function, "the peer is " + std::to_string(peer) + "; it must be a rank, 0 to " +
                                std::to_string(comm->rank_count - 1));
  if (index < 0 || index >= numbers || context < 0 || context >= numbers)
    return refuse(function, "the signal is " + std::to_string(index) + " of context " + std::to_string(context) +
                                "; Rondo has the numbers 0 to " + std::to_string(numbers - 1) + " for each of both");
  if (flags != 0) return refuse(function, "flags are " + std::to_string(flags) + "; they must be 0");
  return ncclSuccess;
}

uint32_t signal_of(int index, int context) { return static_cast<uint32_t>(context * numbers + index); }

rondo_window_t window_of(ncclWindow_t window) { return reinterpret_cast<rondo_window_t>(window); }

}  // namespace

/// Registers a window together with the other ranks. If Rondo has no windows here, writes a null handle and returns
/// success, as NCCL does. Does the same in a group, as a thread with several ranks would wait for itself.
NCCL_EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes, ncclWindow_t *window,
                                                int flags) {
  constexpr const char *function = "ncclCommWindowRegister";
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  const rondo_comm_t handle = comm->handle;
  if (window == nullptr || buffer == nullptr || bytes == 0) {
    // Rondo refuses a call with a null result, and informs the other ranks.
    static_cast<void>(rondo_window_register(handle, buffer, bytes, 0, nullptr));
    return refuse(function, window == nullptr ? "the pointer for the result is NULL"
                                              : "the buffer is NULL, or its size is 0");
  }
  *window = nullptr;
  if (in_group()) {
    static_cast<void>(rondo_window_register(handle, buffer, bytes, 0, nullptr));  // refused, as above
    return ncclSuccess;
  }
  rondo_window_t made = nullptr;
  const unsigned symmetric = (flags & symmetric_window) != 0 ? RONDO_WINDOW_SYMMETRIC : 0;
  const rondo_status_t status = rondo_window_register(handle, buffer, bytes, symmetric, &made);
  if (status == RONDO_ERROR_UNSUPPORTED) return ncclSuccess;
  *window = reinterpret_cast<ncclWindow_t>(made);
  return pass_on(status, handle);
}
NCCL_ALIAS(CommWindowRegister)

NCCL_EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (const ncclResult_t alive = check_alive(comm, "ncclCommWindowDeregister"); alive != ncclSuccess) return alive;
  if (window == nullptr) return ncclSuccess;
  const rondo_comm_t handle = comm->handle;
  return pass_on(rondo_window_deregister(handle, window_of(window)), handle);
}
NCCL_ALIAS(CommWindowDeregister)

NCCL_EXPORT ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **pointer) {
  constexpr const char *function = "ncclWinGetUserPtr";
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  if (pointer == nullptr) return refuse(function, "the pointer for the result is NULL");
  return pass_on(rondo_window_pointer(window_of(window), comm->rank, pointer), nullptr);
}
NCCL_ALIAS(WinGetUserPtr)

NCCL_EXPORT ncclResult_t ncclPutSignal(const void *send, size_t count, ncclDataType_t type, int peer,
                                       ncclWindow_t window, size_t offset, int index, int context, unsigned flags,
                                       ncclComm_t comm, cudaStream_t stream) {
  constexpr const char *function = "ncclPutSignal";
  if (const ncclResult_t checked = check(function, comm, peer, index, context, flags); checked != ncclSuccess)
    return note(checked);
  if (type < 0 || type >= ncclNumTypes)
    return note(refuse(function, "the data type " + std::to_string(type) + " is unknown"));
  const size_t size = rondo_type_size(type_of(type));
  if (count > SIZE_MAX / size) return note(refuse(function, "count is too large"));
  return run_or_keep(OneSided{comm, stream, [=](rondo_comm_t handle, cudaStream_t on) {
    return rondo_put_signal(send, count * size, peer, window_of(window), offset, signal_of(index, context), handle, on);
  }});
}
NCCL_ALIAS(PutSignal)

NCCL_EXPORT ncclResult_t ncclSignal(int peer, int index, int context, unsigned flags, ncclComm_t comm,
                                    cudaStream_t stream) {
  if (const ncclResult_t checked = check("ncclSignal", comm, peer, index, context, flags); checked != ncclSuccess)
    return note(checked);
  const auto call = [=](rondo_comm_t handle, cudaStream_t on) {
    return rondo_signal(peer, signal_of(index, context), handle, on);
  };
  return run_or_keep(OneSided{comm, stream, call});
}
NCCL_ALIAS(Signal)

NCCL_EXPORT ncclResult_t ncclWaitSignal(int count, ncclWaitSignalDesc_t *waits, ncclComm_t comm, cudaStream_t stream) {
  constexpr const char *function = "ncclWaitSignal";
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return note(ready);
  if (count < 0 || (count > 0 && waits == nullptr))
    return note(refuse(function, "there are " + std::to_string(count) + " waits, or their array is NULL"));
  for (int at = 0; at < count; ++at) {
    const ncclWaitSignalDesc_t &each = waits[at];
    if (const ncclResult_t checked = check(function, comm, each.peer, each.sigIdx, each.ctx, 0);
        checked != ncclSuccess)
      return note(checked);
    if (each.opCnt < 0) return note(refuse(function, "opCnt is " + std::to_string(each.opCnt)));
  }
  for (int at = 0; at < count; ++at) {
    const auto call = [each = waits[at]](rondo_comm_t handle, cudaStream_t on) {
      return rondo_wait_signal(each.peer, signal_of(each.sigIdx, each.ctx), static_cast<uint64_t>(each.opCnt), handle,
                               on);
    };
    if (const ncclResult_t done = run_or_keep(OneSided{comm, stream, call}); done != ncclSuccess) return done;
  }
  return ncclSuccess;
}
NCCL_ALIAS(WaitSignal)
