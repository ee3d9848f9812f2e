// SPDX-License-Identifier: Apache-2.0
// This class is the common part of the two executors of a device, which work by kernels and by copies
// (cuda/executors/*_executor.cpp). A call enqueues its work on the caller's stream and returns. One thread of the
// process monitors all its ranks. It reads the devices' reports, and checks for failures and deadlines. Work that waits
// on a device cannot check these by itself, so the thread stops it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "src/engine/device_batch.h"
#include "src/engine/executor.h"
#include "src/proto/interpreter.h"

namespace rondo {

class DeviceMonitor;
class SharedThread;

/// The longest time that quiesce() waits for stopped kernels, and that DeviceExecutorDeleter waits for memory to be
/// freed. A stopped kernel may still be queued. Once it begins, it ends within milliseconds.
inline constexpr uint64_t quiesce_patience_ns = 5'000'000'000;
/// The time between two calls of stop() while something runs.
inline constexpr uint64_t stop_interval_ns = 200'000;

/// The report of a rank's device to the host. With the kernel executor, each call is a kernel. The counts only grow,
/// with one exception in begun_calls.
struct DeviceReport {
  uint64_t begun_calls = 0;   ///< includes replays of captured calls, and a call that waits for ranks which share its
                              ///< kernel; for a moment when a call ends, it may be one too high
  uint64_t ended_calls = 0;   ///< nothing runs if it equals begun_calls
  uint64_t ended_number = 0;  ///< turn of the operation whose kernel ended last, completed or not
  bool failed = false;        ///< a kernel was stopped, or met a wrong slot; later kernels do nothing
  uint64_t failed_number = 0;  ///< turn of the operation that failed
  Fault fault = Fault::none;  ///< fault of a slot, or none if the host stopped the kernel
  uint32_t peer = 0;          ///< rank whose slot has the fault
  /// True if the device reports a stopped operation like a completed one. If so, an operation that ends after a failure
  /// of the communicator counts as not completed.
  bool ends_when_stopped = false;
};

/// The arguments of a call for the device.
struct DeviceCall {
  PreparedPlan *plan = nullptr;
  Buffers buffers;        ///< addresses of the device
  uint64_t turn = 0;      ///< turn of the operation on this rank; the device's reports use it
  uint64_t number = 0;    ///< number of the collective, equal on all ranks
  uint32_t divisor = 0;   ///< the number of ranks for avg, otherwise 0
  bool captured = false;  ///< captured into a graph (check_stream()); runs with each launch of the graph
  Factor factor = {};     ///< factor of a premul sum
};

/// The arguments of a batch of messages for the device.
struct DeviceMessages {
  std::shared_ptr<const DeviceBatch> batch;
  uint64_t turn = 0;
  uint64_t number = 0;    ///< number of the collective that exchanges blocks, or 0 for messages
  bool blocks = false;    ///< true for such a collective
  bool captured = false;  ///< as in DeviceCall
};

class DeviceExecutor;

/// A call's wait, before the call is enqueued, until this process has opened or closed memory of peers. The wait ends
/// early at the timeout, if the communicator fails, or if a peer ends whose data the call needs. Each call has an
/// object of its own, which only the call's thread uses.
class EnqueueWait {
 public:
  /// Begins the wait. The references must outlive this object.
  EnqueueWait(const DeviceExecutor &device, const Operations &operations, uint64_t number)
      : device_(device), operations_(operations), number_(number) {}
  /// Returns whether the wait must end early. The timeout counts from the first call of this function. It begins anew
  /// when a replay begins, since each replay has its own timeout. If a peer has ended, fails the communicator.
  [[nodiscard]] bool is_over();

 private:
  const DeviceExecutor &device_;
  const Operations &operations_;
  const uint64_t number_;                       ///< number of the call's collective, or 0
  uint64_t begun_calls_ = 0, deadline_ns_ = 0;  ///< deadline_ns_ is 0 before the first check
  uint64_t next_peers_check_ns_ = 0;
};

class DeviceExecutor : public Executor {
 public:
  DeviceExecutor();
  ~DeviceExecutor() override;

  void start(Operations &operations) final;
  [[nodiscard]] Result<void> enqueue(std::span<const WorkItem> works, StreamRef stream) final;
  [[nodiscard]] Result<void> open_messages() override;
  [[nodiscard]] Result<void> enqueue_messages(MessageBatch &batch, StreamRef stream) final;
  [[nodiscard]] Result<void> enqueue_one_sided(OneSidedBatch &batch, StreamRef stream) final;
  [[nodiscard]] bool is_idle() const final { return drained(); }
  void look_for_failure() final;
  [[nodiscard]] bool quiesce() final;
  void end() final;
  void live_on(std::shared_ptr<Executor> self) final;

  // The monitor calls these functions. Other threads may call them, too.
  [[nodiscard]] virtual DeviceReport report() const = 0;
  /// Stops the kernels that run or will be launched. The monitor calls it repeatedly until all of them have ended.
  virtual void stop() = 0;
  /// Returns the progress of the kernels of batches, or null if the executor has none.
  [[nodiscard]] virtual const BatchProgress *batch_progress() const { return nullptr; }
  /// Returns whether all enqueued work has ended. The answer is reliable only while no new calls arrive.
  [[nodiscard]] virtual bool drained() const = 0;
  /// Returns whether a mean of integers has divided its sums. `turn` is its turn, and equals report().ended_number.
  [[nodiscard]] virtual bool has_narrowed(uint64_t turn) const = 0;
  /// Returns the end of a timeout's message: why ranks on this device may wait for each other's hardware queues, and
  /// what the user can set. Returns "" if they do not share queues.
  [[nodiscard]] virtual std::string shared_queues() const { return {}; }
  /// Returns whether peers have shared or withdrawn memory that this rank has not opened or closed yet.
  [[nodiscard]] virtual bool has_peer_news() const { return false; }
  /// Makes another thread do the work of follow_peers(), if no work of this process is in flight now. Does not wait for
  /// that thread, which may wait for a replay that has not begun. Only the monitor, the caller, can end such a replay.
  virtual void ask_to_follow_peers() {}
  /// Opens the memory that peers have shared, and closes the memory that they have withdrawn, before a call is
  /// enqueued. Returns once this is done, and delays other calls until then. Returns false if the wait ends early.
  [[nodiscard]] virtual bool follow_peers(EnqueueWait &) { return true; }
  /// Returns the error of the device that arose after a launch, if any.
  [[nodiscard]] virtual Result<void> check_device() const = 0;

 protected:
  /// Enqueues the call and returns. If ranks share a kernel, it returns when all of them have called, or after stop().
  /// `stream` is the caller's stream, or null for the default stream. After a failure of launch(), work that still runs
  /// ends by itself or by stop().
  [[nodiscard]] virtual Result<void> launch(const DeviceCall &call, void *stream) = 0;
  /// Enqueues, before launch(), the widening or scaling of the operands, if the plan needs either. Returns the buffers
  /// for launch().
  [[nodiscard]] virtual Result<Buffers> prepare_operands(const Plan &plan, const DeviceCall &call, void *stream) = 0;
  /// Enqueues, after launch(), the division of the sums. The results go to the buffers of `call`.
  [[nodiscard]] virtual Result<void> narrow(const Plan &plan, const DeviceCall &call, uint32_t rank_count,
                                            void *stream) = 0;
  /// Launches a batch of messages, in the same way as launch().
  [[nodiscard]] virtual Result<void> launch_messages(const DeviceMessages &, void * /*stream*/) {
    return Executor::open_messages();
  }
  /// Enqueues one-sided operations.
  [[nodiscard]] virtual Result<void> launch_one_sided(const OneSidedBatch &, void * /*stream*/) {
    return Executor::open_one_sided();
  }
  /// Returns the most parts into which a message, or a block of a collective, is cut. It is equal on all ranks.
  [[nodiscard]] virtual uint32_t part_count_max(bool /*of_blocks*/) const { return 1; }
  /// Ends the sharing of memory after the last call, with nothing in flight. Peers close memory of this rank, and this
  /// rank closes memory of peers. Returns false if a thread of the executor is still in a call of the driver after some
  /// seconds. In that case, keep the executor until has_stopped_sharing() returns true.
  [[nodiscard]] virtual bool stop_sharing() { return true; }
  [[nodiscard]] virtual bool has_stopped_sharing() { return true; }
  /// Begins a quiet moment: as long as the result owns its lock, no work of this process is in flight on devices. If
  /// some work is in flight now, the result does not own the lock. Does not wait.
  [[nodiscard]] static std::unique_lock<std::shared_mutex> try_quiet();
  /// Keeps one-sided operations from using Operations any more. Such operations may still be on streams.
  virtual void end_one_sided() {}
  /// Returns the argument of start(). Call it only before end().
  [[nodiscard]] Operations *operations() const { return operations_; }
  // These functions describe the communicator's ranks. They may be called after start().
  [[nodiscard]] std::vector<uint32_t> find_dead() const;
  [[nodiscard]] std::string describe_rank(uint32_t rank) const;

 private:
  [[nodiscard]] Result<void> enqueue_one(const WorkItem &work, void *stream);
  [[nodiscard]] Result<void> launch_plan(const Plan &plan, const DeviceCall &call, void *stream);
  /// Returns the blocks of `work` as transfers if its plan has no schedules, as for an all_to_all. Returns null for
  /// other plans, or if memory ran out.
  [[nodiscard]] std::shared_ptr<const DeviceBatch> blocks_of(const WorkItem &work) const;
  /// Calls launches(), and lets no moment of try_quiet() begin meanwhile. `number` is that of the collective, or 0.
  template <class Launch>
  [[nodiscard]] Result<void> launch_held(uint64_t number, bool captured, const Launch &launches);
  [[nodiscard]] Error opening_timed_out() const;

  Operations *operations_ = nullptr;
  std::mutex monitor_mutex_;                ///< keeps end() from removing monitor_ during look_for_failure()
  std::unique_ptr<DeviceMonitor> monitor_;  ///< exists from start() to end()
  bool abandoned_ = false;                  ///< true if quiesce() returned false: live_on() then leaves Launches
};

/// Destroys the executor on a separate thread, because freeing memory waits for all work on the device, including the
/// application's. Returns when the executor is destroyed. After quiesce_patience_ns it warns and returns, and the
/// thread continues. If no thread can be started, the caller's thread destroys the executor.
struct DeviceExecutorDeleter {
  void operator()(DeviceExecutor *executor) const noexcept;
};
using OwnedDeviceExecutor = std::unique_ptr<DeviceExecutor, DeviceExecutorDeleter>;

/// Returns the thread of all monitors (DeviceMonitor), which also watches one-sided operations.
[[nodiscard]] SharedThread &monitor_thread();

/// The launches of this process. There is one object. Any thread. It finds quiet moments, in which no work of this
/// process is in flight on any device. Some driver calls wait for the whole device, and so also for ranks for which a
/// kernel waits. Such calls are made in quiet moments.
class Launches {
 public:
  [[nodiscard]] static Launches &of_process();

  /// Adds `executor` before its first call. Call remove() after its last call, once its work has ended.
  void add(const DeviceExecutor &executor);
  void remove(const DeviceExecutor &executor);

  /// Returns a lock that prevents quiet moments while a call is enqueued. If a quiet moment has begun, waits for its
  /// end, which may take as long as work on a device. If `wait` is over first, the result does not own the lock.
  [[nodiscard]] std::shared_lock<std::shared_mutex> hold(EnqueueWait &wait);
  /// Begins a quiet moment, which lasts as long as the result. In it, no work is in flight on devices that have not
  /// failed. If some work is in flight now, the result does not own the lock. Does not wait.
  [[nodiscard]] std::unique_lock<std::shared_mutex> try_quiet();

 private:
  std::shared_mutex mutex_;     ///< shared while a call is enqueued, exclusive in a quiet moment
  std::mutex executors_mutex_;  ///< guards executors_ only, because a launch may hold mutex_ for long
  std::vector<const DeviceExecutor *> executors_;
};

}  // namespace rondo
