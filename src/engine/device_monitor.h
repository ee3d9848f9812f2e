// SPDX-License-Identifier: Apache-2.0
// This thread watches the operations of a rank that run on its device. It carries over the kernels' reports, and stops
// the kernels when a rank has failed, disagrees or does not arrive. Calls on a device return before they have begun, so
// no caller waits for them.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "src/engine/device_executor.h"
#include "src/engine/operations.h"
#include "src/engine/watch.h"

namespace rondo {

class DeviceMonitor {
 public:
  /// Both outlive the monitor.
  DeviceMonitor(DeviceExecutor &device, Operations &operations);
  DeviceMonitor(const DeviceMonitor &) = delete;
  DeviceMonitor &operator=(const DeviceMonitor &) = delete;
  ~DeviceMonitor();  ///< after quiesce(): the kernels must have ended

  /// Adds an operation that will be enqueued now. Numbers come in order. The kernel of a captured operation will run
  /// without a report of its own, so the operation counts as done when its turn comes.
  void add(uint64_t number, const OperationInfo &what, OperationCost cost, bool captured);

  /// Takes back the latest operation, which could not be enqueued.
  void withdraw(uint64_t number);

  /// Fails the communicator if a kernel has seen a fault, or the device has failed. A caller whose stream has ended
  /// need not wait for the monitor's thread.
  void report_fault();

  /// Waits until every kernel that was enqueued has ended, `patience_ns` at most. Returns false if some have not; what
  /// they use must not be freed.
  [[nodiscard]] bool quiesce(uint64_t patience_ns);

 private:
  struct Outstanding {
    uint64_t number = 0;
    OperationInfo what;
    OperationCost cost;
    bool captured = false;
  };

  void run();
  /// Checks what runs. Returns true if it is to be checked again soon.
  bool look(std::unique_lock<std::mutex> &lock);
  void carry_over(const DeviceReport &report);
  void look_at_running(uint64_t now_ns);
  void look_at_replay(const DeviceReport &report, uint64_t now_ns);
  void report_fault(const DeviceReport &report);
  void await_reason(const DeviceReport &report);
  void tell_device_error(const DeviceReport &report);

  DeviceExecutor &device_;
  Operations &operations_;
  Ranks &ranks_;  ///< of operations_
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable changed_;
  std::deque<Outstanding> outstanding_;
  uint64_t added_count_ = 0;
  bool idle_ = false;  ///< the thread waits to be woken, which costs 1.5 us; otherwise it polls
  bool ending_ = false;

  // The monitor's thread alone uses these.
  std::optional<OperationWatch> watch_;  ///< of the operation that runs
  Outstanding watched_;
  uint64_t watched_begun_ = 0;  ///< calls that had begun at its last check
  uint64_t replay_ = 0;         ///< the call, counted, that was seen to run without an operation of its own
  uint64_t replay_since_ns_ = 0;
  bool told_ = false;  ///< the device was stopped
  uint64_t next_device_check_ns_ = 0, next_peers_check_ns_ = 0;
  std::thread thread_;  ///< last: it uses all of the above
};

}  // namespace rondo
