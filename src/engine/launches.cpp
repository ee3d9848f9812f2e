// SPDX-License-Identifier: Apache-2.0
#include "src/engine/device_executor.h"

#include <algorithm>

#include "src/base/clock.h"

namespace rondo {
namespace {

constexpr int yields_before_naps = 32;  // a thread that only calls try_quiet() holds the lock briefly
constexpr uint64_t quiet_look_ns = 100'000;

}  // namespace

/// Returns the object of the process. It is never destroyed, because a communicator may exist until the process ends.
Launches &Launches::of_process() {
  static auto *const launches = new Launches;
  return *launches;
}

void Launches::add(const DeviceExecutor &executor) {
  const std::lock_guard lock(executors_mutex_);
  executors_.push_back(&executor);
}

void Launches::remove(const DeviceExecutor &executor) {
  const std::lock_guard lock(executors_mutex_);
  std::erase(executors_, &executor);
}

/// Takes the lock by polling. A thread that is blocked in a lock would not notice a failure.
std::shared_lock<std::shared_mutex> Launches::hold(EnqueueWait &wait) {
  std::shared_lock lock(mutex_, std::try_to_lock);
  for (int look = 0; !lock.owns_lock() && look < yields_before_naps; ++look) {
    yield_core();
    static_cast<void>(lock.try_lock());
  }
  while (!lock.owns_lock() && !wait.is_over()) {
    sleep_for_ns(quiet_look_ns);
    static_cast<void>(lock.try_lock());
  }
  return lock;
}

std::unique_lock<std::shared_mutex> Launches::try_quiet() {
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return lock;
  const std::lock_guard executors_lock(executors_mutex_);
  const auto is_quiet = [](const DeviceExecutor *it) { return it->drained() || !it->check_device().ok(); };
  if (!std::all_of(executors_.begin(), executors_.end(), is_quiet)) lock.unlock();
  return lock;
}

}  // namespace rondo
