// SPDX-License-Identifier: Apache-2.0
// This file has the pause of a rank that polls what other ranks publish.
#pragma once

#include <cstdint>

#include "src/base/clock.h"

namespace rondo {

/// Sleeps 50 us in the first 5 ms of a wait, and 1 ms afterwards.
inline void sleep_between_polls(uint64_t waited_ns) { sleep_for_ns(waited_ns < 5'000'000 ? 50'000 : 1'000'000); }

}  // namespace rondo
