// SPDX-License-Identifier: Apache-2.0
// This file holds what the executors of a device have in common. Kernels are in cuda/executors/cuda_executor.cpp,
// copies in cuda/executors/copy_executor.cpp. Calls are enqueued on the caller's streams and return. A monitor of the
// rank's own carries over the device's reports, checks for failures and deadlines, and stops the device. The device
// itself only ever stops on request.
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

/// Kernels that were stopped end within milliseconds, once the stream has reached them. This is the longest time for
/// which quiesce() waits for them, and for which the deleter of an executor waits for its memory.
inline constexpr uint64_t quiesce_patience_ns = 5'000'000'000;
/// Between two calls of stop() while something runs.
inline constexpr uint64_t stop_interval_ns = 200'000;

/// The report of one rank's calls on its device to the host; with the kernel executor each call is a kernel. Counts
/// grow, except begun_calls where it was one too many.
struct DeviceReport {
  uint64_t begun_calls = 0;   ///< replays of captured ones among them, and a call that waits for ranks which share its
                              ///< kernel; one too many for the moment in which one ends
  uint64_t ended_calls = 0;   ///< the same as begun_calls: none runs
  uint64_t ended_number = 0;  ///< the turn of the operation whose kernel ended last, done or not
  bool failed = false;        ///< a kernel stopped, or met a slot that did not fit; those after it do nothing
  uint64_t failed_number = 0;  ///< a turn
  Fault fault = Fault::none;  ///< none if the host stopped it
  uint32_t peer = 0;          ///< fault: whose slot
  /// A stopped operation looks like one that is done. If this is true, an operation that ended after a failure of the
  /// communicator does not count as done.
  bool ends_when_stopped = false;
};

/// A call as the device gets it.
struct DeviceCall {
  PreparedPlan *plan = nullptr;
  Buffers buffers;        ///< addresses of the device
  uint64_t turn = 0;      ///< of the operation on this rank, by which the device reports
  uint64_t number = 0;    ///< of the collective: equal on all ranks
  uint32_t divisor = 0;   ///< the number of ranks for avg, otherwise 0
  bool captured = false;  ///< into a graph, as check_stream() reported; it runs with each launch of the graph
  Factor factor = {};     ///< of a premul sum
};

/// A batch of messages as the device gets it.
struct DeviceMessages {
  std::shared_ptr<const DeviceBatch> batch;
  uint64_t turn = 0;
  uint64_t number = 0;    ///< of the collective that exchanges blocks, 0 for messages
  bool blocks = false;    ///< it is such a collective
  bool captured = false;  ///< as in DeviceCall
};

class DeviceExecutor;

/// Limits how long a call waits, before it is enqueued, for memory of peers to be opened or closed. The wait ends when
/// its communicator fails, a peer that owes it something ends, or the timeout is over. One object serves one call, on
/// its thread.
class EnqueueWait {
 public:
  /// Both outlive it.
  EnqueueWait(const DeviceExecutor &device, const Operations &operations, uint64_t number)
      : device_(device), operations_(operations), number_(number) {}
  /// Says whether the wait is over. The time begins with the first call of this, and anew with each replay that begins,
  /// since each has its own. Raises a peer's end.
  [[nodiscard]] bool is_over();

 private:
  const DeviceExecutor &device_;
  const Operations &operations_;
  const uint64_t number_;                       ///< of the call's collective, or 0
  uint64_t begun_calls_ = 0, deadline_ns_ = 0;  ///< no deadline: not looked yet
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
  void look_for_failure() final;
  [[nodiscard]] bool quiesce() final;
  void end() final;
  void live_on(std::shared_ptr<Executor> self) final;

  // The monitor calls these; any thread.
  [[nodiscard]] virtual DeviceReport report() const = 0;
  /// Ends what runs and what will be launched. It is called again and again as long as something has not ended.
  virtual void stop() = 0;
  /// Returns what kernels of batches report, or null if the executor has none.
  [[nodiscard]] virtual const BatchProgress *batch_progress() const { return nullptr; }
  /// Says whether all that was enqueued has ended, as long as no calls come meanwhile.
  [[nodiscard]] virtual bool drained() const = 0;
  /// Says whether the division of the mean of integers with this turn, the latest one that report() has as ended, has
  /// ended as well.
  [[nodiscard]] virtual bool has_narrowed(uint64_t turn) const = 0;
  /// Says whether peers have shared or withdrawn memory, and this rank has not followed yet.
  [[nodiscard]] virtual bool has_peer_news() const { return false; }
  /// Has another thread follow the peers, if nothing of the process is in flight now. Does not wait. That thread may
  /// wait for replays that have not begun, which the monitor must be able to end.
  virtual void ask_to_follow_peers() {}
  /// Follows the peers before a call is enqueued, and waits until that is done; other calls of the process wait as
  /// well. Returns false if the wait is over before.
  [[nodiscard]] virtual bool follow_peers(EnqueueWait &) { return true; }
  /// Returns an error of the device that arose after a launch, if there is one.
  [[nodiscard]] virtual Result<void> check_device() const = 0;

 protected:
  /// Enqueues and returns. Where ranks share a kernel, it returns when all of them have arrived, or by stop(). `stream`
  /// is the caller's, null for the default stream. Work that a failure leaves running ends by itself, or by stop().
  [[nodiscard]] virtual Result<void> launch(const DeviceCall &call, void *stream) = 0;
  /// Enqueues, before launch(), the widening or the scaling of the operands of a plan that needs it. Returns the
  /// buffers for launch().
  [[nodiscard]] virtual Result<Buffers> prepare_operands(const Plan &plan, const DeviceCall &call, void *stream) = 0;
  /// Enqueues, after launch(), the division of the sums into the buffers of `call`.
  [[nodiscard]] virtual Result<void> narrow(const Plan &plan, const DeviceCall &call, uint32_t rank_count,
                                            void *stream) = 0;
  /// Launches a batch likewise.
  [[nodiscard]] virtual Result<void> launch_messages(const DeviceMessages &, void * /*stream*/) {
    return Executor::open_messages();
  }
  /// Returns the most parts into which a message, or a block of a collective, is cut. Equal on all ranks.
  [[nodiscard]] virtual uint32_t part_count_max(bool /*of_blocks*/) const { return 1; }
  /// Ends sharing after the last call, with nothing in flight. Peers close what this rank shared, and it closes what
  /// they shared. Returns false if, after some seconds, a thread of the executor is still in a driver's call for that.
  /// The executor's destructor would wait for that thread until has_stopped_sharing().
  [[nodiscard]] virtual bool stop_sharing() { return true; }
  [[nodiscard]] virtual bool has_stopped_sharing() { return true; }
  /// Begins a moment in which nothing is in flight of what this process has enqueued on devices, as long as the result
  /// lives. The result does not own the lock if something is in flight. Does not wait.
  [[nodiscard]] static std::unique_lock<std::shared_mutex> try_quiet();
  // These functions describe the communicator's ranks, from start() on.
  [[nodiscard]] std::vector<uint32_t> find_dead() const;
  [[nodiscard]] std::string describe_rank(uint32_t rank) const;

 private:
  [[nodiscard]] Result<void> enqueue_one(const WorkItem &work, void *stream);
  [[nodiscard]] Result<void> launch_plan(const Plan &plan, const DeviceCall &call, void *stream);
  /// Returns the blocks of a plan that exchanges them. Null: it does not, or there is no memory.
  [[nodiscard]] std::shared_ptr<const DeviceBatch> blocks_of(const WorkItem &work) const;
  /// Calls launches() while no quiet moment begins. `number`: of the collective, or 0.
  template <class Launch>
  [[nodiscard]] Result<void> launch_held(uint64_t number, bool captured, const Launch &launches);
  [[nodiscard]] Error opening_timed_out() const;

  Operations *operations_ = nullptr;
  std::mutex monitor_mutex_;                ///< guards that monitor_ is there, for calls that only ask
  std::unique_ptr<DeviceMonitor> monitor_;  ///< from start() to end()
  bool abandoned_ = false;                  ///< quiesce() was false: live_on() ends what end() otherwise does
};

/// Destroys the executor on a thread of its own, because freeing memory waits for all work on the device, including the
/// application's. Returns when that is done, or after quiesce_patience_ns with a warning; then the thread continues. If
/// no thread can be started, it destroys the executor itself.
struct DeviceExecutorDeleter {
  void operator()(DeviceExecutor *executor) const noexcept;
};
using OwnedDeviceExecutor = std::unique_ptr<DeviceExecutor, DeviceExecutorDeleter>;

}  // namespace rondo
