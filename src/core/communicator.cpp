// SPDX-License-Identifier: Apache-2.0
#include "src/core/communicator.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/engine/host_executor.h"

namespace rondo {
namespace {

constexpr auto turn_look_interval = std::chrono::milliseconds(1);

WaitPolicy base_wait_policy(const Settings &settings, const GroupInfo &group, bool progresses) {
  switch (settings.wait) {
    case WaitMode::automatic:
      break;
    case WaitMode::spin:
      return {128, UINT32_MAX, 0, false};
    case WaitMode::yield:
      return {8, 0, UINT32_MAX, false};
    case WaitMode::sleep:
      return {0, 0, 0, true};
  }
  if (group.oversubscribed) return WaitPolicy::oversubscribed();
  return progresses ? WaitPolicy::dedicated_to_network() : WaitPolicy::dedicated();
}

WaitPolicy wait_policy_of(const Settings &settings, const GroupInfo &group, const Links &links) {
  WaitPolicy policy = base_wait_policy(settings, group, links.needs_progress());
  policy.progresses = links.needs_progress();
  return policy;
}

}  // namespace

Communicator::Communicator(Parts parts)
    : rank_(parts.rank),
      rank_count_(parts.rank_count),
      settings_(std::move(parts.settings)),
      group_(std::move(parts.group)),
      tuning_(parts.tuning),
      wait_policy_(wait_policy_of(settings_, group_, parts.transport->links())),
      transport_(std::move(parts.transport)),
      links_(transport_->links()),
      ranks_(transport_->ranks()),
      dump_(transport_->recorder(), settings_.recorder_dir, rank_),
      ends_(size_t{links_.channel_count()} * rank_count_),
      scratch_(std::max(links_.geometry().slot_bytes, links_.geometry().ll_slot_bytes)),
      loans_(*parts.regions),
      device_(std::move(parts.device)) {
  for (uint32_t channel = 0; channel < links_.channel_count(); ++channel) {
    for (uint32_t peer = 0; peer < rank_count_; ++peer) {
      LinkEnds &ends = ends_[size_t{channel} * rank_count_ + peer];
      ends.peer = peer;
      ends.accepted_kinds = peer == rank_ ? 0 : links_.accepted_kinds(peer);
      ends.simple_out = SimpleSender(links_.outgoing(channel, peer));
      ends.simple_in = SimpleReceiver(links_.incoming(channel, peer));
      ends.ll_out = LlSender(links_.outgoing(channel, peer));
      ends.ll_in = LlReceiver(links_.incoming(channel, peer));
    }
  }
  std::vector<uint32_t> kinds;
  for (uint32_t peer = 0; peer < rank_count_; ++peer) kinds.push_back(peer == rank_ ? 0 : links_.accepted_kinds(peer));
  exchange_ = ExchangeEnd(links_.exchange(), rank_, std::move(kinds), links_.peers(), wait_policy_.sleeps);
  if (device_ != nullptr) {
    watch_device();
  } else {
    probe_ = cuda::PointerProbe::find(settings_.cuda_library);
  }
}

Result<void> Communicator::submit(const Call &call, HostStream *stream) {
  Operation operation;
  {
    const std::lock_guard lock(submit_lock_);
    if (ranks_.failed()) return tell_failure();
    if (finalized_) return Error{RONDO_ERROR_INVALID_HANDLE, "the communicator is finalized; only destroy is left"};
    RONDO_TRY_ASSIGN(operation.bound, plan_for(call));
    operation.number = ++submitted_;
    history_ = extend_history(history_, operation.bound->plan->identity);
    operation.history = fingerprint(history_);
    operation.bound->last_operation = operation.number;  // under the lock that eviction needs too
  }
  operation.send = static_cast<const std::byte *>(call.send);
  operation.recv = static_cast<std::byte *>(call.recv);
  if (call.signature.collective == RONDO_BARRIER) {
    operation.send = &barrier_buffer_[0];
    operation.recv = &barrier_buffer_[1];
  }
  if (stream == nullptr) return execute(operation);
  const auto enqueued = stream->enqueue([self = shared_from_this(), operation] { return self->execute(operation); },
                                        now_ns() + settings_.timeout_ns);
  if (enqueued.ok()) return {};
  // Its number is taken: the other ranks wait for an operation that will never come from here.
  Error error = enqueued.error();
  error.rank = error.peer = static_cast<int32_t>(rank_);
  error.operation = operation.number;
  error.message = "operation " + std::to_string(operation.number) + " could not be enqueued: " + error.message;
  ranks_.raise(error);
  return execute(operation);
}

Result<void> Communicator::execute(const Operation &operation) {
  auto result = wait_turn(operation.number);
  if (result.ok()) result = run(operation);
  if (result.ok()) {
    end_turn(operation.number);
    return {};
  }
  give_up_turns();
  return tell_failure();
}

Result<void> Communicator::run(const Operation &operation) {
  // Sync, and before anything else is written that it would have to wait for: either close() sees that this runs, or
  // this sees the failure.
  running_.store(true, std::memory_order_seq_cst);
  Result<void> result;
  try {
    result = run_transfers(operation);
  } catch (const std::exception &) {  // memory ran out: the others must not wait for this rank
    links_.set_running(false);
    ranks_.raise({RONDO_ERROR_OUT_OF_RESOURCES, "out of memory", static_cast<int32_t>(rank_),
                  static_cast<int32_t>(rank_), operation.number});
    ranks_.fail(operation.number);
    links_.wait_for_borrowers();
    result = Error{RONDO_ERROR_OUT_OF_RESOURCES, "out of memory"};
  }
  running_.store(false, std::memory_order_release);  // pairs with the load in close()
  return result;
}

Result<void> Communicator::run_transfers(const Operation &operation) {
  BoundPlan &bound = *operation.bound;
  const Plan &plan = *bound.plan;
  const OperationInfo entered{plan.key.signature, plan.shape, operation.history};
  ranks_.enter(operation.number, entered);

  Buffers buffers;
  buffers.signature = operation.history;
  // A send window is only ever read: the schedule has no step that writes it.
  const uint32_t element_bytes = bound.element_bytes;
  buffers.send.data = const_cast<std::byte *>(operation.send);
  buffers.send.origin = plan.send.begin;
  loans_.offer(operation.send, plan.send.count * element_bytes, buffers.send.loan);
  buffers.recv.data = operation.recv;
  buffers.recv.origin = plan.recv.begin;
  const bool same_buffer = operation.recv == operation.send && plan.recv == plan.send;
  if (!same_buffer)
    loans_.offer(operation.recv, plan.recv.count * element_bytes, buffers.recv.loan);
  else if (buffers.send.loan.offered)
    buffers.recv.loan = buffers.send.loan;
  if (buffers.send.loan.replaced || buffers.recv.loan.replaced)
    ranks_.raise(replaced_memory(rank_, operation.number));

  OperationWatch watch(ranks_, rank_, rank_count_, operation.number, entered, settings_.timeout_ns);
  RunOutcome outcome{RunOutcome::Kind::stopped};
  links_.set_running(true);
  if (!ranks_.failed()) {
    Waiter waiter(wait_policy_, links_.peers(), watch);
    if (stay_in_reach(operation.number, waiter))
      outcome = plan.shape.protocol == RONDO_PROTOCOL_DIRECT
                    ? exchange_.run(plan, buffers, bound.reducer, waiter)
                    : run_plan(plan, buffers, bound.reducer, bound.links, waiter);
  }
  links_.set_running(false);
  if (outcome.kind == RunOutcome::Kind::fault) watch.explain_fault(outcome.peer, outcome.fault);
  // Also a rank that got all it waited for looks: another one that failed may have taken its loans back too early.
  if (outcome.kind != RunOutcome::Kind::done || ranks_.failed()) {
    ranks_.fail(operation.number);
    links_.wait_for_borrowers();  // the caller may free its buffers now
    return ranks_.failure();
  }
  ranks_.complete(operation.number);
  return {};
}

/// What exchanges nothing, such as calls of 0 elements, does not hold a rank back. It waits here now and then, so that
/// no peer is in an operation of which this rank's record is overwritten already, by which they could tell whether they
/// agree. False: the waiter says stop.
bool Communicator::stay_in_reach(uint64_t number, Waiter &waiter) const {
  constexpr uint64_t interval = recorded_operation_count / 2;  // no lead grows by more before the next look
  if (number % interval != 0) return true;
  for (uint32_t peer = 0; peer < rank_count_; ++peer)
    while (peer != rank_ && ranks_.latest_operation(peer) + interval <= number)
      if (!waiter.idle()) return false;
  waiter.moved();
  return true;
}

Result<void> Communicator::wait_turn(uint64_t number) {
  const auto my_turn = [&] { return executed_.load(std::memory_order_acquire) >= number - 1; };  // see end_turn()
  // After a failure the turns are in no order any more; it was recorded before the first of them was given up.
  if (my_turn()) return ranks_.failed() ? Result<void>(ranks_.failure()) : Result<void>();
  std::unique_lock lock(turn_mutex_);
  turn_waiter_count_.fetch_add(1, std::memory_order_relaxed);  // see end_turn()
  // Every operation before this one has a deadline of its own; what has none is a stream that waits for an event.
  uint64_t deadline_ns = now_ns() + settings_.timeout_ns;
  uint64_t seen = executed_.load(std::memory_order_acquire);  // see end_turn()
  Result<void> result;
  while (!my_turn() && result.ok()) {
    if (ranks_.failed()) {
      result = ranks_.failure();
      break;
    }
    turn_.wait_for(lock, turn_look_interval);
    const uint64_t executed = executed_.load(std::memory_order_acquire);  // see end_turn()
    if (std::exchange(seen, executed) != executed) deadline_ns = now_ns() + settings_.timeout_ns;
    if (now_ns() >= deadline_ns) ranks_.raise(turn_timed_out(number));
  }
  turn_waiter_count_.fetch_sub(1, std::memory_order_relaxed);  // only to save a notification
  return result;
}

Error Communicator::turn_timed_out(uint64_t number) const {
  Error error{RONDO_ERROR_TIMEOUT, "operation " + std::to_string(number) + " waited too long for operation " +
                                       std::to_string(executed_.load(std::memory_order_acquire) + 1) +
                                       ", which was called before it on a stream that does not advance"};
  error.rank = error.peer = static_cast<int32_t>(rank_);
  error.operation = number;
  return error;
}

void Communicator::end_turn(uint64_t number) {
  executed_.store(number, std::memory_order_release);  // pairs with everybody's acquire
  // Not in order with the store, which every call would have to wait for: a waiter that comes in this very moment may
  // not be seen. It looks by itself.
  if (turn_waiter_count_.load(std::memory_order_relaxed) == 0) return;
  const std::lock_guard lock(turn_mutex_);
  turn_.notify_all();
}

void Communicator::give_up_turns() {
  const std::lock_guard lock(turn_mutex_);
  turn_.notify_all();
}

void Communicator::note_failure(const Error &error) {
  if (failure_logged_.exchange(true, std::memory_order_relaxed)) return;
  log::info({log::Subsystem::failure, rank_},
            "the communicator failed (" + std::string(rondo_status_string(error.status)) + "): " + error.message);
}

Error Communicator::tell_failure() {
  Error error = ranks_.failure();
  note_failure(error);
  // Relaxed: whoever comes first tells; no data rides on it.
  if (!failure_told_.exchange(true, std::memory_order_relaxed)) {
    dump_.begin();
    if (error.status != RONDO_ERROR_ABORTED) dump_.wait_briefly();  // which is to be told at once
    return error;
  }
  error.message =
      "the communicator failed earlier (" + std::string(rondo_status_string(error.status)) + "): " + error.message;
  error.status = RONDO_ERROR_COMM_FAILED;
  return error;
}

std::optional<Error> Communicator::failure() {
  {
    const std::lock_guard lock(monitor_mutex_);  // a destroy on another thread
    if (monitor_ != nullptr) monitor_->tell_fault();
  }
  if (!ranks_.failed()) {
    const uint64_t next = executed_.load(std::memory_order_acquire) + 1;  // pairs with release in end_turn()
    if (const auto death = find_ended_rank(ranks_, rank_, rank_count_, next, RankEnd::death)) ranks_.raise(*death);
  }
  if (!ranks_.failed()) return std::nullopt;
  dump_.begin();
  Error error = ranks_.failure();
  note_failure(error);
  return error;
}

void Communicator::abort() {
  Error error{RONDO_ERROR_ABORTED,
              "rank " + std::to_string(rank_) +
                  " called rondo_comm_abort; only rondo_comm_destroy is left for this communicator"};
  error.rank = error.peer = static_cast<int32_t>(rank_);
  error.operation = executed_.load(std::memory_order_acquire) + 1;  // pairs with release in end_turn()
  ranks_.raise(error);
}

Result<void> Communicator::finalize() {
  if (!drain().ok()) return tell_failure();
  Call barrier;
  barrier.signature = finalize_signature;
  if (device_ == nullptr) {
    RONDO_TRY(submit(barrier, nullptr));
  } else {
    RONDO_TRY(enqueue(barrier, device_->own_stream()));
    if (!drain().ok()) return tell_failure();
  }
  const std::lock_guard lock(submit_lock_);
  finalized_ = true;
  ranks_.set_state(RankState::finalized);
  return {};
}

void Communicator::close() {
  if (const auto drained = drain(); !drained.ok())
    log::debug({log::Subsystem::failure, rank_}, "destroy: " + drained.error().message);
  // After a failure drain() does not wait. What has begun ends by itself, and reads the caller's buffers until then;
  // what begins from now on sees the failure first: sync, as the store in run().
  while (running_.load(std::memory_order_seq_cst)) std::this_thread::sleep_for(std::chrono::microseconds(100));
  leave_device();
  dump_.finish();
  ranks_.set_state(RankState::left);
}

Result<void> Communicator::drain() {
  uint64_t last = 0;
  {
    const std::lock_guard lock(submit_lock_);
    last = submitted_;
  }
  RONDO_TRY(wait_turn(last + 1));
  if (ranks_.failed()) return ranks_.failure();
  return {};
}

}  // namespace rondo
