// SPDX-License-Identifier: Apache-2.0
// Hides differences between processors.
#pragma once

namespace rondo {

/// Signals to the core that this is a spin loop.
inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

/// Requests the cache line of `address`, to be written soon. The compiler's own prefetch for writing becomes one for
/// reading, if it may not assume that the processor has the other. Every 64-bit processor at least ignores prefetchw.
inline void prefetch_for_write(const void *address) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char *>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace rondo
