// SPDX-License-Identifier: Apache-2.0
// This file has a thread that does the work of many objects of the process in turn. Frameworks make many communicators.
// With one thread for each rank, a process would have hundreds of threads.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace rondo {

/// An object that shares a thread with other objects.
class ThreadSharer {
 public:
  virtual ~ThreadSharer() = default;
  /// Does the work that is due now. Only the shared thread calls it, one sharer at a time. Returns true if it must be
  /// called again after the busy interval.
  [[nodiscard]] virtual bool work_once() = 0;
};

/// A thread that gives its sharers turns. Any other thread may call the functions.
class SharedThread {
 public:
  /// Sets the intervals. If nothing calls wake(), all sharers have a turn after `idle_interval`. If work_once() of a
  /// sharer has returned true, all sharers have a turn after `busy_interval`.
  SharedThread(std::chrono::nanoseconds busy_interval, std::chrono::nanoseconds idle_interval)
      : busy_interval_(busy_interval), idle_interval_(idle_interval) {}

  /// Adds a sharer, and starts the thread with the first one. Throws std::system_error as std::thread does.
  void add(ThreadSharer &sharer);
  /// Removes the sharer. Returns once the thread no longer uses it. The thread ends with its last sharer.
  void remove(ThreadSharer &sharer);
  /// Gives all sharers a turn soon. Waking the thread costs 1.5 us if it is idle. A busy thread polls anyway.
  void wake() {
    wake_count_.fetch_add(1, std::memory_order_seq_cst);  // together with the load below, pairs with run()
    if (is_idle_.load(std::memory_order_seq_cst)) notify();
  }
  /// Returns how often wake() has notified the thread. Tests compare it with the number of calls.
  [[nodiscard]] uint64_t notification_count() {
    const std::lock_guard lock(mutex_);
    return notification_count_;
  }

 private:
  void run();
  void notify();
  void erase(ThreadSharer &sharer);
  [[nodiscard]] bool give_turns(std::unique_lock<std::mutex> &lock);

  const std::chrono::nanoseconds busy_interval_, idle_interval_;
  std::mutex lifecycle_mutex_;  ///< held while the thread is started or ended
  std::mutex mutex_;            ///< guards the members below; taken after lifecycle_mutex_
  std::condition_variable changed_, turn_ended_;
  std::vector<ThreadSharer *> sharers_;
  size_t next_ = 0;  ///< index of the sharer that has the next turn of the round
  ThreadSharer *current_ = nullptr;  ///< the sharer whose turn it is; null between turns
  uint64_t notification_count_ = 0;
  std::atomic<uint64_t> wake_count_ = 0;
  std::atomic<bool> is_idle_ = false;
  std::thread thread_;  ///< guarded by lifecycle_mutex_
};

}  // namespace rondo
