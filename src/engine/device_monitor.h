// SPDX-License-Identifier: Apache-2.0
// This class watches the operations of a rank that run on its device. It passes the kernels' reports on to Operations,
// and stops the kernels when a rank has failed, disagrees or does not arrive. A call on a device returns before its
// work has begun. So not the caller, but a thread of the process watches the work (src/base/shared_thread.h).
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "src/base/shared_thread.h"
#include "src/engine/device_batch.h"
#include "src/engine/device_executor.h"
#include "src/engine/operations.h"
#include "src/engine/transfer_watch.h"
#include "src/engine/watch.h"

namespace rondo {

class DeviceMonitor final : private ThreadSharer {
 public:
  /// Joins the thread of all monitors. Both references must outlive this.
  DeviceMonitor(DeviceExecutor &device, Operations &operations);
  DeviceMonitor(const DeviceMonitor &) = delete;
  DeviceMonitor &operator=(const DeviceMonitor &) = delete;
  ~DeviceMonitor() override;  ///< after quiesce(): the kernels must have ended

  /// Adds an operation that the caller will enqueue next. Operations are added in the order of their turns. A captured
  /// operation counts as done when its turn comes, because its kernel runs later and makes no report of its own.
  /// `blocks` has the blocks of a collective that exchanges blocks, otherwise it is null.
  void add(const WorkItem &work, const OperationInfo &what, OperationCost cost,
           std::shared_ptr<const DeviceBatch> blocks);
  /// Adds a batch of messages that the caller will enqueue next, and publishes it.
  void add(const DeviceMessages &messages);

  /// Removes the latest operation, which could not be enqueued.
  void withdraw(uint64_t turn);

  /// Fails the communicator if a kernel has reported a fault, or if the device has failed. A caller that uses this
  /// function need not wait until the monitor's thread finds the failure.
  void report_fault();

  /// Waits, for `patience_ns` at most, until every enqueued kernel has ended. Returns false if some kernels have not.
  /// In that case, the memory that these kernels use must not be freed.
  [[nodiscard]] bool quiesce(uint64_t patience_ns);

 private:
  struct Outstanding {
    uint64_t turn = 0;
    uint64_t number = 0;  ///< number of the collective, or 0 for a batch of messages
    OperationInfo what;
    OperationCost cost;
    bool captured = false;
    bool widened = false;  ///< true for a mean of integers; the report does not cover its final division
    std::shared_ptr<const DeviceBatch> batch;  ///< messages, or blocks of a collective, or null
    std::vector<uint64_t> records;             ///< numbers of the records of the batch's messages

    [[nodiscard]] bool is_batch() const { return number == 0; }
  };
  /// The operation to which a turn in the device's reports belongs.
  struct Known {
    uint64_t turn = 0;
    uint64_t number = 0;
    std::shared_ptr<const DeviceBatch> batch;
  };
  /// The watch over a batch, and its heads.
  struct BatchWatch {
    BatchWatch(const DeviceMonitor &monitor, const Known &known);
    DeviceHeads heads;
    TransferWatch watch;
  };

  void add(std::unique_lock<std::mutex> lock, Outstanding added);
  void end(const Outstanding &ended, bool failed);
  void publish_blocks(const Outstanding &operation);
  void publish_waits();
  void publish_place(DevicePlace::Kind kind);
  void publish_failed(const Outstanding &failed);
  [[nodiscard]] Known known(uint64_t turn);
  [[nodiscard]] bool report_differing_block(const DeviceReport &report, const Known &failed, const Signature &call);
  [[nodiscard]] static const Transfer *block_from(const Known &failed, uint32_t peer);
  void report_batch_fault(const DeviceReport &report, const Known &failed);
  [[nodiscard]] bool work_once() override;
  void carry_over(const DeviceReport &report);
  [[nodiscard]] bool has_ended(const Outstanding &front, const DeviceReport &report) const;
  void look_at_running(uint64_t now_ns);
  [[nodiscard]] std::optional<Error> find_aborted() const;
  void look_at_replay(const DeviceReport &report, uint64_t now_ns);
  /// Raises a failure that the device has reported. Returns false if another rank has given up and has not published
  /// the reason yet. In that case, call it again after stop_interval_ns, with the same `reason_checks`.
  [[nodiscard]] bool report_fault(const DeviceReport &report, uint32_t &reason_checks);
  [[nodiscard]] bool find_reason(const DeviceReport &report, uint32_t &reason_checks);
  void tell_device_error();

  DeviceExecutor &device_;
  Operations &operations_;
  Ranks &ranks_;  ///< ranks of operations_
  std::mutex mutex_;  ///< guards the following members
  std::deque<Outstanding> outstanding_;
  bool has_captured_ = false;  ///< true after a capture, because replays have no place in the operations' order
  std::vector<Known> known_;  ///< the latest operations; the turn modulo the size is the index

  // Only the monitor's thread uses these members.
  std::optional<OperationWatch> watch_;  ///< watch over the collective that runs
  std::optional<BatchWatch> batch_watch_;  ///< watch over the batch that runs
  Outstanding watched_;
  DevicePlace place_;           ///< as published
  uint64_t watched_begun_ = 0;  ///< calls that had begun at the last check
  uint64_t replay_ = 0;         ///< report().begun_calls when a replay was first seen to run, or 0
  uint64_t replay_since_ns_ = 0;
  bool failure_placed_ = false;  ///< true once the place of a failed operation was published
  bool told_ = false;  ///< true once this monitor has announced the communicator's failure
  uint64_t next_device_check_ns_ = 0, next_peers_check_ns_ = 0, next_waits_ns_ = 0;
  uint32_t reason_checks_ = 0;  ///< checks so far for the reason why another rank gave up
};

}  // namespace rondo
