// SPDX-License-Identifier: Apache-2.0
// This file suspends and resumes communicators, and reports their device memory.
#include <algorithm>
#include <string>
#include <vector>

#include "src/compat/exports.h"
#include "src/compat/failure.h"
#include "src/compat/group.h"

using namespace rondo::compat;

namespace {

ncclResult_t begin(const Suspension &it) {
  const rondo_comm_t handle = it.comm->handle;
  const rondo_status_t status =
      it.resumes ? rondo_comm_resume(handle) : rondo_comm_suspend(handle, RONDO_SUSPEND_MEMORY);
  return status == RONDO_OK ? ncclSuccess : pass_on(status, handle);
}

ncclResult_t suspend(ncclComm *comm, int flags) {
  constexpr const char *function = "ncclCommSuspend";
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  if (flags != ncclSuspendMemory)
    return fail(ncclInvalidArgument, std::string(function) + ": the flags are " + std::to_string(flags) +
                                         "; NCCL_SUSPEND_MEM (1) alone is known");
  return run_or_keep(Suspension{comm, false});
}

ncclResult_t resume(ncclComm *comm) {
  if (const ncclResult_t ready = check_ready(comm, "ncclCommResume"); ready != ncclSuccess) return ready;
  return run_or_keep(Suspension{comm, true});
}

ncclResult_t tell_memory(ncclComm *comm, ncclCommMemStat_t stat, uint64_t *value) {
  constexpr const char *function = "ncclCommMemStats";
  if (const ncclResult_t ready = check_ready(comm, function); ready != ncclSuccess) return ready;
  if (value == nullptr)
    return fail(ncclInvalidArgument, std::string(function) + ": the pointer for the result is NULL");
  uint64_t suspendable = 0, persistent = 0;
  int suspended = 0;
  const rondo_comm_t handle = comm->handle;
  if (const auto status = rondo_comm_device_memory(handle, &suspendable, &persistent, &suspended); status != RONDO_OK)
    return pass_on(status, handle);
  switch (stat) {
    case ncclStatGpuMemSuspend: *value = suspendable; return ncclSuccess;
    case ncclStatGpuMemSuspended: *value = suspended != 0 ? 1 : 0; return ncclSuccess;
    case ncclStatGpuMemPersist: *value = persistent; return ncclSuccess;
    case ncclStatGpuMemTotal: *value = suspendable + persistent; return ncclSuccess;
  }
  return fail(ncclInvalidArgument, std::string(function) + ": there is no figure " + std::to_string(stat));
}

}  // namespace

ncclResult_t rondo::compat::run_suspensions(const std::vector<Suspension> &suspensions) {
  ncclResult_t first = ncclSuccess;
  const auto note_failure = [&](ncclResult_t result) {
    if (first == ncclSuccess) first = result;
    return result != ncclSuccess;
  };
  std::vector<Suspension> left = suspensions, later;
  while (!left.empty() && first == ncclSuccess) {
    std::vector<ncclComm *> seen, begun;  // communicators of this round
    later.clear();
    for (const Suspension &each : left) {
      if (std::find(seen.begin(), seen.end(), each.comm) != seen.end()) {
        later.push_back(each);
        continue;
      }
      seen.push_back(each.comm);
      if (!note_failure(begin(each))) begun.push_back(each.comm);
    }
    for (ncclComm *const comm : begun) static_cast<void>(note_failure(wait_until_changed(comm)));
    left.swap(later);
  }
  return first;
}

/// Gives device memory back on all ranks. Waits for the other ranks, even if the communicator is nonblocking.
NCCL_EXPORT ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags) { return note(suspend(comm, flags)); }
NCCL_ALIAS(CommSuspend)

/// Allocates again what ncclCommSuspend() gave back. Waits for the other ranks, too.
NCCL_EXPORT ncclResult_t ncclCommResume(ncclComm_t comm) { return note(resume(comm)); }
NCCL_ALIAS(CommResume)

NCCL_EXPORT ncclResult_t ncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value) {
  return tell_memory(comm, stat, value);
}
NCCL_ALIAS(CommMemStats)
