// SPDX-License-Identifier: Apache-2.0
// Threads of a launch as fibers: one host thread runs all of them, each until it waits or ends. With a host thread for
// each, most of the machine's time goes to handing cores over at barriers.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/soft_cuda/soft_kernel.h"

namespace soft_cuda {

// ThreadSanitizer shall see threads that run side by side. Other processors' registers are not known here.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SOFT_CUDA_THREAD_SANITIZER
#endif
#elif defined(__SANITIZE_THREAD__)
#define SOFT_CUDA_THREAD_SANITIZER
#endif
#if defined(__x86_64__) && !defined(SOFT_CUDA_THREAD_SANITIZER)
inline constexpr bool have_fibers = true;
#else
inline constexpr bool have_fibers = false;
#endif

/// Calls body(0) to body(count - 1), each on a stack of its own, all on the calling thread. Returns when all have
/// returned. Only where have_fibers; `body` makes no fibers itself and throws nothing.
void run_fibers(uint32_t count, const std::function<void(uint32_t index)> &body);

/// Returns what the body of the calling fiber was given.
uint32_t fiber_index();

/// Notes that the calling thread begins to run a kernel without fibers.
void begin_host_thread();

/// Gives way, as Block::give_way.
void give_way(Waiting waiting);

}  // namespace soft_cuda
