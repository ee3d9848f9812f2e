// SPDX-License-Identifier: Apache-2.0
// This file has threads that are used again and again. Under ThreadSanitizer, to make a thread takes longer than most
// emulated blocks.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace rondo::test {

/// Threads that belong to one caller. Their order is that of threads that the caller would make and join each time:
/// only the caller precedes their tasks, and follows them.
class Crew {
 public:
  Crew() = default;
  Crew(const Crew &) = delete;
  Crew &operator=(const Crew &) = delete;
  ~Crew() {
    for (const auto &member : members_) member->give(nullptr);
    for (const auto &member : members_) member->thread.join();
  }

  /// Calls task(0) to task(count - 1) at the same time, the first one on the calling thread. Returns when all have
  /// returned. A task must not use this crew, and must not throw.
  void run(uint32_t count, const std::function<void(uint32_t)> &task) noexcept {
    while (members_.size() + 1 < count) members_.push_back(std::make_unique<Member>(members_.size() + 1));
    for (uint32_t index = 1; index < count; ++index) members_[index - 1]->give(&task);
    if (count != 0) task(0);
    for (uint32_t index = 1; index < count; ++index) members_[index - 1]->await();
  }

 private:
  using Task = std::function<void(uint32_t)>;
  struct Member {
    explicit Member(size_t of_index) : index(static_cast<uint32_t>(of_index)), thread([this] { work(); }) {}
    void give(const Task *of_task) {
      const std::lock_guard lock(mutex);
      task = of_task;
      has_task = true;
      changed.notify_one();
    }
    void await() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return !has_task; });
    }
    void work() {
      std::unique_lock lock(mutex);
      for (;;) {
        changed.wait(lock, [this] { return has_task; });
        if (task == nullptr) return;
        lock.unlock();
        (*task)(index);
        lock.lock();
        has_task = false;
        changed.notify_one();
      }
    }

    const uint32_t index;
    std::mutex mutex;
    std::condition_variable changed;
    const Task *task = nullptr;  ///< null ends the thread
    bool has_task = false;
    std::thread thread;  // begins when all other members exist
  };

  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace rondo::test
