// SPDX-License-Identifier: Apache-2.0
// A communicator as one rank holds it. It owns everything below: transport, plans. The API validates arguments
// and calls submit(); a stream's thread or the caller then executes the operation, strictly in the order of numbers.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "cuda/device_executor.h"
#include "cuda/pointer_probe.h"
#include "src/base/config.h"
#include "src/base/short_lock.h"
#include "src/core/device_monitor.h"
#include "src/core/failure_dump.h"
#include "src/core/group_info.h"
#include "src/core/host_stream.h"
#include "src/core/loans.h"
#include "src/core/plan_cache.h"
#include "src/core/watch.h"
#include "src/engine/direct.h"
#include "transports/transport.h"

namespace rondo {

/// A collective as the API has checked it.
struct Call {
  Signature signature;
  const void *send = nullptr;
  void *recv = nullptr;
  bool in_place = false;
  const size_t *counts = nullptr;         ///< _v: rank_count entries; read during submit() only
  const size_t *displacements = nullptr;  ///< _v: or null, one block after another
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  /// What it is made of; every rank has met already.
  struct Parts {
    uint32_t rank = 0;
    uint32_t rank_count = 1;
    Settings settings;
    GroupInfo group;
    std::unique_ptr<Transport> transport;
    shm::RegionTable *regions = nullptr;
    const TuningTable *tuning = nullptr;  ///< outlives it; null: none
    std::unique_ptr<DeviceExecutor> device = nullptr;  ///< null: host memory
  };
  explicit Communicator(Parts parts);
  Communicator(const Communicator &) = delete;
  Communicator &operator=(const Communicator &) = delete;

  [[nodiscard]] uint32_t rank() const { return rank_; }
  [[nodiscard]] uint32_t rank_count() const { return rank_count_; }
  [[nodiscard]] const Settings &settings() const { return settings_; }
  [[nodiscard]] const GroupInfo &group() const { return group_; }
  [[nodiscard]] const Links &links() const { return links_; }
  [[nodiscard]] LoanBook &loans() { return loans_; }

  [[nodiscard]] bool on_device() const { return device_ != nullptr; }
  /// AUTO: on host memory.
  [[nodiscard]] rondo_device_executor_t device_executor() const {
    return device_ != nullptr ? device_->kind() : RONDO_DEVICE_EXECUTOR_AUTO;
  }
  /// RONDO_ERROR_INVALID_ARGUMENT: not memory of this communicator's device.
  [[nodiscard]] Result<void> check_buffer(const char *name, const void *pointer, size_t bytes) const;
  /// On a device: gives the operation its number and enqueues it on the caller's stream.
  Result<void> enqueue(const Call &call, void *stream);

  /// On host memory: gives the operation its number and executes it, now where `stream` is null, else as a task of the
  /// stream.
  Result<void> submit(const Call &call, HostStream *stream);

  /// What submit() would choose.
  [[nodiscard]] Result<PlanChoice> choose(rondo_collective_t collective, uint64_t vector_elements,
                                          rondo_type_t type) const;

  /// The first failure, if any; looks for peers that have died.
  [[nodiscard]] std::optional<Error> failure();
  void abort();
  /// Waits for this rank's operations, then for every rank to do the same.
  Result<void> finalize();
  /// Waits for this rank's operations, then leaves the group.
  void close();

 private:
  /// An operation on its way.
  struct Operation {
    uint64_t number = 0;
    uint32_t history = 0;        ///< fingerprint() of it and all before it
    BoundPlan *bound = nullptr;  ///< stays until the operation is done: see PlanCache
    const std::byte *send = nullptr;
    std::byte *recv = nullptr;
  };

  /// Waits for this rank's operations.
  Result<void> drain();
  void watch_device();
  /// Before the end: no kernel touches what the communicator owns any more, or it is left alone for good.
  void leave_device();
  Result<BoundPlan *> plan_for(const Call &call);
  Result<std::unique_ptr<BoundPlan>> bind(const Call &call);
  Result<void> execute(const Operation &operation);
  Result<void> run(const Operation &operation);
  Result<void> run_transfers(const Operation &operation);
  [[nodiscard]] bool stay_in_reach(uint64_t number, Waiter &waiter) const;
  Result<void> wait_turn(uint64_t number);
  [[nodiscard]] Error turn_timed_out(uint64_t number) const;
  /// `number` is done, and every operation before it.
  void end_turn(uint64_t number);
  /// An operation failed: those that wait for their turn find the failure.
  void give_up_turns();
  /// Logs the failure, once.
  void note_failure(const Error &error);
  /// The failure as it is to whoever asks first, RONDO_ERROR_COMM_FAILED afterwards.
  [[nodiscard]] Error tell_failure();

  const uint32_t rank_;
  const uint32_t rank_count_;
  const Settings settings_;
  const GroupInfo group_;
  const TuningTable *const tuning_;
  const WaitPolicy wait_policy_;
  const std::unique_ptr<Transport> transport_;
  Links &links_;  ///< of transport_
  Ranks &ranks_;  ///< of transport_
  FailureDump dump_;
  std::vector<LinkEnds> ends_;  ///< [channel * rank_count + peer]
  Scratch scratch_;
  ExchangeEnd exchange_;
  LoanBook loans_;
  std::unique_ptr<DeviceExecutor> device_;  ///< null: host memory; outlives the plans
  cuda::PointerProbe probe_;                ///< of a communicator on the host
  alignas(cache_line_bytes) std::byte barrier_buffer_[2] = {};

  /// Guards plans_, submitted_, history_, finalized_. A launch on a device may block while it holds this lock: its
  /// queue is full, or the other ranks of a shared kernel have not come. Other callers sleep meanwhile.
  ShortLock submit_lock_;
  PlanCache plans_;
  uint64_t submitted_ = 0;  ///< number of the latest operation
  uint64_t history_ = 0;    ///< extend_history() by it
  bool finalized_ = false;

  std::atomic<uint64_t> executed_ = 0;  ///< operations done; stored in end_turn(), pairs with wait_turn()
  std::atomic<bool> running_ = false;   ///< an operation uses the caller's buffers: run(), pairs with close()
  std::atomic<bool> failure_told_ = false;
  std::atomic<bool> failure_logged_ = false;  ///< relaxed: whoever comes first logs; no data rides on it
  std::mutex turn_mutex_;
  std::atomic<uint32_t> turn_waiter_count_ = 0;  ///< threads in the slow part of wait_turn()
  std::condition_variable turn_;
  std::mutex monitor_mutex_;                ///< guards that monitor_ is there, for who only asks
  std::unique_ptr<DeviceMonitor> monitor_;  ///< of device_; last, since its thread calls this object
};

}  // namespace rondo
