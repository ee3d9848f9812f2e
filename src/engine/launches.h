// SPDX-License-Identifier: Apache-2.0
// Whether anything that this process has enqueued on devices is still to end, and a moment in which nothing is. Some
// calls of a driver wait for a whole device: behind a kernel that waits for other ranks they would wait for these, too.
#pragma once

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

 private:
  std::shared_mutex mutex_;    ///< shared: a call is being enqueued; alone: a quiet moment
  std::mutex executors_mutex_;  ///< guards what follows; a launch may hold the other one for long
  std::vector<const DeviceExecutor *> executors_;
};

}  // namespace rondo
