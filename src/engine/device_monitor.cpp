// SPDX-License-Identifier: Apache-2.0
#include "src/engine/device_monitor.h"

#include <algorithm>
#include <chrono>

#include "src/base/clock.h"
#include "src/engine/wait_cycle.h"

namespace rondo {
namespace {

constexpr std::chrono::nanoseconds busy_interval{stop_interval_ns};
constexpr auto idle_interval = std::chrono::milliseconds(10);  // short, because no call wakes the thread for a replay
constexpr uint64_t device_check_interval_ns = 20'000'000;
constexpr uint64_t waits_interval_ns = 50'000'000;  // shorter than the interval of the search for circles
// Bounds of the number of checks for the reason why another rank gave up, one check in each stop_interval_ns. They
// limit checks, not time, because a busy or suspended machine delays both ranks.
constexpr uint64_t reason_checks_least = 10'000, reason_checks_most = 50'000;
constexpr uint32_t reason_checks_per_death_check = 100;

/// Returns the most checks for the reason why a rank gave up. That rank's process may be stopped for some seconds.
uint64_t reason_checks_max(uint64_t timeout_ns) {
  return std::clamp(timeout_ns / stop_interval_ns, reason_checks_least, reason_checks_most);
}

}  // namespace

SharedThread &monitor_thread() {
  static auto *const thread = new SharedThread(busy_interval, idle_interval);  // communicators may outlive statics
  return *thread;
}

DeviceMonitor::DeviceMonitor(DeviceExecutor &device, Operations &operations)
    : device_(device),
      operations_(operations),
      ranks_(operations.ranks()),
      known_(recorded_operation_count) {
  monitor_thread().add(*this);
}

DeviceMonitor::~DeviceMonitor() { monitor_thread().remove(*this); }

DeviceMonitor::BatchWatch::BatchWatch(const DeviceMonitor &monitor, const Known &known)
    : heads(*monitor.device_.batch_progress(), known.batch, known.turn, *monitor.ranks_.messages(),
            monitor.operations_.rank()),
      watch(monitor.ranks_, *monitor.ranks_.messages(), heads, monitor.operations_.rank(),
            monitor.operations_.rank_count(), monitor.operations_.timeout_ns()) {}

void DeviceMonitor::add(const WorkItem &work, const OperationInfo &what, OperationCost cost,
                        std::shared_ptr<const DeviceBatch> blocks) {
  cost.on_device = true;
  cost.ran = !work.captured;
  add(std::unique_lock(mutex_),
      {work.turn, work.number, what, cost, work.captured, work.plan->widened, std::move(blocks), {}});
}

void DeviceMonitor::add(const DeviceMessages &messages) {
  Outstanding added;
  added.turn = messages.turn;
  added.captured = messages.captured;
  added.batch = messages.batch;
  added.records.reserve(messages.batch->transfers().size());
  MessageBoards &boards = *ranks_.messages();
  if (messages.captured) boards.publish_captured();
  std::unique_lock lock(mutex_);  // the monitor's thread also completes records on the boards
  for (const Transfer &each : messages.batch->transfers()) boards.announce(each.peer, each.sends, each.message);
  boards.enter_batch();
  for (const Transfer &each : messages.batch->transfers()) added.records.push_back(boards.begin(info_of(each)));
  add(std::move(lock), std::move(added));
}

void DeviceMonitor::add(std::unique_lock<std::mutex> lock, Outstanding added) {
  has_captured_ = has_captured_ || added.captured;
  known_[added.turn % known_.size()] = {added.turn, added.number, added.batch};
  outstanding_.push_back(std::move(added));
  lock.unlock();
  monitor_thread().wake();
}

void DeviceMonitor::withdraw(uint64_t turn) {
  const std::lock_guard lock(mutex_);
  if (outstanding_.empty() || outstanding_.back().turn != turn) return;
  for (const uint64_t record : outstanding_.back().records) ranks_.messages()->fail(record);
  outstanding_.pop_back();
}

bool DeviceMonitor::quiesce(uint64_t patience_ns) {
  const uint64_t deadline_ns = now_ns() + patience_ns;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (outstanding_.empty() && device_.drained()) return true;
    if (!device_.check_device().ok()) {
      device_.stop();  // after an error of a single copy, streams still wait
      if (!device_.check_device().ok()) return true;  // the device has failed for good, so nothing runs on it
    }
    if (now_ns() >= deadline_ns) return false;
    lock.unlock();
    sleep_for_ns(stop_interval_ns);
    lock.lock();
  }
}

bool DeviceMonitor::work_once() {
  std::unique_lock lock(mutex_);
  const DeviceReport report = device_.report();
  carry_over(report);
  const bool running = report.begun_calls != report.ended_calls;
  // If an earlier check fell between a replay's last two writes, it counted one begun call too many. So forget it.
  if (!running) replay_ = watched_begun_ = 0;
  const bool busy = running || !outstanding_.empty();
  const uint64_t now = now_ns();
  if (running && !outstanding_.empty()) {
    const Outstanding &front = outstanding_.front();
    if ((!watch_ && !batch_watch_) || watched_.turn != front.turn) {
      watch_.reset();
      batch_watch_.reset();
      watched_ = front;
      publish_blocks(front);
      next_waits_ns_ = now + waits_interval_ns;
      if (front.is_batch()) batch_watch_.emplace(*this, Known{front.turn, front.number, front.batch});
      else watch_.emplace(ranks_, operations_.rank(), operations_.rank_count(), watched_.number, watched_.what,
                          operations_.timeout_ns());
    }
    // Replays that run before the operation have timeouts of their own, so each new replay restarts the time.
    if (std::exchange(watched_begun_, report.begun_calls) != report.begun_calls) {
      if (watch_) watch_->restart();
      if (batch_watch_) batch_watch_->watch.restart();
    }
  }
  const bool has_operation = !outstanding_.empty();
  using Kind = DevicePlace::Kind;
  Kind runs = running && has_captured_ ? Kind::replay : Kind::idle;
  if (running && has_operation) runs = watched_.is_batch() ? Kind::messages : Kind::collective;
  lock.unlock();  // the code below takes long, and calls the communicator
  if (!report.failed) publish_place(runs);
  if (!report_fault(report, reason_checks_)) return true;
  if (running && has_operation) {
    look_at_running(now);
  } else if (running) {
    look_at_replay(report, now);
  }
  if (now >= next_device_check_ns_ && !ranks_.failed()) {
    next_device_check_ns_ = now + device_check_interval_ns;
    tell_device_error();
  }
  if (ranks_.failed()) {
    device_.stop();  // repeated, because a later write may overwrite the values that ended a stream's waits
    if (!std::exchange(told_, true)) {
      operations_.announce_failure();
      operations_.give_up_turns();
    }
  }
  if (device_.has_peer_news()) device_.ask_to_follow_peers();
  return busy;
}

bool DeviceMonitor::has_ended(const Outstanding &front, const DeviceReport &report) const {
  if (front.captured || front.turn < report.ended_number) return true;  // later work begins after a mean's division
  if (front.turn > report.ended_number) return false;
  return !front.widened || ranks_.failed() || device_.has_narrowed(front.turn);
}

void DeviceMonitor::carry_over(const DeviceReport &report) {
  while (!outstanding_.empty() && has_ended(outstanding_.front(), report)) {
    const Outstanding ended = std::move(outstanding_.front());
    outstanding_.pop_front();
    const bool failed = report.failed && ended.turn >= report.failed_number;
    if (failed && report.fault != Fault::none && !std::exchange(failure_placed_, true)) publish_failed(ended);
    end(ended, failed || (report.ends_when_stopped && ranks_.failed()));
  }
}

/// Publishes the sizes of the blocks of a _v collective for ranks of other hosts. Slots between hosts have no sizes.
void DeviceMonitor::publish_blocks(const Outstanding &operation) {
  MessageBoards *const boards = ranks_.messages();
  const bool has_counts = operation.batch != nullptr && operation.what.signature.counts_hash == counts_of_pairs;
  if (boards == nullptr || !has_counts) return;
  for (const Transfer &block : operation.batch->transfers())
    if (block.sends && !ranks_.is_near(block.peer)) boards->publish_block(block.peer, operation.number, block.bytes);
}

void DeviceMonitor::end(const Outstanding &ended, bool failed) {
  if (ended.turn != watched_.turn) publish_blocks(ended);
  const MessageRun run = ended.captured ? MessageRun::captured : MessageRun::behind;
  for (size_t each = 0; each < ended.records.size(); ++each) {
    if (failed) ranks_.messages()->fail(ended.records[each]);
    else ranks_.messages()->complete(ended.records[each], info_of(ended.batch->transfers()[each]), run);
  }
  if (failed && !ended.is_batch()) ranks_.fail(ended.number);
  if (failed) return;
  if (ended.is_batch()) ranks_.messages()->complete_batch();
  else ranks_.complete(ended.number, ended.cost);
  operations_.mark_executed(ended.turn);
}

DeviceMonitor::Known DeviceMonitor::known(uint64_t turn) {
  const std::lock_guard lock(mutex_);
  const Known &latest = known_[turn % known_.size()];
  return latest.turn == turn ? latest : Known{turn, turn, nullptr};  // without messages, the number equals the turn
}

void DeviceMonitor::look_at_running(uint64_t now_ns) {
  if (ranks_.failed()) return;
  if (batch_watch_) batch_watch_->heads.refresh();
  if (now_ns >= next_waits_ns_) {
    next_waits_ns_ = now_ns + waits_interval_ns;
    publish_waits();
  }
  if (watch_) static_cast<void>(watch_->look(now_ns));
  if (!batch_watch_) return;
  static_cast<void>(batch_watch_->watch.look(now_ns));
}

/// Publishes what the device waits for in the watched operation, so that circles of waiting ranks are found.
void DeviceMonitor::publish_waits() {
  MessageBoards *const boards = ranks_.messages();
  const uint32_t rank = operations_.rank(), rank_count = operations_.rank_count();
  if (boards == nullptr || device_.batch_progress() == nullptr || rank_count > message_ranks_max) return;
  std::vector<std::shared_ptr<const DeviceBatch>> later;
  std::unique_lock lock(mutex_);  // add() counts messages under this lock
  if (has_captured_) return boards->publish_waits(nullptr);
  if (outstanding_.empty() || outstanding_.front().turn != watched_.turn) return;
  WaitReport report = count_called(ranks_, *boards, rank, rank_count);
  for (auto each = outstanding_.begin() + 1; each != outstanding_.end(); ++each)
    if (each->is_batch()) later.push_back(each->batch);
  lock.unlock();  // callers wait for the lock, and batches may be large
  for (const auto &batch : later) remove_later(report, batch->transfers());
  if (watch_) add_collective(report, watched_.number);
  else add_batch(report, batch_watch_->heads, *watched_.batch, device_.batch_progress()->slots(), *boards, rank);
  boards->publish_waits(&report);
}

/// Publishes what the device runs, and in a batch the message that it waits for. After a failure, the latest report
/// stays.
void DeviceMonitor::publish_place(DevicePlace::Kind kind) {
  MessageBoards *const boards = ranks_.messages();
  if (boards == nullptr || ranks_.failed()) return;
  DevicePlace place{kind, 0};
  if (kind == DevicePlace::Kind::collective) place.number = watched_.number;
  if (kind == DevicePlace::Kind::messages) {
    DeviceHeads &heads = batch_watch_->heads;
    const auto late = &heads.head(heads.late_head()) - watched_.batch->transfers().data();
    place.number = watched_.records[static_cast<size_t>(late)];
  }
  if (std::exchange(place_, place) != place) boards->publish_place(place);
}

/// Publishes the operation whose slot had a fault, because it may have failed before this monitor saw it run.
void DeviceMonitor::publish_failed(const Outstanding &failed) {
  if (failed.turn == watched_.turn || ranks_.messages() == nullptr) return;
  if (failed.is_batch()) ranks_.messages()->publish_place({DevicePlace::Kind::messages, failed.records.front()});
  else ranks_.messages()->publish_place({DevicePlace::Kind::collective, failed.number});
}

/// Returns an error if a rank has aborted. Such a rank has captured nothing, since otherwise its abort is a failure. So
/// it never takes part in a replay.
std::optional<Error> DeviceMonitor::find_aborted() const {
  for (uint32_t peer = 0; peer < operations_.rank_count(); ++peer) {
    if (ranks_.state(peer) != RankState::aborted) continue;
    const Departure departure = departure_of(RankState::aborted);
    return Error{departure.status, ranks_.describe_rank(peer) + departure.how, static_cast<int32_t>(operations_.rank()),
                 static_cast<int32_t>(peer)};
  }
  return std::nullopt;
}

/// Checks a replayed graph. A replay's kernel has no number of its own, so only deaths, aborts and the deadline can be
/// checked.
void DeviceMonitor::look_at_replay(const DeviceReport &report, uint64_t now_ns) {
  if (replay_ != report.begun_calls) {
    replay_ = report.begun_calls;
    replay_since_ns_ = now_ns;
    return;
  }
  if (ranks_.failed() || now_ns < next_peers_check_ns_) return;
  next_peers_check_ns_ = now_ns + device_check_interval_ns;
  Error error;
  if (const auto death =
          find_ended_rank(ranks_, operations_.rank(), operations_.rank_count(), UINT64_MAX, RankEnd::death)) {
    error = *death;
    error.operation = known(report.ended_number).number;
  } else if (const auto aborted = find_aborted()) {
    error = *aborted;
    error.operation = known(report.ended_number).number;
  } else if (now_ns - replay_since_ns_ >= operations_.timeout_ns()) {
    error = {RONDO_ERROR_TIMEOUT,
             "an operation of a replayed graph on rank " + std::to_string(operations_.rank()) +
                 " timed out; check that every rank has launched its graph, or raise timeout_ms (RONDO_TIMEOUT)" +
                 device_.shared_queues()};
  } else {
    return;
  }
  error.rank = static_cast<int32_t>(operations_.rank());
  ranks_.raise(error);
}

void DeviceMonitor::report_fault() {
  const DeviceReport report = device_.report();
  uint32_t reason_checks = 0;
  while (!report_fault(report, reason_checks)) sleep_for_ns(stop_interval_ns);  // bounded by reason_checks_max
  if (!ranks_.failed()) tell_device_error();
}

void DeviceMonitor::tell_device_error() {
  const auto sound = device_.check_device();
  if (!sound.ok()) operations_.raise(sound.error(), ranks_.completed_operation(operations_.rank()) + 1);
}

bool DeviceMonitor::report_fault(const DeviceReport &report, uint32_t &reason_checks) {
  if (!report.failed || ranks_.failed()) return true;
  if (report.fault == Fault::none) return find_reason(report, reason_checks);
  const Known failed = known(report.failed_number);
  if (failed.batch != nullptr && failed.number == 0) {
    report_batch_fault(report, failed);
    return true;
  }
  uint64_t number = failed.number;
  auto what = ranks_.entered(operations_.rank(), number);
  if (!what) {  // record overwritten; ranks that disagreed on it disagree on the latest, too
    number = ranks_.latest_operation(operations_.rank());
    what = ranks_.entered(operations_.rank(), number);
  }
  const OperationInfo entered = what ? *what : OperationInfo{};
  if (report_differing_block(report, failed, entered.signature)) return true;
  OperationWatch watch(ranks_, operations_.rank(), operations_.rank_count(), number, entered, operations_.timeout_ns());
  if (const Transfer *const block = block_from(failed, report.peer)) watch.expect_block(block->bytes);
  watch.explain_fault(report.peer, report.fault);
  return true;
}

/// Reports a block of a _v collective whose two ends differ in size. Returns false if the fault is another one.
bool DeviceMonitor::report_differing_block(const DeviceReport &report, const Known &failed, const Signature &call) {
  const Transfer *const block = report.fault == Fault::wrong_size ? block_from(failed, report.peer) : nullptr;
  if (block == nullptr) return false;
  const uint64_t sent_bytes = device_.batch_progress()->sent_bytes();
  ranks_.raise(differing_block(call, failed.number, operations_.rank(), report.peer, sent_bytes, block->bytes));
  return true;
}

/// Returns the block that a collective receives from a rank, or null.
const Transfer *DeviceMonitor::block_from(const Known &failed, uint32_t peer) {
  if (failed.batch == nullptr) return nullptr;
  for (const Transfer &block : failed.batch->transfers())
    if (!block.sends && block.peer == peer) return &block;
  return nullptr;
}

/// Reports the fault of a message. Parts of several messages of a peer are in flight at once, so the message with the
/// fault need not be the head.
void DeviceMonitor::report_batch_fault(const DeviceReport &report, const Known &failed) {
  BatchWatch explaining(*this, failed);
  for (const Transfer &each : failed.batch->transfers()) {
    if (each.sends || each.peer != report.peer || !ranks_.messages()->knows(each.peer)) continue;
    const auto sent = ranks_.messages()->find(report.peer, operations_.rank(), true, each.message);
    if (sent && sent->bytes != each.bytes) return explaining.watch.explain_fault(each, report.fault, 0);
  }
  if (const Transfer *const head = explaining.heads.receiving_from(report.peer))
    explaining.watch.explain_fault(*head, report.fault, 0);
}

/// Finds the reason why a call stopped without a fault, although no failure of the communicator is on record. Either a
/// copy of this rank has failed, or another rank gave up first. The monitor of the other rank will report why, unless
/// that rank dies before it can.
bool DeviceMonitor::find_reason(const DeviceReport &report, uint32_t &reason_checks) {
  tell_device_error();
  if (ranks_.failed()) return true;
  if (++reason_checks >= reason_checks_max(operations_.timeout_ns())) {
    operations_.raise({RONDO_ERROR_REMOTE, "another rank gave up this operation"}, known(report.failed_number).number);
    return true;
  }
  if (reason_checks % reason_checks_per_death_check != 0) return false;
  auto death = find_ended_rank(ranks_, operations_.rank(), operations_.rank_count(), UINT64_MAX, RankEnd::death);
  if (!death) return false;
  death->operation = known(report.failed_number).number;
  ranks_.raise(*death);
  return true;
}

}  // namespace rondo
