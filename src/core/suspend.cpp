// SPDX-License-Identifier: Apache-2.0
#include "src/core/suspend.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/core/part.h"
#include "src/core/split.h"
#include "src/engine/watch.h"

namespace rondo {
namespace {

constexpr uint64_t poll_ns = 50'000;
constexpr const char *resuming = "rondo_comm_resume";

/// Waits until all ranks have completed the barrier, and this rank's device runs nothing, no replay either.
Result<void> wait_for_quiet(Communicator &comm, uint64_t number, uint64_t deadline_ns) {
  const Ranks &ranks = comm.ranks();
  for (uint32_t peer = 0; peer < comm.rank_count(); ++peer)
    while (ranks.completed_operation(peer) < number) {
      if (ranks.failed()) return ranks.failure();
      const auto ended = find_ended_rank(ranks, comm.rank(), comm.rank_count(), number, RankEnd::any);
      if (ended) return *ended;
      if (now_ns() >= deadline_ns)
        return Error{RONDO_ERROR_TIMEOUT, ranks.describe_rank(peer) + " did not complete rondo_comm_suspend in time",
                     static_cast<int32_t>(comm.rank()), static_cast<int32_t>(peer), number};
      sleep_for_ns(poll_ns);
    }
  while (!comm.executor().is_idle()) {
    if (ranks.failed()) return ranks.failure();
    if (now_ns() >= deadline_ns)
      return Error{RONDO_ERROR_TIMEOUT,
                   "a replayed graph still used the communicator during rondo_comm_suspend; synchronize its stream "
                   "first",
                   static_cast<int32_t>(comm.rank()), -1, number};
    sleep_for_ns(poll_ns);
  }
  return {};
}

/// Does what follows when the suspend has its turn among the operations.
Result<void> give_back(Communicator &comm, Part &meeting, const SplitCall &own, const WorkItem &barrier) {
  RONDO_TRY(comm.end_split(barrier));
  const uint64_t deadline_ns = now_ns() + comm.settings().timeout_ns;
  RONDO_TRY_ASSIGN(const SplitCall first, recorded_call(comm, 0, barrier.number, own, deadline_ns));
  std::vector<uint32_t> all(comm.rank_count());
  for (uint32_t rank = 0; rank < comm.rank_count(); ++rank) all[rank] = rank;
  RONDO_TRY(meeting.meet(std::move(all), {first.port, first.nonce}, barrier.number));
  if (comm.settings().device == RONDO_DEVICE_HOST) return {};
  RONDO_TRY(wait_for_quiet(comm, barrier.number, deadline_ns));
  return comm.executor().suspend();
}

/// Makes an error of one rank the failure of the communicator, and returns that.
Result<void> fail(Communicator &comm, const Error &error) {
  comm.fail(error);
  return comm.report_failure();
}

}  // namespace

Result<void> suspend(const std::shared_ptr<Communicator> &comm) {
  const auto meeting = std::make_shared<Part>(comm, comm->settings(), resuming);
  SplitCall own;
  own.suspends = true;
  if (comm->rank() == 0) {
    const PartOffer offer = meeting->offer();
    own.port = offer.port;
    own.nonce = offer.nonce;
  }
  const Signature record = record_of(own);
  RONDO_TRY_ASSIGN(const WorkItem barrier, comm->begin_split(record));
  if (const auto done = give_back(*comm, *meeting, own, barrier); !done.ok()) {
    if (comm->ranks().failed()) return done;
    return fail(*comm, done.error());
  }
  comm->keep_meeting(meeting);
  return {};
}

Result<void> resume(const std::shared_ptr<Communicator> &comm) {
  if (comm->failure()) return comm->report_failure();
  if (!comm->is_suspended())
    return Error{RONDO_ERROR_INVALID_USAGE, "the communicator is not suspended; rondo_comm_suspend comes first"};
  const auto meeting = comm->take_meeting();
  if (meeting == nullptr)
    return Error{RONDO_ERROR_INVALID_USAGE, "another thread is suspending or resuming the communicator"};
  const uint64_t deadline_ns = now_ns() + comm->settings().timeout_ns;
  const auto done = meeting->gather(deadline_ns, [&](const Rendezvous &ranks) {
    return comm->executor().resume(*ranks.store, ranks.key_prefix, deadline_ns);
  });
  if (!done.ok()) {
    if (comm->failure()) return comm->report_failure();
    Error error = done.error();
    error.message.insert(0, std::string(resuming) + ": ");
    return fail(*comm, error);
  }
  comm->end_suspension();
  return {};
}

void Communicator::keep_meeting(std::shared_ptr<Part> meeting) {
  const std::lock_guard lock(submit_lock_);
  meeting_ = std::move(meeting);
}

std::shared_ptr<Part> Communicator::take_meeting() {
  const std::lock_guard lock(submit_lock_);
  return std::move(meeting_);
}

void Communicator::end_suspension() {
  const std::lock_guard lock(submit_lock_);
  halted_ = finalized_;
  suspended_.store(false, std::memory_order_relaxed);  // relaxed: see its declaration
}

Result<void> Communicator::check_not_suspended() const {
  if (!is_suspended()) return {};
  return Error{RONDO_ERROR_INVALID_USAGE,
               "the communicator is suspended; call rondo_comm_resume on every rank before it is used again"};
}

}  // namespace rondo
