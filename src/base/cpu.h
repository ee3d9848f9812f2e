// SPDX-License-Identifier: Apache-2.0
// These functions hide differences between processors.
#pragma once

namespace rondo {

/// Signals to the processor that this is a spin loop.
inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Requests the cache line of `address` for a write that follows soon. If the compiler may not assume that the
/// processor has prefetchw, its builtin prefetches for reading. Every 64-bit processor at least ignores prefetchw.
inline void prefetch_for_write(const void *address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char *>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace rondo
