// SPDX-License-Identifier: Apache-2.0
// A lock for a few instructions on the path of every call: it costs one read-modify-write, where a std::mutex costs two
// and two calls. Who does not get it yields the core, and nobody sleeps: not for what may take long.
#pragma once

#include <sched.h>

#include <atomic>

#include "src/base/cpu.h"

namespace rondo {

class ShortLock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) {  // pairs with unlock()
      for (int look = 0; look < looks_before_yield && held_.load(std::memory_order_relaxed); ++look) cpu_pause();
      if (held_.load(std::memory_order_relaxed)) ::sched_yield();
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }  // pairs with lock()

 private:
  static constexpr int looks_before_yield = 64;
  std::atomic<bool> held_ = false;
};

}  // namespace rondo
