// SPDX-License-Identifier: Apache-2.0
// A host stream: a thread that runs tasks in the order in which they were enqueued, from a ring of 1,024.
//
// A task that fails does not stop the stream. Its failure is kept for the next synchronize(), and what follows runs; an
// operation of a failed communicator then fails at once by itself. Every enqueued task runs exactly once, also when the
// stream is destroyed. So a wait for a task is no longer than the sum of the deadlines before it.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "src/base/result.h"
#include "src/engine/task.h"
#include "src/engine/wait_clock.h"

namespace rondo {

/// This deadline makes a call wait for as long as it takes.
inline constexpr uint64_t no_deadline = UINT64_MAX;

class HostStream {
 public:
  static constexpr uint64_t queue_tasks_max = 1'024;  // the running one included
  static constexpr uint64_t spin_ns_max = 20'000;

  /// Starts the thread. `spin_ns` is how long it may poll for the next task before it sleeps, at most spin_ns_max; 0
  /// where every core is needed for something better.
  [[nodiscard]] static Result<std::shared_ptr<HostStream>> create(uint64_t spin_ns);

  HostStream(const HostStream &) = delete;
  HostStream &operator=(const HostStream &) = delete;
  ~HostStream();

  /// Puts `task` behind the others. A full queue makes the caller wait until a place is free.
  /// @return RONDO_ERROR_TIMEOUT if it is still full at the deadline. RONDO_ERROR_INVALID_HANDLE if the stream is being
  ///         destroyed. RONDO_ERROR_INVALID_ARGUMENT if it is full, and a task of this very stream calls. Nothing was
  ///         enqueued then.
  Result<void> enqueue(Task task, uint64_t deadline_ns = no_deadline);

  /// Waits for what is enqueued by now. @return the first failure since the last synchronize;
  /// RONDO_ERROR_INVALID_ARGUMENT when called by a task of this very stream, which would wait for itself.
  Result<void> synchronize();

  /// Says whether all that was enqueued is done.
  [[nodiscard]] bool idle() const;

  /// Runs what is enqueued, then ends the thread; nothing can be enqueued any more. One caller.
  /// @return as synchronize(); refused, and the stream goes on, when called by a task of this very stream.
  Result<void> close();

  /// Notes that a caller waits for a point of the stream from now on. The stream must have reached that point when it
  /// calls end_waits(), for all that have waited for it: what runs after that point was not waited for.
  void begin_wait();
  void end_waits(uint64_t waiter_count);
  /// Returns for how long callers have waited for what the stream runs; its own thread reads it.
  [[nodiscard]] uint64_t waited_ns() const { return wait_clock_.total_ns(); }

  /// Says whether the caller is a task of this stream.
  [[nodiscard]] bool on_own_thread() const { return std::this_thread::get_id() == thread_id_; }

 private:
  explicit HostStream(uint64_t spin_ns) : spin_ns_limit_(spin_ns), spin_ns_(spin_ns) {}

  Result<void> start();
  void run();
  bool wait_for_task(uint64_t number);
  bool spin_for_task(uint64_t number);
  void complete(uint64_t number, Result<void> result);
  Result<void> take_failure();

  mutable std::mutex mutex_;                // guards what follows, ring_ excepted
  std::condition_variable work_;            // for the thread: a task, or the end
  std::condition_variable progress_;        // for callers: a task completed, or the end
  uint32_t progress_waiter_count_ = 0;
  bool asleep_ = false;                     // the thread waits on work_
  bool closing_ = false;
  std::optional<Error> failure_;            // the first one since the last synchronize
  WaitClock wait_clock_;                    // waited_ns() excepted
  uint64_t synchronize_target_ = 0;         // tasks that callers of synchronize() wait for; 0 if none waits
  uint64_t completed_ = 0;                  // tasks; tasks completed_ .. enqueued_ - 1 are in the ring
  std::atomic<uint64_t> enqueued_ = 0;      // stored under mutex_; release, pairs with acquire in spin_for_task()

  // slot = number & mask; the thread owns the slots of completed_ .. enqueued_ - 1
  std::array<Task, queue_tasks_max> ring_;
  const uint64_t spin_ns_limit_;
  uint64_t spin_ns_;                        // the thread's own: adapts to whether polling was worth it
  std::thread thread_;
  std::thread::id thread_id_;               // set before create() returns, and never again
};

}  // namespace rondo
