// SPDX-License-Identifier: Apache-2.0
// This file runs the threads of a launch as fibers. One host thread runs all fibers, each until it waits or ends. If
// each had a host thread, the machine would spend most of its time on switching between threads at barriers.
#pragma once

#include <cstdint>
#include <functional>

#include "tests/soft_cuda/soft_kernel.h"

namespace soft_cuda {

// Fibers are not used under ThreadSanitizer, which needs threads that run in parallel. They are also unavailable on
// processors whose registers are unknown here.
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

/// Calls body(0) to body(count - 1), each on its own stack, all on the calling thread. Returns when all calls have
/// returned. This function requires have_fibers. `body` must not make fibers, or throw.
void run_fibers(uint32_t count, const std::function<void(uint32_t index)> &body);

/// Returns the index that the calling fiber's body got.
uint32_t fiber_index();

/// Records that the calling thread begins to run a kernel without fibers.
void begin_host_thread();

/// Lets other threads run. Block::give_way calls this function.
void give_way(Waiting waiting);

}  // namespace soft_cuda
