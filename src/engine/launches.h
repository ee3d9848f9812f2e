// SPDX-License-Identifier: Apache-2.0
// Whether anything that this process has enqueued on devices is still to end, and a moment in which nothing is. Some
// calls of a driver wait for a whole device: behind a kernel that waits for other ranks they would wait for these, too.
//
// Ranks that are threads and call all the time may leave no such moment. If one is wanted for a second, the process
// drains: the calls that its communicators have begun go on, and later ones wait until what was wanted is done, for a
// second at most.
//   - A call that another rank of the process has in flight goes on: otherwise that rank would wait for a held call.
//   - If several processes drain at once, the earliest operation that is in flight anywhere is held by none, so all of
//     a communicator come to rest. Two communicators may wait for each other through two processes: hence the second,
//     and twice as long until the next one, up to a minute.
// Replays of graphs are no calls, so they are not held.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>
#include <vector>

namespace rondo {

class DeviceExecutor;
class EnqueueWait;

/// Of the process, which has one. Any thread.
class Launches {
 public:
  [[nodiscard]] static Launches &of_process();

  /// Before the first call of `executor`, and behind its last one when nothing of it is in flight any more.
  void add(const DeviceExecutor &executor);
  void remove(const DeviceExecutor &executor);

  /// Held while a call is enqueued: no quiet moment begins or goes on. Not owned: one goes on, and the wait is over. It
  /// may last as long as what is on a device.
  [[nodiscard]] std::shared_lock<std::shared_mutex> hold(EnqueueWait &wait);
  /// Nothing is in flight, on devices that have not failed, and nothing will be while the result lives. Not owned:
  /// something is. Does not wait.
  [[nodiscard]] std::unique_lock<std::shared_mutex> try_quiet();
  /// try_quiet() was in vain for an executor that has news of its peers. To be called as often as it is.
  void ask_for_quiet();

 private:
  struct Entry {
    const DeviceExecutor *executor = nullptr;
    uint64_t last_number = 0;  ///< while the process drains: later calls are held
  };

  void begin_drain(uint64_t now_ns);
  /// A call that has that number.
  [[nodiscard]] bool drains(const DeviceExecutor &executor, uint64_t number);
  void let_drain(EnqueueWait &wait);

  std::shared_mutex mutex_;    ///< shared: a call is being enqueued; alone: a quiet moment
  std::mutex executors_mutex_;  ///< guards what follows; a launch may hold the other one for long
  std::vector<Entry> executors_;
  std::atomic<uint64_t> drain_end_ns_ = 0;  ///< 0: the process does not drain; calls look without the mutex
  uint64_t wanted_since_ns_ = 0, last_asked_ns_ = 0, patience_ns_ = 0;
};

}  // namespace rondo
