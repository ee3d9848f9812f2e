// SPDX-License-Identifier: Apache-2.0
// What differs between processors.
#pragma once

namespace rondo {

/// Tells the core that this is a spin loop.
inline void cpu_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace rondo
