// SPDX-License-Identifier: Apache-2.0
#include "src/base/shared_thread.h"

#include <algorithm>

#include "src/base/start_thread.h"

namespace rondo {
void SharedThread::add(ThreadSharer &sharer) {
  const std::lock_guard lifecycle(lifecycle_mutex_);
  {
    const std::lock_guard lock(mutex_);
    sharers_.push_back(&sharer);
  }
  if (thread_.joinable()) return;
  const SignalsBlocked blocked;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (...) {
    const std::lock_guard lock(mutex_);
    sharers_.clear();
    throw;
  }
}

void SharedThread::remove(ThreadSharer &sharer) {
  {
    std::unique_lock lock(mutex_);
    turn_ended_.wait(lock, [&] { return current_ != &sharer; });
    if (sharers_.size() > 1) return erase(sharer);
  }
  const std::lock_guard lifecycle(lifecycle_mutex_);
  {
    std::unique_lock lock(mutex_);
    turn_ended_.wait(lock, [&] { return current_ != &sharer; });
    erase(sharer);
    if (!sharers_.empty() || !thread_.joinable()) return;
    changed_.notify_all();
  }
  thread_.join();
  thread_ = std::thread();
}

void SharedThread::notify() {
  const std::lock_guard lock(mutex_);  // so the thread either waits now, or has seen the new count
  ++notification_count_;
  changed_.notify_all();
}

void SharedThread::run() {
  std::unique_lock lock(mutex_);
  while (!sharers_.empty()) {
    const uint64_t seen = wake_count_.load(std::memory_order_relaxed);  // a later wake() gives another turn
    if (give_turns(lock)) {
      changed_.wait_for(lock, busy_interval_, [&] { return sharers_.empty(); });
      continue;
    }
    is_idle_.store(true, std::memory_order_seq_cst);  // together with the load below, pairs with wake()
    changed_.wait_for(lock, idle_interval_, [&] {
      return sharers_.empty() || wake_count_.load(std::memory_order_seq_cst) != seen;
    });
    is_idle_.store(false, std::memory_order_relaxed);
  }
}

/// Removes the sharer from the list, with `mutex_` held. The other sharers keep their turns in the round.
void SharedThread::erase(ThreadSharer &sharer) {
  const auto found = std::ranges::find(sharers_, &sharer);
  if (found == sharers_.end()) return;
  if (static_cast<size_t>(found - sharers_.begin()) < next_) --next_;
  sharers_.erase(found);
}

/// Gives each sharer a turn. `lock` holds `mutex_`, except during a turn.
bool SharedThread::give_turns(std::unique_lock<std::mutex> &lock) {
  bool busy = false;
  for (next_ = 0; next_ < sharers_.size();) {
    ThreadSharer &now = *sharers_[next_++];
    current_ = &now;
    lock.unlock();
    busy |= now.work_once();
    lock.lock();
    current_ = nullptr;
    turn_ended_.notify_all();
  }
  return busy;
}

}  // namespace rondo
