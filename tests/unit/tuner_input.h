// SPDX-License-Identifier: Apache-2.0
// This file makes inputs for the tuner, and a registry of algorithms with the shape of the real one.
#pragma once

#include <array>
#include <vector>

#include "src/plan/tuner.h"
#include "tests/catch.h"

namespace rondo_test {

inline bool everything(rondo_collective_t) { return true; }
inline bool wholes(rondo_collective_t it) { return it != RONDO_REDUCE_SCATTER && it != RONDO_ALL_GATHER; }

/// A registry with limits that are easy to exceed.
inline constexpr std::array registry{
    rondo::Algorithm{RONDO_ALGORITHM_RING, 4096, everything, nullptr, nullptr},
    rondo::Algorithm{RONDO_ALGORITHM_TREE, 100'000, wholes, nullptr, nullptr},
    rondo::Algorithm{RONDO_ALGORITHM_ONE_SHOT, 12, everything, nullptr, nullptr},
    rondo::Algorithm{RONDO_ALGORITHM_TWO_SHOT, 12, wholes, nullptr, nullptr},
};

constexpr rondo::TunerInput with(rondo_collective_t collective, uint32_t rank_count, uint64_t bytes) {
  rondo::TunerInput input;
  input.collective = collective;
  input.rank_count = rank_count;
  input.bytes = bytes;
  input.slot_bytes = 65536;
  input.ll_slot_bytes = 32768;
  return input;
}

inline const std::vector<uint64_t> sizes{0,     1,     8,      1024,   1025,
                                         32768, 32769, 262144, 262145, uint64_t{1} << 40,
                                         UINT64_MAX};

}  // namespace rondo_test
