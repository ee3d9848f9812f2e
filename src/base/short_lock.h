// SPDX-License-Identifier: Apache-2.0
// This lock is for a few instructions on the path of every call. It costs one read-modify-write, while a std::mutex
// costs two, and two calls. A thread that fails to take it is not woken. The thread yields the core, then naps, since
// the holder may have a lower priority. So do not use the lock for work that often takes long.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/clock.h"
#include "src/base/cpu.h"

namespace rondo {

class ShortLock {
 public:
  void lock() {
    for (int round = 0; held_.exchange(true, std::memory_order_acquire); ++round) {  // pairs with unlock()
      for (int look = 0; look < looks_before_yield && held_.load(std::memory_order_relaxed); ++look) cpu_pause();
      if (held_.load(std::memory_order_relaxed)) round < yields_before_naps ? yield_core() : sleep_for_ns(nap_ns);
    }
  }
  void unlock() { held_.store(false, std::memory_order_release); }  // pairs with lock()

 private:
  static constexpr int looks_before_yield = 64;
  static constexpr int yields_before_naps = 32;
  static constexpr uint64_t nap_ns = 50'000;
  std::atomic<bool> held_ = false;
};

}  // namespace rondo
