// SPDX-License-Identifier: Apache-2.0
// These are the units and limits in the rows of the tuner's built-in tables.
#pragma once

#include <cstdint>
#include <limits>

namespace rondo {

inline constexpr uint64_t KiB = 1024;
inline constexpr uint64_t MiB = 1024 * KiB;
inline constexpr uint32_t any_ranks = std::numeric_limits<uint32_t>::max();
inline constexpr uint64_t any_bytes = std::numeric_limits<uint64_t>::max();

}  // namespace rondo
