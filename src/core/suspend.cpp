// SPDX-License-Identifier: Apache-2.0
#include "src/core/suspend.h"

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "src/base/cancel.h"
#include "src/base/clock.h"
#include "src/base/start_thread.h"
#include "src/core/derive.h"
#include "src/core/part.h"
#include "src/engine/watch.h"

namespace rondo {
namespace {

constexpr uint64_t suspend_poll_ns = 50'000;
constexpr auto look_interval = std::chrono::milliseconds(10);
constexpr const char *resuming = "rondo_comm_resume";

/// Adds the name of the function to an error.
Error in_resume(Error error) {
  error.message.insert(0, std::string(resuming) + ": ");
  return error;
}

/// Waits until all ranks have completed the barrier, and this rank's device runs neither its work nor a replayed graph.
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
      sleep_for_ns(suspend_poll_ns);
    }
  while (!comm.executor().is_idle()) {
    if (ranks.failed()) return ranks.failure();
    if (now_ns() >= deadline_ns)
      return Error{RONDO_ERROR_TIMEOUT,
                   "a replayed graph or a one-sided operation still used the communicator during rondo_comm_suspend; "
                   "synchronize its stream first",
                   static_cast<int32_t>(comm.rank()), -1, number};
    sleep_for_ns(suspend_poll_ns);
  }
  return {};
}

/// Runs the suspend once it has its turn among the operations.
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

/// Makes `error` the failure of the communicator, and returns that failure.
Result<void> fail(Communicator &comm, const Error &error) {
  comm.fail(error);
  return comm.report_failure();
}

/// Watches the other ranks while this rank waits for them in rondo_comm_resume. A thread ends the wait once the
/// communicator has failed. The thread also fails the communicator if a rank ends before all ranks have come.
class ResumeWatch {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ResumeWatch>> start(Communicator &comm) {
    auto cancel = Cancel::make();
    if (!cancel.ok()) return cancel.error();
    std::unique_ptr<ResumeWatch> watch(new ResumeWatch(comm, std::move(cancel).value()));
    RONDO_TRY_ASSIGN(watch->thread_, start_thread(resuming, [it = watch.get()] { it->run(); }));
    return watch;
  }
  ResumeWatch(const ResumeWatch &) = delete;
  ResumeWatch &operator=(const ResumeWatch &) = delete;
  ~ResumeWatch() {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] const Cancel &cancel() const { return *cancel_; }
  /// Records that all ranks have come. From now on, another rank may resume and then end its communicator without a
  /// failure.
  void note_all_have_come() {
    const std::lock_guard lock(mutex_);
    all_have_come_ = true;
  }

 private:
  ResumeWatch(Communicator &comm, std::unique_ptr<Cancel> cancel)
      : comm_(comm), number_(comm.ranks().completed_operation(comm.rank()) + 1), cancel_(std::move(cancel)) {}

  void run() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, look_interval, [this] { return over_; })) {
      const Ranks &ranks = comm_.ranks();
      if (!all_have_come_ && !ranks.failed())
        if (const auto ended = find_ended_rank(ranks, comm_.rank(), comm_.rank_count(), number_, RankEnd::any))
          comm_.fail(in_resume(*ended));  // before the wait ends, so that other ranks learn this reason
      if (!ranks.failed()) continue;
      cancel_->request();
      return;
    }
  }

  Communicator &comm_;
  const uint64_t number_;  ///< number of the next operation, which no rank has completed
  const std::unique_ptr<Cancel> cancel_;
  std::mutex mutex_;  ///< guards the members below
  std::condition_variable wake_;
  bool over_ = false;
  bool all_have_come_ = false;
  std::thread thread_;
};

/// Does the work of a suspend after begin_suspend().
Result<void> suspend_now(Communicator &comm, const std::shared_ptr<Part> &meeting) {
  // Streams order one-sided operations, and the barrier does not wait for them. So wait here.
  if (!comm.executor().wait_for_one_sided()) return comm.report_failure();
  SplitCall own;
  own.suspends = true;
  if (comm.rank() == 0) {
    const PartOffer offer = meeting->offer();
    own.port = offer.port;
    own.nonce = offer.nonce;
  }
  const Signature record = record_of(own);
  const auto barrier = comm.begin_split(record);
  const auto done = barrier.ok() ? give_back(comm, *meeting, own, barrier.value()) : Result<void>(barrier.error());
  if (!done.ok()) {
    if (comm.ranks().failed()) return done;
    return fail(comm, done.error());
  }
  comm.keep_meeting(meeting);
  return {};
}

/// Does the work of a resume after begin_resume().
Result<void> resume_now(Communicator &comm, const std::shared_ptr<Part> &meeting) {
  const uint64_t deadline_ns = now_ns() + comm.settings().timeout_ns;
  const auto watch = ResumeWatch::start(comm);
  if (!watch.ok()) return fail(comm, in_resume(watch.error()));
  const auto done = meeting->gather(deadline_ns, watch.value()->cancel(), [&](const Rendezvous &ranks) {
    watch.value()->note_all_have_come();
    return comm.executor().resume(*ranks.store, ranks.key_prefix, deadline_ns);
  });
  if (!done.ok()) {
    if (comm.failure()) return comm.report_failure();
    return fail(comm, in_resume(done.error()));
  }
  comm.end_suspension();
  return {};
}

/// Calls work(). A lack of memory or threads fails the communicator, too.
Result<void> run(Communicator::Change &work, Communicator &comm, const std::shared_ptr<Part> &meeting) {
  try {
    return work(comm, meeting);
  } catch (const std::exception &) {
    return fail(comm, {RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"});
  }
}

}  // namespace

Result<void> suspend(const std::shared_ptr<Communicator> &comm) {
  const auto meeting = std::make_shared<Part>(comm, comm->settings(), resuming);
  RONDO_TRY(comm->begin_suspend(suspend_now, meeting));
  return comm->settings().nonblocking ? Result<void>() : run(suspend_now, *comm, meeting);
}

Result<void> resume(const std::shared_ptr<Communicator> &comm) {
  if (comm->failure()) return comm->report_failure();
  RONDO_TRY_ASSIGN(const auto meeting, comm->begin_resume(resume_now));
  return comm->settings().nonblocking ? Result<void>() : run(resume_now, *comm, meeting);
}

Result<void> Communicator::begin_suspend(Change &work, const std::shared_ptr<Part> &meeting) {
  const std::lock_guard lock(submit_lock_);
  RONDO_TRY(check_usable_locked());
  RONDO_TRY(start_change(work, meeting));
  halted_ = true;
  suspended_.store(true, std::memory_order_relaxed);  // relaxed: see its declaration
  return {};
}

Result<std::shared_ptr<Part>> Communicator::begin_resume(Change &work) {
  const std::lock_guard lock(submit_lock_);
  if (!is_suspended())
    return Error{RONDO_ERROR_INVALID_USAGE, "the communicator is not suspended; rondo_comm_suspend comes first"};
  if (meeting_ == nullptr)
    return Error{RONDO_ERROR_INVALID_USAGE, "another thread is suspending or resuming the communicator"};
  RONDO_TRY(start_change(work, meeting_));
  return std::move(meeting_);
}

void Communicator::keep_meeting(std::shared_ptr<Part> meeting) {
  const std::lock_guard lock(submit_lock_);
  meeting_.swap(meeting);
}

void Communicator::end_suspension() {
  const std::lock_guard lock(submit_lock_);
  halted_ = finalized_ || operations_.has_left();
  suspended_.store(false, std::memory_order_relaxed);  // relaxed: see its declaration
}

/// Starts a thread that runs work(), if the communicator is nonblocking. The caller holds submit_lock_.
Result<void> Communicator::start_change(Change &work, const std::shared_ptr<Part> &meeting) {
  if (!settings_.nonblocking) return {};
  const std::lock_guard lock(change_mutex_);  // the thread takes it, too, so the thread ends after the store below
  if (changes_ended_)
    return Error{RONDO_ERROR_INVALID_HANDLE, "another thread destroys the communicator, or ends the process"};
  if (changer_.joinable()) changer_.join();  // the thread of an earlier change, which needs no lock any more
  RONDO_TRY_ASSIGN(changer_, start_thread("a communicator that is suspended or resumed",
                                          [self = shared_from_this(), &work, meeting] {
                                            { const std::lock_guard begun(self->change_mutex_); }
                                            static_cast<void>(run(work, *self, meeting));
                                            self->changing_.store(false, std::memory_order_release);
                                          }));
  changing_.store(true, std::memory_order_relaxed);  // relaxed: no other thread may use the communicator now
  return {};
}

void Communicator::end_changes() {
  std::thread changer;
  {
    const std::lock_guard lock(change_mutex_);
    changes_ended_ = true;
    changer.swap(changer_);
  }
  if (is_changing())
    operations_.raise({RONDO_ERROR_ABORTED, "rank " + std::to_string(rank_) +
                                                " ended its communicator while it was suspended or resumed"},
                      next_number());
  if (changer.joinable()) changer.join();
}

Result<void> Communicator::check_not_suspended() const {
  if (!is_suspended()) return {};
  return Error{RONDO_ERROR_INVALID_USAGE,
               "the communicator is suspended; call rondo_comm_resume on every rank before it is used again"};
}

}  // namespace rondo
