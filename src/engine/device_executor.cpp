// SPDX-License-Identifier: Apache-2.0
#include "src/engine/device_executor.h"

#include <cassert>
#include <thread>
#include <utility>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/start_thread.h"
#include "src/engine/device_monitor.h"

namespace rondo {
namespace {

constexpr uint64_t abandoned_interval_ns = 5'000'000;

}  // namespace

DeviceExecutor::DeviceExecutor() = default;
DeviceExecutor::~DeviceExecutor() { assert(monitor_ == nullptr); }  // its thread calls what is gone by now: end()

void DeviceExecutor::start(Operations &operations) {
  operations_ = &operations;
  monitor_ = std::make_unique<DeviceMonitor>(*this, operations);
}

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
  // A send window is only ever read: the schedule has no step that writes it.
  call.buffers.send = {const_cast<std::byte *>(work.send), plan.send.begin, {}};
  call.buffers.recv = {work.recv, plan.recv.begin, {}};
  const OperationInfo entered = Operations::info_of(work);
  operations_->ranks().enter(work.number, entered);
  // First: a launch waits where the stream's queue is full.
  monitor_->add(work.number, entered, Operations::cost_of(plan), work.captured);
  const auto launched = launch(call, stream);
  if (launched.ok()) return {};
  monitor_->withdraw(work.number);
  operations_->raise_not_enqueued(launched.error(), work.number);
  operations_->ranks().fail(work.number);
  return operations_->report_failure();
}

void DeviceExecutor::look_for_failure() {
  const std::lock_guard lock(monitor_mutex_);  // end() on another thread
  if (monitor_ != nullptr) monitor_->report_fault();
}

bool DeviceExecutor::quiesce() {
  if (monitor_ == nullptr || monitor_->quiesce(quiesce_patience_ns)) return true;
  log::warning({log::Subsystem::device, operations_->rank()}, "work on " + describe() +
               " has not ended; the memory of its communicator is left until it has");
  return false;
}

void DeviceExecutor::end() {
  std::unique_ptr<DeviceMonitor> ending;
  const std::lock_guard lock(monitor_mutex_);
  ending = std::move(monitor_);
}

/// A stream that comes to an operation of a communicator which is gone passes it.
void DeviceExecutor::live_on(std::shared_ptr<Executor> self) {
  const SignalsBlocked blocked;
  std::thread([this, self = std::move(self)] {
    while (!drained()) {  // bounded by the process's end
      stop();
      sleep_for_ns(abandoned_interval_ns);
    }
  }).detach();
}

}  // namespace rondo
