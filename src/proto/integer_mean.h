// SPDX-License-Identifier: Apache-2.0
// The mean of integers (docs/numerics.md) is computed in words. A rank widens each element to words. The plan adds the
// words of all ranks, without overflow. A rank with a recv buffer divides each sum by the number of ranks.
//     8 bits    one int32
//     32 bits   one int64
//     64 bits   two int64: the high half, with the sign of the element, and the low half, which is never negative
// The sums fit for up to 2^23 ranks.
#pragma once

#include <cstdint>
#include <type_traits>

#include "src/base/host_device.h"

namespace rondo {

/// Returns the number of words of an element.
[[nodiscard]] RONDO_HD constexpr uint32_t mean_words_of(uint64_t element_bytes) { return element_bytes == 8 ? 2 : 1; }

template <class T>
struct IntegerMean {
  using Word = std::conditional_t<sizeof(T) == 1, int32_t, int64_t>;
  static constexpr uint32_t word_count = mean_words_of(sizeof(T));

  RONDO_HD static constexpr void widen(T value, Word *words) {
    if constexpr (word_count == 1) {
      words[0] = static_cast<Word>(value);
    } else {
      words[0] = static_cast<Word>(value >> half_bits);
      words[1] = static_cast<Word>(static_cast<uint64_t>(value) & low_mask);
    }
  }

  /// Returns the sum divided by the number of ranks, truncated toward zero.
  [[nodiscard]] RONDO_HD static constexpr T narrow(const Word *words, uint32_t ranks) {
    if constexpr (word_count == 1) {
      return static_cast<T>(words[0] / static_cast<Word>(ranks));
    } else {
      const auto low_sum = static_cast<uint64_t>(words[1]);
      const int64_t carried = words[0] + static_cast<int64_t>(low_sum >> half_bits);
      const bool negative = carried < 0;
      auto high = static_cast<uint64_t>(carried);
      uint64_t low = low_sum & low_mask;
      if (negative) {  // computes the magnitude, as the two's complement of both halves
        high = low == 0 ? 0 - high : ~high;
        low = (0 - low) & low_mask;
      }
      // Long division by halves. The remainder of the high half is below `ranks`.
      const uint64_t rest = (high % ranks << half_bits) + low;
      const uint64_t quotient = (high / ranks << half_bits) + rest / ranks;
      return static_cast<T>(negative ? 0 - quotient : quotient);
    }
  }

 private:
  static constexpr uint32_t half_bits = 32;
  static constexpr uint64_t low_mask = 0xFFFF'FFFF;
};

}  // namespace rondo
