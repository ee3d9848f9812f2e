// SPDX-License-Identifier: Apache-2.0
// The one clock: nanoseconds of CLOCK_MONOTONIC. Core logic takes the time as an argument; shells call this.
#pragma once

#include <time.h>

#include <cstdint>

namespace rondo {

[[nodiscard]] inline uint64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace rondo
