// SPDX-License-Identifier: Apache-2.0
#include "src/compat/communicator.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

#include "src/compat/exports.h"
#include "src/compat/failure.h"
#include "src/compat/group.h"

namespace rondo::compat {
namespace {

/// All ncclComm objects of this process. They are never freed.
struct Pool {
  std::mutex mutex;
  std::vector<std::unique_ptr<ncclComm>> all;
  std::vector<ncclComm *> free;  ///< unused objects; the one that ended first is reused first
};

Pool &pool() {
  static auto *const instance = new Pool;
  return *instance;
}

/// Returns the communicator's status, or the error of the query if that fails.
rondo_status_t status_of(rondo_comm_t handle) {
  rondo_status_t status = RONDO_OK;
  const rondo_status_t asked = rondo_comm_get_async_error(handle, &status);
  return asked == RONDO_OK ? status : asked;
}

/// Stores the communicator's own failure as the last error.
ncclResult_t fail_with(rondo_comm_t handle, rondo_status_t status) {
  if (status == RONDO_OK) return ncclSuccess;
  return fail(result_of(status), rondo_last_error_message(handle));
}

void set_ready(ncclComm *comm, rondo_comm_t handle) {
  int rank = 0, rank_count = 0;
  if (rondo_comm_rank(handle, &rank) != RONDO_OK || rondo_comm_size(handle, &rank_count) != RONDO_OK) return;
  comm->rank = rank;
  comm->rank_count = rank_count;
  comm->ready = true;
}

ncclResult_t still_being_made(const char *function) {
  return fail(ncclInvalidArgument, std::string(function) +
                                       ": the communicator is still being made; call ncclCommGetAsyncError until it no "
                                       "longer returns ncclInProgress, or end the group that makes it");
}

}  // namespace

ncclComm *make_communicator(int rank, int rank_count, int device, bool blocking) {
  Pool &all = pool();
  const std::lock_guard lock(all.mutex);
  ncclComm *comm = nullptr;
  if (all.free.empty()) {
    all.all.push_back(std::make_unique<ncclComm>());
    comm = all.all.back().get();
  } else {
    comm = all.free.front();
    all.free.erase(all.free.begin());
  }
  comm->ready = false;
  comm->finalized = false;
  comm->revoked = comm->shrunk = false;
  comm->handle = nullptr;
  comm->refusal = ncclSuccess;
  comm->rank = rank;
  comm->rank_count = rank_count;
  comm->device = device;
  comm->blocking = blocking;
  comm->alive = true;
  return comm;
}

bool retire(ncclComm *comm, rondo_comm_t handle) {
  Pool &all = pool();
  const std::lock_guard lock(all.mutex);
  if (!comm->alive || comm->handle != handle) return false;
  comm->alive = false;
  comm->handle = nullptr;
  all.free.push_back(comm);
  return true;
}

bool keep_refused(ncclComm *comm, rondo_comm_t handle, ncclResult_t refusal) {
  const std::lock_guard lock(pool().mutex);
  if (!comm->alive || comm->handle != handle) return false;
  comm->refusal = refusal;  // before the handle, as state_of() reads both
  comm->handle = nullptr;
  return true;
}

ncclResult_t check_alive(const ncclComm *comm, const char *function) {
  if (comm == nullptr) return fail(ncclInvalidArgument, std::string(function) + ": the communicator is NULL");
  if (!comm->alive)
    return fail(
        ncclInvalidArgument,
        std::string(function) + ": the handle is not of a communicator, or of one that was destroyed or aborted");
  return ncclSuccess;
}

ncclResult_t check_ready_state(ncclComm *comm, const char *function) {
  if (const ncclResult_t alive = check_alive(comm, function); alive != ncclSuccess) return alive;
  const ncclResult_t state = state_of(comm);
  if (state == ncclInProgress) return still_being_made(function);
  return state;
}

ncclResult_t state_of(ncclComm *comm) {
  const rondo_comm_t handle = comm->handle;
  if (handle == nullptr) {
    const ncclResult_t refusal = comm->refusal;
    return refusal != ncclSuccess ? refusal : ncclInProgress;
  }
  const rondo_status_t status = status_of(handle);
  // A suspend or a resume of a communicator that is ready waits, on another thread. So it is not in progress for NCCL.
  if (status == RONDO_NOT_READY) return comm->ready ? ncclSuccess : ncclInProgress;
  if (status == RONDO_OK || status == RONDO_ERROR_REVOKED) set_ready(comm, handle);
  if (comm->revoked || (comm->shrunk && status == RONDO_ERROR_REVOKED)) return ncclSuccess;
  return fail_with(handle, status);
}

void Naps::take() {
  constexpr long longest_nap_ns = 500'000;
  static_cast<void>(::nanosleep(&next_, nullptr));
  next_.tv_nsec = std::min(2 * next_.tv_nsec, longest_nap_ns);
}

ncclResult_t wait_until_made(ncclComm *comm, bool stays) {
  const rondo_comm_t handle = comm->handle;
  rondo_status_t status = status_of(handle);
  for (Naps naps; status == RONDO_NOT_READY; status = status_of(handle)) naps.take();
  if (status == RONDO_OK) {
    set_ready(comm, handle);
    return ncclSuccess;
  }
  if (status == RONDO_ERROR_INVALID_HANDLE)
    return fail(ncclInvalidUsage, "the communicator was aborted by another thread while it was being made");
  const ncclResult_t failed = fail_with(handle, status);
  const bool ended = stays ? keep_refused(comm, handle, failed) : retire(comm, handle);
  if (ended) static_cast<void>(rondo_comm_destroy(handle));
  return failed;
}

ncclResult_t change_of(rondo_comm_t handle) {
  const rondo_status_t status = status_of(handle);
  if (status == RONDO_NOT_READY) return ncclInProgress;
  if (status == RONDO_ERROR_INVALID_HANDLE)
    return fail(ncclInvalidUsage, "the communicator was ended by another thread while it was suspended or resumed");
  return fail_with(handle, status);
}

ncclResult_t end_communicator(ncclComm *comm, bool abort) {
  const rondo_comm_t handle = comm->handle;
  if (!retire(comm, handle) || handle == nullptr) return ncclSuccess;
  if (abort) static_cast<void>(rondo_comm_abort(handle));
  return pass_on(rondo_comm_destroy(handle), handle);
}

}  // namespace rondo::compat
