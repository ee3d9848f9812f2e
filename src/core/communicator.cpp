// SPDX-License-Identifier: Apache-2.0
#include "src/core/communicator.h"

#include <mutex>
#include <utility>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/engine/watch.h"
#include "src/plan/split_call.h"

namespace rondo {
namespace {

constexpr uint64_t report_lag_ns = 20'000'000;  // longest time in which the monitor reads what a device has completed
constexpr uint64_t report_poll_ns = 50'000;

}  // namespace

Communicator::Communicator(Parts parts)
    : rank_(parts.rank),
      rank_count_(parts.rank_count),
      settings_(std::move(parts.settings)),
      group_(std::move(parts.group)),
      tuning_(parts.tuning),
      secret_(parts.secret),
      transport_(std::move(parts.transport)),
      links_(transport_->links()),
      ranks_(transport_->ranks()),
      dump_(transport_->recorder(), settings_.recorder_dir, rank_),
      registrations_(*parts.regions, parts.executor->capabilities().exports_memory),
      operations_({&ranks_, &registrations_, rank_, rank_count_, settings_.timeout_ns,
                   [this] { return shared_from_this(); }, [this](bool waits) { record_failure(waits); }}),
      executor_(std::move(parts.executor)),
      capabilities_(executor_->capabilities()),
      planner_({rank_, rank_count_, settings_, group_, tuning_, links_, ranks_, operations_, *executor_,
                capabilities_}) {
  executor_->start(operations_);
}

Communicator::~Communicator() { executor_->end(); }

Result<void> Communicator::submit(std::span<const Call> calls, StreamRef stream) {
  if (calls.size() == 1) {  // so that a single call needs no allocation
    WorkItem work;
    return submit_as({&work, 1}, calls, stream);
  }
  std::vector<WorkItem> works(calls.size());
  return submit_as(works, calls, stream);
}

Result<void> Communicator::submit_as(std::span<WorkItem> works, std::span<const Call> calls, StreamRef stream) {
  const bool runs_here = stream.none() && capabilities_.runs_in_call;
  std::unique_lock lock(submit_lock_);
  RONDO_TRY(check_usable_locked());
  if (!runs_here) {
    RONDO_TRY_ASSIGN(const uint64_t capture, executor_->check_stream(stream, StreamRole::lead));
    for (WorkItem &work : works) work.captured = capture != 0;
    has_captured_ |= capture != 0;
  }
  if (auto numbered = give_numbers(calls, works); !numbered.ok()) {
    executor_->forget_stream();
    return numbered;
  }
  if (runs_here) lock.unlock();
  return executor_->enqueue(works, stream);
}

Result<WorkItem> Communicator::begin_split(const Signature &record) {
  Call call;
  const bool suspends = split_call_of(record)->suspends;
  call.signature = suspends ? suspend_signature : split_signature;
  WorkItem work;
  const std::lock_guard lock(submit_lock_);
  if (!suspends) RONDO_TRY(check_usable_locked());
  if (operations_.failed()) return operations_.report_failure();
  RONDO_TRY(give_numbers({&call, 1}, {&work, 1}));
  work.record = &record;
  if (!capabilities_.runs_in_call) RONDO_TRY(executor_->enqueue({&work, 1}, executor_->own_stream()));
  return work;
}

Result<void> Communicator::end_split(const WorkItem &split) {
  if (capabilities_.runs_in_call) return executor_->enqueue({&split, 1}, {});
  if (operations_.wait_for_predecessor(split.turn + 1)) return {};
  return operations_.report_failure();
}

Result<void> Communicator::remove_registration(const Registration *registration) {
  RONDO_TRY(registrations_.check(registration));
  RONDO_TRY(executor_->unshare(registration->first));
  return registrations_.remove(registration);
}

/// Gives the calls their numbers. The caller holds submit_lock_. If a numbered operation cannot be enqueued later, the
/// only effect is that the cache keeps its plan longer than needed.
Result<void> Communicator::give_numbers(std::span<const Call> calls, std::span<WorkItem> works) {
  OperationSequence collectives = collectives_;
  uint64_t turn = turn_;
  for (size_t i = 0; i < calls.size(); ++i) {
    const Call &call = calls[i];
    WorkItem &work = works[i];
    RONDO_TRY_ASSIGN(BoundPlan *const bound, planner_.plan_for(call));
    collectives.add(bound->plan->identity);
    work.plan = bound->plan.get();
    work.prepared = bound->prepared.get();
    const bool is_bare = call.signature.collective == RONDO_BARRIER && call.recv == nullptr;
    work.send = is_bare ? capabilities_.barrier_send : static_cast<const std::byte *>(call.send);
    work.recv = is_bare ? capabilities_.barrier_recv : static_cast<std::byte *>(call.recv);
    work.turn = ++turn;
    work.number = collectives.number;
    work.history = fingerprint(collectives.history);
    work.details = call.details;
    bound->last_turn = work.turn;  // written under submit_lock_, which eviction needs, too
    bound->captured |= work.captured;
  }
  collectives_ = collectives;
  turn_ = turn;
  return {};
}

void Communicator::record_failure(bool waits) {
  if (!failure_logged_.exchange(true, std::memory_order_relaxed)) {
    const Error error = ranks_.failure();
    log::info({log::Subsystem::failure, rank_},
              "the communicator failed (" + std::string(rondo_status_string(error.status)) + "): " + error.message);
  }
  dump_.begin();
  if (waits) dump_.wait_briefly();
}

RecordedStatistics Communicator::statistics() const {
  return transport_->recorder().recording()->statistics(group_.index_on_node(rank_));
}

std::optional<Error> Communicator::failure() {
  if (operations_.has_left()) return operations_.failure();
  executor_->look_for_failure();
  if (!ranks_.failed()) {
    const uint64_t next = next_number();
    if (const auto crash = find_ended_rank(ranks_, rank_, rank_count_, next, RankEnd::crash)) ranks_.raise(*crash);
  }
  if (!ranks_.failed()) return std::nullopt;
  record_failure(false);
  return ranks_.failure();
}

void Communicator::abort() {
  const Departure departure = departure_of(RankState::aborted);
  const Error error{departure.status, ranks_.describe_rank(rank_) + departure.how +
                                          "; only rondo_comm_destroy is left for this communicator"};
  if (!leave(error)) operations_.raise(error, next_number());
}

/// A suspend, a resume, a registration, a shrink or a grow waits for other ranks outside of operations, so it is in
/// flight, too. So is a captured operation, which a graph may run at any time. If another thread holds the lock, it is
/// in a call. If another rank waits for this one already, this rank does not leave, so that the other fails at once.
bool Communicator::leave(const Error &error) {
  const std::unique_lock lock(submit_lock_, std::try_to_lock);
  if (!lock.owns_lock()) return false;
  if (operations_.has_left()) return true;
  const uint64_t begun_ns = now_ns();  // what a device has completed is known here a little later
  const bool on_device = settings_.device != RONDO_DEVICE_HOST;
  while (on_device && operations_.executed() != turn_ && executor_->is_idle() && now_ns() - begun_ns < report_lag_ns)
    sleep_for_ns(report_poll_ns);
  const bool changes = is_suspended() && meeting_ == nullptr;  // a suspend or a resume runs
  const bool waits = changes || windows_.registers() || regroup_log_.is_running();
  if (!is_between_operations() || has_captured_ || waits) return false;
  if (!finalized_) ranks_.set_state(RankState::aborted);
  for (uint32_t peer = 0; peer < rank_count_; ++peer) {  // a rank that begins to wait later sees the state
    const uint64_t latest = ranks_.latest_operation(peer);
    if (latest >= next_number() && ranks_.completed_operation(peer) < latest) return false;
  }
  operations_.leave(error, next_number());
  halted_ = true;
  return true;
}

void Communicator::revoke() {
  operations_.raise({RONDO_ERROR_REVOKED, "rank " + std::to_string(rank_) +
                                              " revoked the communicator; rondo_comm_shrink, rondo_comm_abort and "
                                              "rondo_comm_destroy are left"},
                    next_number());
}

void Communicator::end_operations() {
  revoke();
  if (capabilities_.runs_in_call) static_cast<void>(executor_->quiesce());
}

void Communicator::fail(const Error &error) {
  const std::lock_guard lock(submit_lock_);
  if (finalized_ || operations_.has_left()) return;
  if (error.peer < 0) return operations_.raise(error, next_number());
  Error complete = error;
  complete.rank = error.rank >= 0 ? error.rank : static_cast<int32_t>(rank_);
  complete.operation = error.operation != 0 ? error.operation : next_number();
  ranks_.raise(complete);
}

Result<void> Communicator::finalize() {
  if (!drain().ok()) return operations_.report_failure();
  uint64_t own = 0, sum = 0;  // message counts, for several hosts; on one host, ranks see all counts
  Call barrier;
  barrier.signature = finalize_signature;
  const bool between_hosts = capabilities_.sends_messages && !group_.one_node();
  const bool on_device = settings_.device != RONDO_DEVICE_HOST;
  if (between_hosts && !on_device) {
    own = unreceived_share();
    barrier = {counting_finalize_signature, &own, &sum};
  }
  RONDO_TRY(submit(barrier, executor_->own_stream()));
  if (!drain().ok()) return operations_.report_failure();
  auto lost = sum != 0 ? std::optional(name_unreceived(sum)) : find_unreceived();
  if (!lost && between_hosts && on_device) lost = find_unreceived_abroad();
  if (lost) {
    ranks_.raise(*lost);
    return operations_.report_failure();
  }
  if (between_hosts && on_device) {  // a second barrier waits until every rank has asked for its counts
    RONDO_TRY(submit(barrier, executor_->own_stream()));
    if (!drain().ok()) return operations_.report_failure();
  }
  const std::lock_guard lock(submit_lock_);
  if (operations_.has_left()) return operations_.report_failure();
  finalized_ = halted_ = true;
  ranks_.set_state(RankState::finalized);
  return {};
}

Result<void> Communicator::flush() {
  if (!drain().ok() || operations_.failed()) return operations_.report_failure();
  return {};
}

void Communicator::close() {
  closed_.store(true, std::memory_order_release);  // pairs with is_closed()
  end_changes();
  if (const auto drained = drain(); !drained.ok())
    log::debug({log::Subsystem::failure, rank_}, "destroy: " + drained.error().message);
  // After a failure drain() does not wait, so operations may still run now.
  const bool ended = executor_->quiesce();
  executor_->end();
  if (!ended) executor_->live_on(executor_);
  keep_meeting(nullptr);
  dump_.finish();
  ranks_.set_state(RankState::left);
}

void Communicator::exit() {
  {
    const std::unique_lock lock(submit_lock_, std::try_to_lock);
    if (!lock.owns_lock() || !is_between_operations() || ranks_.state(rank_) != RankState::alive) return;
  }
  ranks_.set_state(RankState::exited);
}

Result<void> Communicator::drain() {
  uint64_t last = 0;
  {
    const std::lock_guard lock(submit_lock_);
    last = turn_;
  }
  if (operations_.wait_for_predecessor(last + 1) && executor_->wait_for_one_sided()) return {};
  return ranks_.failure();
}

}  // namespace rondo
