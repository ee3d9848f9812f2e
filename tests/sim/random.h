// SPDX-License-Identifier: Apache-2.0
// This is a seeded source of numbers. Unlike the standard's distributions, it gives the same numbers on every machine
// and with every library.
#pragma once

#include <bit>
#include <cstdint>

namespace rondo::sim {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  /// Returns the next word of splitmix64.
  uint64_t next() {
    uint64_t word = state_ += 0x9E37'79B9'7F4A'7C15u;
    word = (word ^ word >> 30) * 0xBF58'476D'1CE4'E5B9u;
    word = (word ^ word >> 27) * 0x94D0'49BB'1331'11EBu;
    return word ^ word >> 31;
  }
  /// Returns a number from `least` to `most`, both ends included.
  uint64_t between(uint64_t least, uint64_t most) { return least + next() % (most - least + 1); }
  uint32_t below(uint32_t count) { return static_cast<uint32_t>(next() % count); }
  bool chance(uint32_t percent) { return next() % 100 < percent; }
  /// Returns a number from 0 to `most`. The number of its bits is uniform, so small numbers are as frequent as large
  /// ones.
  uint64_t spread(uint64_t most) {
    const auto bits = static_cast<uint64_t>(std::bit_width(most));
    const uint64_t drawn = next() >> (64 - between(1, bits));
    return drawn > most ? most : drawn;
  }
  Random fork() { return Random(next()); }

 private:
  uint64_t state_;
};

}  // namespace rondo::sim
