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
    if (sharers_.size() > 1) {
      std::erase(sharers_, &sharer);
      return;
    }
  }
  const std::lock_guard lifecycle(lifecycle_mutex_);
  {
    std::unique_lock lock(mutex_);
    turn_ended_.wait(lock, [&] { return current_ != &sharer; });
    std::erase(sharers_, &sharer);
    if (!sharers_.empty() || !thread_.joinable()) return;
    changed_.notify_all();
  }
  thread_.join();
  thread_ = std::thread();
}

void SharedThread::notify() {
  const std::lock_guard lock(mutex_);  // the thread waits, or has seen the count
  changed_.notify_all();
}

void SharedThread::run() {
  std::unique_lock lock(mutex_);
  while (!sharers_.empty()) {
    const uint64_t seen = wake_count_.load(std::memory_order_relaxed);  // what comes later gives another turn
    if (give_turns(lock)) {
      changed_.wait_for(lock, busy_interval_, [&] { return sharers_.empty(); });
      continue;
    }
    is_idle_.store(true, std::memory_order_seq_cst);  // with the load below it pairs with wake()
    changed_.wait_for(lock, idle_interval_, [&] {
      return sharers_.empty() || wake_count_.load(std::memory_order_seq_cst) != seen;
    });
    is_idle_.store(false, std::memory_order_relaxed);
  }
}

/// Gives each sharer a turn, with `mutex_` held by `lock`, but not during a turn. If one is removed meanwhile, another
/// one may have its turn only in the next round.
bool SharedThread::give_turns(std::unique_lock<std::mutex> &lock) {
  bool busy = false;
  for (size_t each = 0; each < sharers_.size(); ++each) {
    ThreadSharer &now = *sharers_[each];
    current_ = &now;
    lock.unlock();
    busy |= now.take_turn();
    lock.lock();
    current_ = nullptr;
    turn_ended_.notify_all();
  }
  return busy;
}

}  // namespace rondo
