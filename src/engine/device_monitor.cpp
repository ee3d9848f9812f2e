// SPDX-License-Identifier: Apache-2.0
#include "src/engine/device_monitor.h"

#include <chrono>

#include "src/base/clock.h"
#include "src/base/start_thread.h"

namespace rondo {
namespace {

constexpr std::chrono::nanoseconds busy_interval{stop_interval_ns};
constexpr auto idle_interval = std::chrono::milliseconds(10);  // replays of graphs come without a call
constexpr uint64_t device_check_interval_ns = 20'000'000;
// Counts checks for the reason why another rank gave up. It does not count time, because a busy or suspended machine
// delays both ranks.
constexpr uint32_t others_looks_max = 40'000, others_looks_per_death_check = 400;
constexpr uint64_t others_look_ns = 50'000;

}  // namespace

DeviceMonitor::DeviceMonitor(DeviceExecutor &device, Operations &operations)
    : device_(device), operations_(operations), ranks_(operations.ranks()) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

DeviceMonitor::~DeviceMonitor() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DeviceMonitor::add(uint64_t number, const OperationInfo &what, OperationCost cost, bool captured) {
  cost.on_device = true;
  cost.ran = !captured;
  bool was_idle = false;
  {
    const std::lock_guard lock(mutex_);
    outstanding_.push_back({number, what, cost, captured});
    ++added_count_;
    was_idle = idle_;
  }
  if (was_idle) changed_.notify_all();
}

void DeviceMonitor::withdraw(uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (!outstanding_.empty() && outstanding_.back().number == number) outstanding_.pop_back();
}

bool DeviceMonitor::quiesce(uint64_t patience_ns) {
  const uint64_t deadline_ns = now_ns() + patience_ns;
  std::unique_lock lock(mutex_);
  for (;;) {
    if (outstanding_.empty() && device_.drained()) return true;
    if (!device_.check_device().ok()) return true;  // an error that sticks: nothing runs there any more
    if (now_ns() >= deadline_ns) return false;
    changed_.wait_for(lock, busy_interval);
  }
}

void DeviceMonitor::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const bool busy = look(lock);
    const uint64_t seen = added_count_;
    if (busy) {
      changed_.wait_for(lock, busy_interval, [&] { return ending_; });
    } else {
      idle_ = true;
      changed_.wait_for(lock, idle_interval, [&] { return ending_ || added_count_ != seen; });
      idle_ = false;
    }
  }
}

bool DeviceMonitor::look(std::unique_lock<std::mutex> &lock) {
  const DeviceReport report = device_.report();
  carry_over(report);
  const bool running = report.begun_calls != report.ended_calls;
  // A check between the last two writes of a replay mistook its end for the beginning of the next replay.
  if (!running) replay_ = watched_begun_ = 0;
  const bool busy = running || !outstanding_.empty();
  const uint64_t now = now_ns();
  if (running && !outstanding_.empty()) {
    if (!watch_ || watched_.number != outstanding_.front().number) {
      watched_ = outstanding_.front();
      watch_.emplace(ranks_, operations_.rank(), operations_.rank_count(), watched_.number, watched_.what,
                     operations_.timeout_ns());
    }
    // Replays before the operation may be running, each of which has its own time.
    if (std::exchange(watched_begun_, report.begun_calls) != report.begun_calls) watch_->restart();
  }
  const bool has_operation = !outstanding_.empty();
  lock.unlock();  // what follows takes its time, and calls the communicator
  report_fault(report);
  if (running && has_operation) {
    look_at_running(now);
  } else if (running) {
    look_at_replay(report, now);
  }
  if (now >= next_device_check_ns_ && !ranks_.failed()) {
    next_device_check_ns_ = now + device_check_interval_ns;
    tell_device_error(report);
  }
  if (ranks_.failed()) {
    device_.stop();  // each time: what ended the waits of a stream may be overwritten
    if (!std::exchange(told_, true)) {
      operations_.announce_failure();
      operations_.give_up_turns();
    }
  }
  if (device_.has_peer_news()) device_.ask_to_follow_peers();
  lock.lock();
  return busy;
}

void DeviceMonitor::carry_over(const DeviceReport &report) {
  while (!outstanding_.empty() &&
         (outstanding_.front().captured || outstanding_.front().number <= report.ended_number)) {
    const uint64_t number = outstanding_.front().number;
    const OperationCost cost = outstanding_.front().cost;
    outstanding_.pop_front();
    if ((report.failed && number >= report.failed_number) || (report.ends_when_stopped && ranks_.failed())) {
      ranks_.fail(number);
    } else {
      ranks_.complete(number, cost);
      operations_.mark_executed(number);
    }
  }
}

void DeviceMonitor::look_at_running(uint64_t now_ns) {
  if (!ranks_.failed() && watch_) static_cast<void>(watch_->look(now_ns));
}

/// A kernel of a replayed graph has no number of its own: deaths and its deadline are all that can be seen.
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
    error.operation = report.ended_number;
  } else if (now_ns - replay_since_ns_ >= operations_.timeout_ns()) {
    error = {RONDO_ERROR_TIMEOUT,
             "a collective of a replayed graph on rank " + std::to_string(operations_.rank()) +
                 " timed out; check that every rank has launched its graph, or raise timeout_ms (RONDO_TIMEOUT)"};
  } else {
    return;
  }
  error.rank = static_cast<int32_t>(operations_.rank());
  ranks_.raise(error);
}

void DeviceMonitor::report_fault() {
  const DeviceReport report = device_.report();
  report_fault(report);
  if (!ranks_.failed()) tell_device_error(report);
}

void DeviceMonitor::tell_device_error(const DeviceReport &report) {
  const auto sound = device_.check_device();
  if (!sound.ok()) operations_.raise(sound.error(), report.ended_number + 1);
}

void DeviceMonitor::report_fault(const DeviceReport &report) {
  if (!report.failed || ranks_.failed()) return;
  if (report.fault == Fault::none) return await_reason(report);
  uint64_t number = report.failed_number;
  auto what = ranks_.entered(operations_.rank(), number);
  if (!what) {  // its record is overwritten; ranks that disagree on it disagree on the latest one, too
    number = ranks_.latest_operation(operations_.rank());
    what = ranks_.entered(operations_.rank(), number);
  }
  const OperationInfo entered = what ? *what : OperationInfo{};
  OperationWatch(ranks_, operations_.rank(), operations_.rank_count(), number, entered, operations_.timeout_ns())
      .explain_fault(report.peer, report.fault);
}

/// The kernel stopped, but not because of this rank, which is stopped only after the communicator's failure is on
/// record. So another rank's kernel gave up first. That rank's monitor will report why, unless it dies before.
void DeviceMonitor::await_reason(const DeviceReport &report) {
  for (uint32_t look = 1; look <= others_looks_max; ++look) {
    if (ranks_.failed()) return;
    sleep_for_ns(others_look_ns);
    if (look % others_looks_per_death_check != 0) continue;
    if (auto death =
            find_ended_rank(ranks_, operations_.rank(), operations_.rank_count(), UINT64_MAX, RankEnd::death)) {
      death->operation = report.failed_number;
      return ranks_.raise(*death);
    }
  }
  operations_.raise({RONDO_ERROR_REMOTE, "another rank gave up this operation"}, report.failed_number);
}

}  // namespace rondo
