// SPDX-License-Identifier: Apache-2.0
#include "src/core/derive.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "src/base/clock.h"
#include "src/base/start_thread.h"
#include "src/core/part.h"

namespace rondo {
namespace {

constexpr uint64_t record_poll_ns = 50'000;
constexpr uint64_t record_lag_ns = 1'000'000'000;  // longest time in which the record of an ended rank arrives
constexpr auto cancel_poll = std::chrono::milliseconds(1);

using Made = Part::Made;

/// The state of a split on one rank. A thread may wait for the parent's ranks, so that the handle can be cancelled.
class Split : public std::enable_shared_from_this<Split> {
 public:
  Split(std::shared_ptr<Communicator> parent, Settings settings)
      : parent_(parent), part_(std::move(parent), std::move(settings), "rondo_comm_split") {}
  Split(const Split &) = delete;
  Split &operator=(const Split &) = delete;
  ~Split();

  /// Gives the split its turn among the operations of the parent.
  [[nodiscard]] Result<void> begin(int color, int key);
  /// Waits for the other ranks and makes the part. Returns null if this rank has no color. `cancel` may be null; if it
  /// is requested, the wait ends.
  [[nodiscard]] Made run(const Cancel *cancel);
  /// Starts a thread that waits for the other ranks. Returns false if no thread can be started.
  [[nodiscard]] bool agree_behind();

 private:
  [[nodiscard]] bool has_color() const { return call_.color != RONDO_NO_COLOR; }
  [[nodiscard]] Result<void> agree();
  void finish_behind();
  [[nodiscard]] Result<void> wait_for_agreement(const Cancel &cancel);

  const std::shared_ptr<Communicator> parent_;
  Part part_;
  SplitCall call_;  ///< call of this rank
  Signature record_;
  WorkItem work_;
  bool owes_turn_ = false;  ///< true after the turn on the parent was taken, until agree() begins

  std::mutex mutex_;  ///< guards the following members
  std::condition_variable agreement_;
  std::optional<Result<void>> agreed_;
  bool given_up_ = false;  ///< true if no thread waits for agreed_ any more
};

Result<void> Split::begin(int color, int key) {
  call_.color = color;
  call_.key = key;
  if (has_color()) {
    const PartOffer offer = part_.offer();
    call_.port = offer.port;
    call_.nonce = offer.nonce;
  }
  record_ = record_of(call_);
  RONDO_TRY_ASSIGN(work_, parent_->begin_split(record_));
  owes_turn_ = true;
  return {};
}

/// Fails the parent if this split has a turn but never ran, since operations with later turns would never run.
Split::~Split() {
  if (owes_turn_)
    parent_->fail({RONDO_ERROR_OUT_OF_RESOURCES, "rondo_comm_split could not be continued here, for lack of memory or "
                                                 "handles; only rondo_comm_abort and rondo_comm_destroy are left"});
}

Result<void> Split::agree() {
  owes_turn_ = false;
  RONDO_TRY(parent_->end_split(work_));
  if (!has_color()) return {};
  const uint64_t deadline_ns = now_ns() + parent_->settings().timeout_ns;
  std::vector<SplitCall> calls;
  for (uint32_t rank = 0; rank < parent_->rank_count(); ++rank) {
    RONDO_TRY_ASSIGN(const SplitCall call, recorded_call(*parent_, rank, work_.number, call_, deadline_ns));
    calls.push_back(call);
  }
  std::vector<uint32_t> members = members_of(calls, call_.color);
  const SplitCall &first = calls[members.front()];
  return part_.meet(std::move(members), {first.port, first.nonce}, work_.number);
}

bool Split::agree_behind() {
  auto thread = start_thread("a split that is not waited for", [self = shared_from_this()] { self->finish_behind(); });
  if (thread.ok()) thread.value().detach();
  return thread.ok();
}

void Split::finish_behind() {
  Result<void> agreed = Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"};
  try {
    agreed = agree();
    std::unique_lock lock(mutex_);
    agreed_ = agreed;
    agreement_.notify_all();
    const bool reports = given_up_ && agreed.ok() && has_color();
    lock.unlock();
    if (reports) part_.report_given_up(part_.settings().init_timeout_ns);
  } catch (const std::exception &) {
    const std::lock_guard lock(mutex_);
    if (!agreed_) agreed_ = std::move(agreed);
    agreement_.notify_all();
  }
}

Result<void> Split::wait_for_agreement(const Cancel &cancel) {
  std::unique_lock lock(mutex_);
  while (!agreed_ && !cancel.requested()) agreement_.wait_for(lock, cancel_poll);  // ends at the parent's deadline
  if (agreed_) return *agreed_;
  given_up_ = true;
  return Error{RONDO_ERROR_ABORTED, "rondo_comm_split was aborted here before all ranks had called it"};
}

Made Split::run(const Cancel *cancel) {
  const bool behind = cancel != nullptr && agree_behind();
  RONDO_TRY(behind ? wait_for_agreement(*cancel) : agree());
  if (!has_color()) return Made(nullptr);
  auto made = part_.make(cancel);
  if (made.ok()) return made;
  return part_.explain(std::move(made).error(), "rondo_comm_split with color " + std::to_string(call_.color));
}

}  // namespace

Result<SplitCall> recorded_call(const Communicator &parent, uint32_t rank, uint64_t number, const SplitCall &own,
                                uint64_t deadline_ns) {
  if (rank == parent.rank()) return own;
  const Ranks &ranks = parent.ranks();
  uint64_t ended_ns = 0;  // time at which the rank's end was seen, or 0
  while (true) {          // ends at the deadline
    if (const auto entered = ranks.entered(rank, number)) {
      if (const auto call = split_call_of(entered->signature)) return *call;
      return Error{RONDO_ERROR_INTERNAL, ranks.describe_rank(rank) + " recorded another call than its split"};
    }
    const uint64_t now = now_ns();
    const auto dead = ranks.find_dead();
    const bool has_ended = has_left(ranks.state(rank)) || std::ranges::find(dead, rank) != dead.end();
    if (has_ended && ended_ns == 0) ended_ns = now;
    if (ranks.failed()) return ranks.failure();
    const bool lost = ended_ns != 0 && now - ended_ns >= record_lag_ns;
    if (lost || now >= deadline_ns)
      return Error{lost ? RONDO_ERROR_REMOTE : RONDO_ERROR_TIMEOUT,
                   (own.suspends ? "the call of rondo_comm_suspend by " : "the color for rondo_comm_split of ") +
                       ranks.describe_rank(rank) + " did not arrive" +
                       (lost ? " before that rank left" : " in time; raise timeout_ms (RONDO_TIMEOUT)"),
                   static_cast<int32_t>(parent.rank()), static_cast<int32_t>(rank), number};
    sleep_for_ns(record_poll_ns);
  }
}

std::vector<uint32_t> members_of(std::span<const SplitCall> calls, int32_t color) {
  std::vector<uint32_t> members;
  for (uint32_t rank = 0; rank < calls.size(); ++rank)
    if (calls[rank].color == color) members.push_back(rank);
  std::ranges::stable_sort(members, {}, [&](uint32_t rank) { return calls[rank].key; });
  return members;
}

Result<Initialisation> begin_split(std::shared_ptr<Communicator> parent, int color, int key,
                                   const rondo_config_t *config) {
  RONDO_TRY_ASSIGN(Settings settings, part_settings(*parent, config));
  const bool nonblocking = settings.nonblocking;
  const auto split = std::make_shared<Split>(std::move(parent), std::move(settings));
  RONDO_TRY(split->begin(color, key));
  if (color == RONDO_NO_COLOR && nonblocking && split->agree_behind())
    return Initialisation{[](const Cancel *) { return Made(nullptr); }, false};
  return Initialisation{[split](const Cancel *cancel) { return split->run(cancel); },
                        nonblocking && color != RONDO_NO_COLOR};
}

}  // namespace rondo
