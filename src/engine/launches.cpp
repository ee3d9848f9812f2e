// SPDX-License-Identifier: Apache-2.0
#include "src/engine/launches.h"

#include <algorithm>

#include "src/base/clock.h"
#include "src/engine/device_executor.h"

namespace rondo {
namespace {

constexpr int yields_before_naps = 32;  // a call may only have asked whether all is quiet
constexpr uint64_t quiet_look_ns = 100'000;
constexpr uint64_t patience_least_ns = 1'000'000'000, patience_most_ns = 64 * patience_least_ns;
constexpr uint64_t drain_ns = 1'000'000'000;
constexpr uint64_t drain_timeout_part = 4;  // peers' kernels wait for a held call, and so their timeouts run

}  // namespace

/// Never destroyed: a communicator may be left to the process's end.
Launches &Launches::of_process() {
  static auto *const launches = new Launches;
  return *launches;
}

void Launches::add(const DeviceExecutor &executor) {
  const std::lock_guard lock(executors_mutex_);
  executors_.push_back({&executor});
}

void Launches::remove(const DeviceExecutor &executor) {
  const std::lock_guard lock(executors_mutex_);
  std::erase_if(executors_, [&](const Entry &it) { return it.executor == &executor; });
}

/// Asks that come after a pause are for something else.
void Launches::ask_for_quiet() {
  const uint64_t now = now_ns();
  const std::lock_guard lock(executors_mutex_);
  if (drain_end_ns_.load(std::memory_order_relaxed) != 0) return;
  if (now - last_asked_ns_ >= patience_least_ns) {
    wanted_since_ns_ = now;
    patience_ns_ = patience_least_ns;
  }
  last_asked_ns_ = now;
  if (now - wanted_since_ns_ >= patience_ns_) begin_drain(now);
}

/// With executors_mutex_ held. A rank's next call may be on its way to the device, and not be seen yet: one more.
void Launches::begin_drain(uint64_t now_ns) {
  for (Entry &it : executors_) {
    it.last_number = 0;
    for (const Entry &other : executors_)
      if (other.executor->communicator() == it.executor->communicator())
        it.last_number = std::max(it.last_number, other.executor->entered_number() + 1);
  }
  patience_ns_ = std::min(2 * patience_ns_, patience_most_ns);
  wanted_since_ns_ = last_asked_ns_ = now_ns + drain_ns;
  drain_end_ns_.store(now_ns + drain_ns, std::memory_order_relaxed);
}

/// Of an executor that was added since, nothing is held.
bool Launches::drains(const DeviceExecutor &executor, uint64_t number) {
  const std::lock_guard lock(executors_mutex_);
  const uint64_t end_ns = drain_end_ns_.load(std::memory_order_relaxed);
  if (end_ns == 0) return false;
  const auto has_news = [](const Entry &it) { return it.executor->has_peer_news(); };
  const bool wanted = std::any_of(executors_.begin(), executors_.end(), has_news);
  if (wanted && now_ns() < end_ns) {
    const auto found = std::find_if(executors_.begin(), executors_.end(),
                                    [&](const Entry &it) { return it.executor == &executor; });
    return found != executors_.end() && found->last_number != 0 && number > found->last_number;
  }
  drain_end_ns_.store(0, std::memory_order_relaxed);
  if (!wanted) last_asked_ns_ = 0;
  return false;
}

/// Each executor has a thread of its own that follows, which looks at once when it is asked.
void Launches::let_drain(EnqueueWait &wait) {
  const uint64_t end_ns = now_ns() + wait.timeout_ns() / drain_timeout_part;
  while (drains(wait.device(), wait.number()) && now_ns() < end_ns && !wait.is_over()) {
    if (wait.device().has_peer_news()) wait.device().ask_to_follow_peers();
    sleep_for_ns(quiet_look_ns);
  }
}

/// Looks again and again: who waits for a lock sees no failure.
std::shared_lock<std::shared_mutex> Launches::hold(EnqueueWait &wait) {
  // Relaxed: a call that does not see it is the one that begin_drain() adds.
  if (drain_end_ns_.load(std::memory_order_relaxed) != 0) let_drain(wait);
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
  const auto is_quiet = [](const Entry &it) { return it.executor->drained() || !it.executor->check_device().ok(); };
  if (!std::all_of(executors_.begin(), executors_.end(), is_quiet)) lock.unlock();
  return lock;
}

}  // namespace rondo
