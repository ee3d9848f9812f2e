// SPDX-License-Identifier: Apache-2.0
// This file suspends and resumes communicators, and reports their device memory.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/compat/exports.h"
#include "src/compat/failure.h"
#include "src/compat/group.h"

using namespace rondo::compat;

namespace {

/// The suspensions of one communicator.
struct Queue {
  rondo_comm_t comm;
  std::vector<bool> resumes;  ///< for each suspension, whether it is a resume
  size_t begun_count = 0;
};

/// Begins the next suspension if the earlier one has ended. Returns ncclInProgress until all have ended, or one failed.
ncclResult_t advance(Queue &queue) {
  if (queue.begun_count != 0)
    if (const ncclResult_t ended = change_of(queue.comm); ended != ncclSuccess) return ended;
  if (queue.begun_count == queue.resumes.size()) return ncclSuccess;
  const bool resumes = queue.resumes[queue.begun_count++];
  const auto status = resumes ? rondo_comm_resume(queue.comm) : rondo_comm_suspend(queue.comm, RONDO_SUSPEND_MEMORY);
  return status == RONDO_OK ? ncclInProgress : pass_on(status, queue.comm);
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
  std::vector<Queue> queues;
  for (const Suspension &each : suspensions) {
    const rondo_comm_t comm = each.comm->handle;
    auto found = std::find_if(queues.begin(), queues.end(), [&](const Queue &queue) { return queue.comm == comm; });
    if (found == queues.end()) found = queues.insert(found, Queue{comm, {}});
    found->resumes.push_back(each.resumes);
  }
  ncclResult_t first = ncclSuccess;
  std::string sentence;
  for (Naps naps; !queues.empty(); naps.take()) {
    std::vector<Queue> left;
    for (Queue &queue : queues) {
      const ncclResult_t result = advance(queue);
      if (result == ncclInProgress) left.push_back(std::move(queue));
      if (result == ncclInProgress || result == ncclSuccess || first != ncclSuccess) continue;
      first = result;
      sentence = last_failure();
    }
    queues.swap(left);
  }
  return first == ncclSuccess ? first : fail(first, sentence);
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
