// SPDX-License-Identifier: Apache-2.0
// This file finds a moment in which nothing is in flight of what this process has enqueued on devices. Some calls of a
// driver wait for a whole device: behind a kernel that waits for other ranks they would wait for these, too.
#pragma once

#include <mutex>
#include <shared_mutex>
#include <vector>

namespace rondo {

class DeviceExecutor;
class EnqueueWait;

/// The process has one such object. Any thread.
class Launches {
 public:
  [[nodiscard]] static Launches &of_process();

  /// Adds `executor` before its first call. remove() follows its last one, when nothing of it is in flight any more.
  void add(const DeviceExecutor &executor);
  void remove(const DeviceExecutor &executor);

  /// Keeps quiet moments away while a call is enqueued: none begins or goes on. The result does not own the lock if one
  /// goes on and the wait is over. A quiet moment may last as long as what is on a device.
  [[nodiscard]] std::shared_lock<std::shared_mutex> hold(EnqueueWait &wait);
  /// Begins a quiet moment: nothing is in flight, on devices that have not failed, and nothing will be while the result
  /// lives. The result does not own the lock if something is in flight. Does not wait.
  [[nodiscard]] std::unique_lock<std::shared_mutex> try_quiet();

 private:
  std::shared_mutex mutex_;    ///< shared while a call is enqueued, exclusive in a quiet moment
  std::mutex executors_mutex_;  ///< guards what follows; a launch may hold the other one for long
  std::vector<const DeviceExecutor *> executors_;
};

}  // namespace rondo
