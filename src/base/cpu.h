// SPDX-License-Identifier: Apache-2.0
// These functions have one implementation for each type of processor.
#pragma once

#include <atomic>
#include <cstdint>

#include "src/base/clock.h"

namespace rondo {

/// Signals to the processor that this is a spin loop.
inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Requests the cache line of `address` for a write that follows soon. The code contains the instruction prefetchw,
/// because the compiler's builtin may prefetch for reading only. 64-bit processors that lack prefetchw ignore it.
inline void prefetch_for_write(const void *address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char *>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

/// A lock around a few instructions, for the path of every call. It costs one read-modify-write, whereas a std::mutex
/// costs two, and two function calls. A thread that waits for the lock spins, then yields its core, then naps, since
/// the holder may have a lower priority. unlock() does not wake that thread. So do not hold the lock during long work.
class ShortLock {
 public:
  void lock() {
    for (int round = 0; held_.exchange(true, std::memory_order_acquire); ++round) {  // pairs with unlock()
      for (int look = 0; look < looks_before_yield && held_.load(std::memory_order_relaxed); ++look) cpu_pause();
      if (held_.load(std::memory_order_relaxed)) round < yields_before_naps ? yield_core() : sleep_for_ns(nap_ns);
    }
  }
  [[nodiscard]] bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }  // pairs with unlock()
  void unlock() { held_.store(false, std::memory_order_release); }  // pairs with lock()

 private:
  static constexpr int looks_before_yield = 64;
  static constexpr int yields_before_naps = 32;
  static constexpr uint64_t nap_ns = 50'000;
  std::atomic<bool> held_ = false;
};

}  // namespace rondo
