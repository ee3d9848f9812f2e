// SPDX-License-Identifier: Apache-2.0
// A communicator and its executor share an object of this class. It knows which operation of this rank has its turn,
// which operations are done, and the failure that ends all operations. A turn counts the operations of this rank only.
// A number counts the collectives, and is equal on all ranks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "src/base/result.h"
#include "src/engine/executor.h"
#include "src/proto/interpreter.h"
#include "src/links/ranks.h"

namespace rondo {

/// An interface that finds which of the caller's buffers peers can read in place, and how. Any thread.
class MemoryExporter {
 public:
  virtual ~MemoryExporter() = default;
  [[nodiscard]] virtual MemoryHandle find(const std::byte *first, size_t bytes) const = 0;
};

class Operations {
 public:
  /// The objects that this object uses. All of them must outlive it.
  struct Parts {
    Ranks *ranks = nullptr;
    const MemoryExporter *registration_cache = nullptr;
    uint32_t rank = 0;
    uint32_t rank_count = 1;
    uint64_t timeout_ns = 0;
    /// Returns an owner of the communicator, which keeps it alive.
    std::function<std::shared_ptr<const void>()> keep;
    /// Notes that the communicator has failed and that a caller will get the failure. If `waits`, it waits briefly
    /// until the recording is written.
    std::function<void(bool waits)> on_failure;
  };
  explicit Operations(Parts parts) : parts_(std::move(parts)), ranks_(*parts_.ranks) {}
  Operations(const Operations &) = delete;
  Operations &operator=(const Operations &) = delete;

  [[nodiscard]] Ranks &ranks() const { return ranks_; }
  [[nodiscard]] const MemoryExporter &registration_cache() const { return *parts_.registration_cache; }
  [[nodiscard]] uint32_t rank() const { return parts_.rank; }
  [[nodiscard]] uint32_t rank_count() const { return parts_.rank_count; }
  [[nodiscard]] uint64_t timeout_ns() const { return parts_.timeout_ns; }

  /// Returns the description of `work`. Ranks compare their descriptions.
  [[nodiscard]] static OperationInfo info_of(const WorkItem &work) {
    return {work.record != nullptr ? *work.record : work.plan->called, work.plan->choice, work.history};
  }

  /// Returns the cost of an operation of the plan, without the fields that only its executor knows.
  [[nodiscard]] static OperationCost cost_of(const Plan &plan) {
    OperationCost cost;
    cost.collective = plan.called.collective;
    cost.bytes = plan.vector_bytes;
    return cost;
  }

  /// Returns the latest turn up to which all operations are done.
  [[nodiscard]] uint64_t executed() const { return executed_.load(std::memory_order_acquire); }  // see mark_executed()
  /// Waits until every operation before `turn` is done. Returns false if the communicator has failed. If no operation
  /// completes within the timeout, the communicator fails.
  [[nodiscard]] bool wait_for_predecessor(uint64_t turn) { return executed() + 1 >= turn || wait_for_turn(turn); }
  /// Notes that the operation of `turn` and all operations before it are done.
  void mark_executed(uint64_t turn) {
    executed_.store(turn, std::memory_order_release);  // pairs with acquire in executed()
    // Relaxed: a new waiter may miss this notification, but it polls every millisecond.
    if (turn_waiter_count_.load(std::memory_order_relaxed) != 0) notify_turns();
  }
  /// Wakes the threads that wait for their turn, so that they see a failure. Call it after an operation has failed.
  void give_up_turns() { notify_turns(); }

  /// Adds this rank and the operation to `error`. Makes it the communicator's failure, unless there is an earlier one,
  /// or this rank has left.
  void raise(Error error, uint64_t number);
  /// Ends this rank's part between operations. From now on, its own calls fail with `error`, but the communicator does
  /// not fail. Call it once, while no operation of this rank runs or can begin.
  void leave(Error error, uint64_t number);
  [[nodiscard]] bool has_left() const { return left_.load(std::memory_order_acquire); }  // pairs with leave()
  /// Returns whether the communicator has failed, or this rank has left.
  [[nodiscard]] bool failed() const { return has_left() || ranks_.failed(); }
  /// Returns the error of leave(), or the communicator's failure. Call it after failed() returned true.
  [[nodiscard]] Error failure() const { return has_left() ? departure_ : ranks_.failure(); }
  /// Fails an operation that has a number but cannot be enqueued, so that the other ranks do not wait for it.
  void raise_not_enqueued(Error error, uint64_t number);
  [[nodiscard]] std::shared_ptr<const void> keep_communicator() const { return parts_.keep(); }
  /// Starts the recording of the failure, without waiting for it.
  void announce_failure() { parts_.on_failure(false); }
  /// Returns the failure. The first call returns it unchanged. Later calls return it with the status
  /// RONDO_ERROR_COMM_FAILED. RONDO_ERROR_REVOKED always stays unchanged.
  [[nodiscard]] Error report_failure();

 private:
  [[nodiscard]] bool wait_for_turn(uint64_t turn);
  [[nodiscard]] Error turn_timed_out(uint64_t turn) const;
  [[nodiscard]] Error own(Error error, uint64_t number) const;
  void notify_turns();

  const Parts parts_;
  Ranks &ranks_;  ///< ranks of parts_
  /// The latest turn that is done. mark_executed() stores it; the store pairs with the load in executed().
  alignas(cache_line_bytes) std::atomic<uint64_t> executed_ = 0;
  std::atomic<uint32_t> turn_waiter_count_ = 0;  ///< threads in wait_for_turn()
  std::atomic<bool> failure_told_ = false;
  std::atomic<bool> left_ = false;  ///< stored by leave()
  Error departure_;                 ///< error of leave(), constant once left_ is true
  std::mutex turn_mutex_;
  std::condition_variable turn_;
};

}  // namespace rondo
