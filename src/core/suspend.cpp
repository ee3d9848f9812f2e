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

constexpr uint64_t poll_ns = 50'000;
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
      sleep_for_ns(poll_ns);
    }
  while (!comm.executor().is_idle()) {
    if (ranks.failed()) return ranks.failure();
    if (now_ns() >= deadline_ns)
      return Error{RONDO_ERROR_TIMEOUT,
                   "a replayed graph or a one-sided operation still used the communicator during rondo_comm_suspend; "
                   "synchronize its stream first",
                   static_cast<int32_t>(comm.rank()), -1, number};
    sleep_for_ns(poll_ns);
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

/// Does the work of a suspend after begin_suspension().
Result<void> suspend_now(const std::shared_ptr<Communicator> &comm, const std::shared_ptr<Part> &meeting) {
  // Streams order one-sided operations, and the barrier does not wait for them. So wait here.
  if (!comm->executor().wait_for_one_sided()) return comm->report_failure();
  SplitCall own;
  own.suspends = true;
  if (comm->rank() == 0) {
    const PartOffer offer = meeting->offer();
    own.port = offer.port;
    own.nonce = offer.nonce;
  }
  const Signature record = record_of(own);
  const auto barrier = comm->begin_split(record);
  const auto done = barrier.ok() ? give_back(*comm, *meeting, own, barrier.value()) : Result<void>(barrier.error());
  if (!done.ok()) {
    if (comm->ranks().failed()) return done;
    return fail(*comm, done.error());
  }
  comm->keep_meeting(meeting);
  return {};
}

/// Does the work of a resume after take_meeting().
Result<void> resume_now(const std::shared_ptr<Communicator> &comm, const std::shared_ptr<Part> &meeting) {
  const uint64_t deadline_ns = now_ns() + comm->settings().timeout_ns;
  const auto watch = ResumeWatch::start(*comm);
  if (!watch.ok()) return fail(*comm, in_resume(watch.error()));
  const auto done = meeting->gather(deadline_ns, watch.value()->cancel(), [&](const Rendezvous &ranks) {
    watch.value()->note_all_have_come();
    return comm->executor().resume(*ranks.store, ranks.key_prefix, deadline_ns);
  });
  if (!done.ok()) {
    if (comm->failure()) return comm->report_failure();
    return fail(*comm, in_resume(done.error()));
  }
  comm->end_suspension();
  return {};
}

}  // namespace

Result<void> suspend(const std::shared_ptr<Communicator> &comm) {
  const auto meeting = std::make_shared<Part>(comm, comm->settings(), resuming);
  RONDO_TRY(comm->begin_suspension());
  return comm->change(suspend_now, meeting);
}

Result<void> resume(const std::shared_ptr<Communicator> &comm) {
  if (comm->failure()) return comm->report_failure();
  RONDO_TRY(comm->check_not_changing());
  if (!comm->is_suspended())
    return Error{RONDO_ERROR_INVALID_USAGE, "the communicator is not suspended; rondo_comm_suspend comes first"};
  const auto meeting = comm->take_meeting();
  if (meeting == nullptr)
    return Error{RONDO_ERROR_INVALID_USAGE, "another thread is suspending or resuming the communicator"};
  return comm->change(resume_now, meeting);
}

Result<void> Communicator::begin_suspension() {
  const std::lock_guard lock(submit_lock_);
  RONDO_TRY(check_usable_locked());
  halted_ = true;
  suspended_.store(true, std::memory_order_relaxed);  // relaxed: see its declaration
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

Result<void> Communicator::change(Change &work, const std::shared_ptr<Part> &meeting) {
  if (settings_.nonblocking && start_change(work, meeting)) return {};
  return run_change(work, meeting);
}

Result<void> Communicator::run_change(Change &work, const std::shared_ptr<Part> &meeting) {
  try {
    return work(shared_from_this(), meeting);
  } catch (const std::exception &) {  // for lack of memory or threads
    fail({RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"});
    return report_failure();
  }
}

/// Starts a thread that calls run_change(). Returns false if no thread can be started.
bool Communicator::start_change(Change &work, const std::shared_ptr<Part> &meeting) {
  const std::lock_guard lock(change_mutex_);
  if (changer_.joinable()) changer_.join();  // the thread of an earlier change, which has ended
  changing_.store(true, std::memory_order_relaxed);  // the start of the thread orders it before the store below
  try {
    auto thread = start_thread("a communicator that is suspended or resumed",
                               [self = shared_from_this(), &work, meeting] {
                                 static_cast<void>(self->run_change(work, meeting));
                                 self->changing_.store(false, std::memory_order_release);  // see check_not_changing()
                               });
    if (thread.ok()) {
      changer_ = std::move(thread).value();
      return true;
    }
  } catch (const std::bad_alloc &) {
  }
  changing_.store(false, std::memory_order_relaxed);
  return false;
}

void Communicator::end_change() {
  if (!check_not_changing().ok())
    operations_.raise({RONDO_ERROR_ABORTED, "rank " + std::to_string(rank_) +
                                                " destroyed its communicator while it was suspended or resumed"},
                      next_number());
  const std::lock_guard lock(change_mutex_);
  if (changer_.joinable()) changer_.join();
}

Result<void> Communicator::check_not_changing() const {
  if (!changing_.load(std::memory_order_acquire)) return {};  // pairs with start_change()
  return Error{RONDO_NOT_READY, "the communicator is still being suspended or resumed; rondo_comm_get_async_error() "
                                "reports when that has ended"};
}

Result<void> Communicator::check_not_suspended() const {
  RONDO_TRY(check_not_changing());
  if (!is_suspended()) return {};
  return Error{RONDO_ERROR_INVALID_USAGE,
               "the communicator is suspended; call rondo_comm_resume on every rank before it is used again"};
}

}  // namespace rondo
