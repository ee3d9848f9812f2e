// SPDX-License-Identifier: Apache-2.0
// This file suspends and resumes communicators, and reports their device memory.
#include <signal.h>

#include <algorithm>
#include <exception>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/compat/exports.h"
#include "src/compat/failure.h"
#include "src/compat/group.h"

using namespace rondo::compat;

namespace {

ncclResult_t run(const Suspension &it) {
  const rondo_comm_t handle = it.comm->handle;
  const rondo_status_t status =
      it.resumes ? rondo_comm_resume(handle) : rondo_comm_suspend(handle, RONDO_SUSPEND_MEMORY);
  return status == RONDO_OK ? ncclSuccess : pass_on(status, handle);
}

/// Runs the suspensions of one communicator in order, and stops after a failure.
ncclResult_t run_of(const ncclComm *comm, const std::vector<Suspension> &suspensions) {
  for (const Suspension &each : suspensions)
    if (each.comm == comm)
      if (const ncclResult_t result = run(each); result != ncclSuccess) return result;
  return ncclSuccess;
}

/// Threads that each run the suspensions of one communicator. They wait for release() before they run any. So if one
/// thread cannot start, no suspension has begun.
class Helpers {
 public:
  explicit Helpers(size_t count_max) : results_(count_max, ncclSuccess), released_(go_.get_future().share()) {
    threads_.reserve(count_max);
  }
  Helpers(const Helpers &) = delete;
  Helpers &operator=(const Helpers &) = delete;
  ~Helpers() {
    release(false);
    join();
  }

  ncclResult_t start(const ncclComm *comm, const std::vector<Suspension> &suspensions) {
    sigset_t all, before;  // blocked here, as signals belong to the application's threads
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const ncclResult_t started = try_to_start(comm, suspensions);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return started;
  }
  /// Lets the threads run their suspensions.
  void go() { release(true); }
  /// Waits until all threads have ended, and returns their results.
  const std::vector<ncclResult_t> &join() {
    for (std::thread &thread : threads_)
      if (thread.joinable()) thread.join();
    return results_;
  }

 private:
  void release(bool runs) {
    if (!std::exchange(is_released_, true)) go_.set_value(runs);
  }
  ncclResult_t try_to_start(const ncclComm *comm, const std::vector<Suspension> &suspensions) {
    try {
      threads_.emplace_back([released = released_, &result = results_[threads_.size()], comm, &suspensions] {
        if (released.get()) result = run_of(comm, suspensions);
      });
    } catch (const std::exception &error) {
      return fail(ncclSystemError, std::string("ncclGroupEnd: no thread could be started for a communicator that is "
                                               "suspended or resumed: ") +
                                       error.what() + "; raise the limit on threads (ulimit -u)");
    }
    return ncclSuccess;
  }

  std::vector<ncclResult_t> results_;
  std::promise<bool> go_;
  std::shared_future<bool> released_;
  std::vector<std::thread> threads_;
  bool is_released_ = false;
};

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
  std::vector<const ncclComm *> comms;  // each communicator once
  for (const Suspension &each : suspensions)
    if (std::find(comms.begin(), comms.end(), each.comm) == comms.end()) comms.push_back(each.comm);
  if (comms.empty()) return ncclSuccess;
  Helpers helpers(comms.size());
  for (size_t other = 1; other < comms.size(); ++other)
    if (const ncclResult_t started = helpers.start(comms[other], suspensions); started != ncclSuccess) return started;
  helpers.go();
  const ncclResult_t own = run_of(comms[0], suspensions);
  const auto &results = helpers.join();
  const auto is_failure = [](ncclResult_t result) { return result != ncclSuccess; };
  const auto failed = std::find_if(results.begin(), results.end(), is_failure);
  return own != ncclSuccess || failed == results.end() ? own : *failed;
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
