// SPDX-License-Identifier: Apache-2.0
// A host stream is a thread that runs tasks in the order in which they were enqueued. Its queue holds 1,024 tasks.
//
// A task that fails does not stop the stream. The stream keeps the failure for the next synchronize() and runs the next
// task. A task of a failed communicator fails at once. Every enqueued task runs exactly once, even if the stream is
// destroyed. So a wait for a task is at most as long as the sum of the timeouts of this task and of the tasks before
// it.
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

/// A deadline that never comes.
inline constexpr uint64_t no_task_deadline = UINT64_MAX;

class HostStream {
 public:
  static constexpr uint64_t queue_tasks_max = 1'024;  // includes the task that runs
  static constexpr uint64_t spin_ns_max = 20'000;

  /// Starts the thread. Before the thread sleeps, it polls for the next task, for up to `spin_ns` (at most
  /// spin_ns_max). Use 0 if other threads need the cores.
  [[nodiscard]] static Result<std::shared_ptr<HostStream>> create(uint64_t spin_ns);

  HostStream(const HostStream &) = delete;
  HostStream &operator=(const HostStream &) = delete;
  ~HostStream();

  /// Appends `task` to the queue. If the queue is full, the caller waits until an entry is free.
  /// @return RONDO_ERROR_TIMEOUT: the queue is still full at the deadline. RONDO_ERROR_INVALID_HANDLE: the stream is
  ///         being destroyed. RONDO_ERROR_INVALID_ARGUMENT: the queue is full, and the caller is a task of this stream.
  ///         After an error nothing was enqueued.
  Result<void> enqueue(Task task, uint64_t deadline_ns = no_task_deadline);

  /// Waits until all tasks that are enqueued now have completed. @return the first failure since the last synchronize,
  /// or RONDO_ERROR_INVALID_ARGUMENT if the caller is a task of this stream, which would wait for itself.
  Result<void> synchronize();

  /// Returns the failure that synchronize() would return, and keeps it.
  [[nodiscard]] std::optional<Error> failure() const;

  /// Returns whether all enqueued tasks have completed.
  [[nodiscard]] bool idle() const;

  /// Runs the enqueued tasks, then ends the thread; later calls of enqueue() fail. Only one thread may call close().
  /// @return the result of synchronize(). If a task of this stream calls it, returns an error and does not close.
  Result<void> close();

  /// Records for waited_ns() that a caller begins to wait until this stream reaches a point. When the stream reaches
  /// that point, it must call end_waits() with the number of callers that wait there.
  void begin_wait();
  void end_waits(uint64_t waiter_count);
  /// Returns the total time in which callers have waited for this stream. Only the stream's own thread calls it.
  [[nodiscard]] uint64_t waited_ns() const { return wait_clock_.total_ns(); }

  /// Returns whether the calling thread is this stream's thread.
  [[nodiscard]] bool on_own_thread() const { return std::this_thread::get_id() == thread_id_; }

 private:
  explicit HostStream(uint64_t spin_ns) : spin_ns_limit_(spin_ns), spin_ns_(spin_ns) {}

  Result<void> start();
  void run();
  bool wait_for_task(uint64_t number);
  bool spin_for_task(uint64_t number);
  void complete(uint64_t number, Result<void> result);
  Result<void> take_failure();

  mutable std::mutex mutex_;                // guards the members below except ring_
  std::condition_variable work_;            // wakes the thread: for a task, or to end
  std::condition_variable progress_;        // wakes callers: a task has completed, or the stream ends
  uint32_t progress_waiter_count_ = 0;
  bool asleep_ = false;                     // true while the thread waits on work_
  bool closing_ = false;
  std::optional<Error> failure_;            // first failure since the last synchronize
  WaitClock wait_clock_;                    // guarded except for waited_ns()
  uint64_t synchronize_target_ = 0;         // highest number of tasks for which synchronize() waits, or 0
  uint64_t completed_ = 0;                  // number of completed tasks; tasks completed_ to enqueued_ - 1 are in ring_
  std::atomic<uint64_t> enqueued_ = 0;      // number of enqueued tasks; stored under mutex_, with release for readers

  // Task n is in slot n & mask. The stream's thread owns the slots of tasks completed_ to enqueued_ - 1.
  std::array<Task, queue_tasks_max> ring_;
  const uint64_t spin_ns_limit_;
  uint64_t spin_ns_;                        // polling time for the next task; only the stream's thread uses it
  std::thread thread_;
  std::thread::id thread_id_;               // set before create() returns, and constant afterwards
};

}  // namespace rondo
