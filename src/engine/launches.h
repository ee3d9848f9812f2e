// SPDX-License-Identifier: Apache-2.0
// This class finds quiet moments, in which no work of this process is in flight on any device. Some driver calls wait
// for the whole device, and so also for ranks for which a kernel waits. Such calls are made in quiet moments.
#pragma once

#include <mutex>
#include <shared_mutex>
#include <vector>

namespace rondo {

class DeviceExecutor;
class EnqueueWait;

/// The launches of this process. There is one object. Any thread.
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
  std::shared_mutex mutex_;    ///< shared while a call is enqueued, exclusive in a quiet moment
  std::mutex executors_mutex_;  ///< guards executors_ only, because a launch may hold mutex_ for long
  std::vector<const DeviceExecutor *> executors_;
};

}  // namespace rondo
