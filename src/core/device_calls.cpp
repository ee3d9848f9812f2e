// SPDX-License-Identifier: Apache-2.0
// The communicator of a rank on a device: calls are enqueued on the caller's streams, and run there; the monitor sees
// them end.
#include <thread>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/start_thread.h"
#include "src/core/communicator.h"

namespace rondo {
namespace {

/// Kernels that were told to stop end within milliseconds, once the stream has come to them.
constexpr uint64_t quiesce_patience_ns = 5'000'000'000;
constexpr uint64_t abandoned_interval_ns = 5'000'000;

/// A stream that comes to an operation of a communicator which is gone passes it.
void stop_until_ended(std::unique_ptr<DeviceExecutor> device) {
  const SignalsBlocked blocked;
  std::thread([device = std::move(device)] {
    while (!device->drained()) {  // bounded by the process's end
      device->stop();
      sleep_for_ns(abandoned_interval_ns);
    }
  }).detach();
}

}  // namespace

Result<void> Communicator::check_buffer(const char *name, const void *pointer, size_t bytes) const {
  if (device_ != nullptr) return device_->check_buffer(name, pointer, bytes);
  if (bytes == 0 || !probe_.is_device_memory(pointer)) return {};
  return invalid_argument(std::string(name) +
                          " is memory of a CUDA device, but the communicator is on the host; set rondo_config_t.device "
                          "to that device's number when you make one");
}

void Communicator::watch_device() {
  DeviceMonitor::Parts parts;
  parts.device = device_.get();
  parts.ranks = &ranks_;
  parts.rank = rank_;
  parts.rank_count = rank_count_;
  parts.timeout_ns = settings_.timeout_ns;
  parts.completed = [this](uint64_t number) { end_turn(number); };
  parts.failed = [this] {
    dump_.begin();
    give_up_turns();
  };
  monitor_ = std::make_unique<DeviceMonitor>(std::move(parts));
}

Result<void> Communicator::enqueue(const Call &call, void *stream) {
  const std::lock_guard lock(submit_lock_);
  if (ranks_.failed()) return tell_failure();
  if (finalized_) return Error{RONDO_ERROR_INVALID_HANDLE, "the communicator is finalized; only destroy is left"};
  RONDO_TRY_ASSIGN(const bool captured, device_->check_stream(stream));
  RONDO_TRY_ASSIGN(BoundPlan *const bound, plan_for(call));
  const Plan &plan = *bound->plan;
  const bool is_barrier = call.signature.collective == RONDO_BARRIER;
  const void *const send = is_barrier ? device_->barrier_buffer(0) : call.send;
  void *const recv = is_barrier ? device_->barrier_buffer(1) : call.recv;
  DeviceCall what;
  what.plan = bound->device.get();
  what.number = ++submitted_;
  what.divisor = bound->reducer.divisor;
  what.captured = captured;
  history_ = extend_history(history_, plan.identity);
  what.buffers.signature = fingerprint(history_);
  // A send window is only ever read: the schedule has no step that writes it.
  what.buffers.send = {static_cast<std::byte *>(const_cast<void *>(send)), plan.send.begin, {}};
  what.buffers.recv = {static_cast<std::byte *>(recv), plan.recv.begin, {}};
  bound->last_operation = what.number;  // under the lock that eviction needs too
  bound->captured |= captured;
  const OperationInfo entered{plan.key.signature, plan.shape, what.buffers.signature};
  ranks_.enter(what.number, entered);
  monitor_->add(what.number, entered, captured);  // first: a launch waits where the stream's queue is full
  const auto launched = device_->launch(what, stream);
  if (launched.ok()) return {};
  monitor_->withdraw(what.number);
  // Its number is taken: the other ranks wait for an operation that will never come from here.
  Error error = launched.error();
  error.rank = error.peer = static_cast<int32_t>(rank_);
  error.operation = what.number;
  error.message = "operation " + std::to_string(what.number) + " could not be enqueued: " + error.message;
  ranks_.raise(error);
  ranks_.fail(what.number);
  return tell_failure();
}

void Communicator::leave_device() {
  if (monitor_ == nullptr) return;
  const bool ended = monitor_->quiesce(quiesce_patience_ns);
  std::unique_ptr<DeviceMonitor> ending;
  {
    const std::lock_guard lock(monitor_mutex_);
    ending = std::move(monitor_);
  }
  ending.reset();
  if (ended) return;
  // What a kernel may still touch must stay: it is behind something in its stream that does not end.
  log::warning({log::Subsystem::device, rank_}, "work on " + device_->describe() +
               " has not ended; the memory of its communicator is left until it has");
  stop_until_ended(std::move(device_));
}

}  // namespace rondo
