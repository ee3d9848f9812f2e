// SPDX-License-Identifier: Apache-2.0
#include "src/engine/device_executor.h"

#include <cassert>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/parse.h"
#include "src/base/start_thread.h"
#include "src/engine/device_monitor.h"
#include "src/engine/launches.h"
#include "src/engine/watch.h"

namespace rondo {
namespace {

constexpr uint64_t abandoned_interval_ns = 5'000'000;
constexpr uint64_t peers_check_interval_ns = 20'000'000;

}  // namespace

bool EnqueueWait::is_over() {
  Ranks &ranks = operations_.ranks();
  if (ranks.failed()) return true;
  const uint64_t now = now_ns(), begun_calls = device_.report().begun_calls;
  if (std::exchange(begun_calls_, begun_calls) != begun_calls || deadline_ns_ == 0)
    deadline_ns_ = now + operations_.timeout_ns();
  if (now >= deadline_ns_) return true;
  if (now < next_peers_check_ns_) return false;
  next_peers_check_ns_ = now + peers_check_interval_ns;
  const auto ended = find_ended_rank(ranks, operations_.rank(), operations_.rank_count(), number_, RankEnd::any);
  if (ended) ranks.raise(*ended);
  return ended.has_value();
}

DeviceExecutor::DeviceExecutor() = default;
DeviceExecutor::~DeviceExecutor() { assert(monitor_ == nullptr); }  // its thread calls what is gone by now: end()

void DeviceExecutor::start(Operations &operations) {
  operations_ = &operations;
  Launches::of_process().add(*this);
  monitor_ = std::make_unique<DeviceMonitor>(*this, operations);
}

std::unique_lock<std::shared_mutex> DeviceExecutor::try_quiet() { return Launches::of_process().try_quiet(); }

std::vector<uint32_t> DeviceExecutor::find_dead() const { return operations_->ranks().find_dead(); }

std::string DeviceExecutor::describe_rank(uint32_t rank) const { return operations_->ranks().describe_rank(rank); }

Result<void> DeviceExecutor::enqueue(std::span<const WorkItem> works, StreamRef stream) {
  for (const WorkItem &work : works) RONDO_TRY(enqueue_one(work, stream.device));
  return {};
}

Result<void> DeviceExecutor::enqueue_one(const WorkItem &work, void *stream) {
  const Plan &plan = *work.plan;
  DeviceCall call;
  call.plan = work.prepared;
  call.number = work.number;
  call.divisor = static_cast<rondo_op_t>(plan.key.signature.op) == RONDO_AVG ? operations_->rank_count() : 0;
  call.captured = work.captured;
  call.buffers.signature = work.history;
  // A send window is only read: the schedule has no step that writes it.
  call.buffers.send = {const_cast<std::byte *>(work.send), plan.send.begin, {}};
  call.buffers.recv = {work.recv, plan.recv.begin, {}};
  const OperationInfo entered = Operations::info_of(work);
  operations_->ranks().enter(work.number, entered);
  // First: a launch waits where the stream's queue is full.
  monitor_->add(work.number, entered, Operations::cost_of(plan), work.captured);
  EnqueueWait wait(*this, *operations_, work.number);
  const auto launched = [&]() -> Result<void> {
    // Opening memory of peers may wait for the device, so it comes before this call is in flight. If other work is in
    // flight now, a later call opens it.
    const bool follows = !call.captured && has_peer_news() && try_quiet().owns_lock();
    if (follows && !follow_peers(wait)) return opening_timed_out();
    const auto held = Launches::of_process().hold(wait);
    return held.owns_lock() ? launch(call, stream) : opening_timed_out();
  }();
  if (launched.ok()) return {};
  monitor_->withdraw(work.number);
  operations_->raise_not_enqueued(launched.error(), work.number);
  operations_->ranks().fail(work.number);
  return operations_->report_failure();
}

/// If the communicator has failed already, that failure counts and not this one.
Error DeviceExecutor::opening_timed_out() const {
  return {RONDO_ERROR_TIMEOUT,
          "rank " + std::to_string(operations_->rank()) + " waited longer than its timeout of " +
              show_seconds(operations_->timeout_ns()) +
              " s while its process opened or closed memory that other ranks had registered or deregistered. That "
              "waits for all work on a device, the application's included. Check what does not end on " +
              describe() + ", or on another device of the process, or raise timeout_ms (RONDO_TIMEOUT)"};
}

void DeviceExecutor::look_for_failure() {
  const std::lock_guard lock(monitor_mutex_);  // end() on another thread
  if (monitor_ != nullptr) monitor_->report_fault();
}

bool DeviceExecutor::quiesce() {
  if (monitor_ == nullptr) return true;
  std::string what;
  if (monitor_->quiesce(quiesce_patience_ns)) {
    if (stop_sharing()) return true;
    what = "Opening or closing memory that other ranks have registered waits for it. ";
  }
  abandoned_ = true;
  log::warning({log::Subsystem::device, operations_->rank()},
               "work on " + describe() + " has not ended. " + what + "The communicator's memory is freed when it has");
  return false;
}

void DeviceExecutor::end() {
  std::unique_ptr<DeviceMonitor> ending;
  {
    const std::lock_guard lock(monitor_mutex_);
    ending = std::move(monitor_);
  }
  ending.reset();  // its last look still counts what this executor has in flight
  if (!abandoned_) Launches::of_process().remove(*this);
}

/// A stream passes operations of a communicator that is gone.
void DeviceExecutor::live_on(std::shared_ptr<Executor> self) {
  const SignalsBlocked blocked;
  std::thread([this, self = std::move(self)] {
    while (!drained() || !has_stopped_sharing()) {  // bounded by the process's end
      stop();
      sleep_for_ns(abandoned_interval_ns);
    }
    Launches::of_process().remove(*this);
  }).detach();
}

void DeviceExecutorDeleter::operator()(DeviceExecutor *executor) const noexcept {
  bool handed_over = false;
  try {
    const std::string device = executor->describe();
    std::promise<void> promise;
    const std::future<void> done = promise.get_future();
    auto thread = start_thread("memory that is given back", [executor, promise = std::move(promise)]() mutable {
      delete executor;
      promise.set_value();
    });
    handed_over = thread.ok();
    if (!handed_over) log::warning(log::Subsystem::device, thread.error().message);
    if (handed_over && done.wait_for(std::chrono::nanoseconds(quiesce_patience_ns)) == std::future_status::ready)
      return thread.value().join();
    if (handed_over) {
      thread.value().detach();
      log::warning(log::Subsystem::device, "a communicator's memory on " + device +
                                               " is freed later, because the driver waits for other work there");
    }
  } catch (const std::bad_alloc &) {  // of what is said, or of the thread
  }
  if (!handed_over) delete executor;  // here, where it may wait
}

}  // namespace rondo
