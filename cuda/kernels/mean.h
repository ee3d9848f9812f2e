// SPDX-License-Identifier: Apache-2.0
// This file has the kernels for a mean of integers (src/proto/integer_mean.h). One kernel widens a rank's operands to
// words before the plan adds them. The other one divides the sums. They wait for nothing, so their blocks need not be
// resident at once. The stream's order makes their input complete and publishes their result.
//     rondo_mean_widen, rondo_mean_narrow: for all integer types; the type is an argument, since speed does not matter
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/reduce.h"
#include "src/proto/integer_mean.h"

namespace rondo::device {

/// The parameter of both kernels. The threads of the grid divide the elements among themselves.
struct MeanOperation {
  const std::byte *from = nullptr;
  std::byte *to = nullptr;
  uint64_t count = 0;         ///< elements
  uint32_t rank_count = 0;    ///< narrow: the divisor
  uint32_t element_bytes = 0; ///< 1, 4 or 8
  uint32_t is_signed = 0;
};
static_assert(std::is_trivially_copyable_v<MeanOperation> && std::is_standard_layout_v<MeanOperation>);
static_assert(sizeof(MeanOperation) == 40 && offsetof(MeanOperation, rank_count) == 24);

/// Widens elements to words. The words are aligned, but elements may not be.
struct Widen {
  template <class T, size_t alignment, Group G>
  RONDO_HD static void run_elements(G group, const MeanOperation &operation) {
    using Mean = IntegerMean<T>;
    using Word = typename Mean::Word;
    RONDO_KEEP_LOOP
    for (uint64_t index = group.rank(); index < operation.count; index += group.size()) {
      Word words[Mean::word_count];
      Mean::widen(load_aligned<T, alignment>(operation.from + index * sizeof(T)), words);
      RONDO_UNROLL
      for (uint32_t word = 0; word < Mean::word_count; ++word)
        store_aligned<sizeof(Word)>(operation.to + (index * Mean::word_count + word) * sizeof(Word), words[word]);
    }
  }
  [[nodiscard]] RONDO_HD static const std::byte *elements(const MeanOperation &operation) { return operation.from; }
};

/// Divides the sums by the number of ranks.
struct Narrow {
  template <class T, size_t alignment, Group G>
  RONDO_HD static void run_elements(G group, const MeanOperation &operation) {
    using Mean = IntegerMean<T>;
    using Word = typename Mean::Word;
    RONDO_KEEP_LOOP
    for (uint64_t index = group.rank(); index < operation.count; index += group.size()) {
      Word words[Mean::word_count];
      RONDO_UNROLL
      for (uint32_t word = 0; word < Mean::word_count; ++word) {
        const uint64_t at = index * Mean::word_count + word;
        words[word] = load_aligned<Word, sizeof(Word)>(operation.from + at * sizeof(Word));
      }
      store_aligned<alignment>(operation.to + index * sizeof(T), Mean::narrow(words, operation.rank_count));
    }
  }
  [[nodiscard]] RONDO_HD static const std::byte *elements(const MeanOperation &operation) { return operation.to; }
};

template <class Direction, class T, Group G>
RONDO_HD void run_mean_of(G group, const MeanOperation &operation) {
  const bool natural = GroupArgs::address(Direction::elements(operation)) % sizeof(T) == 0;
  if (natural) Direction::template run_elements<T, sizeof(T)>(group, operation);
  else Direction::template run_elements<T, 1>(group, operation);
}

template <class Direction, Group G>
RONDO_HD void run_mean(G group, const MeanOperation &operation) {
  const bool is_signed = operation.is_signed != 0;
  switch (operation.element_bytes) {
    case 1:
      return is_signed ? run_mean_of<Direction, int8_t>(group, operation)
                       : run_mean_of<Direction, uint8_t>(group, operation);
    case 4:
      return is_signed ? run_mean_of<Direction, int32_t>(group, operation)
                       : run_mean_of<Direction, uint32_t>(group, operation);
    default:
      return is_signed ? run_mean_of<Direction, int64_t>(group, operation)
                       : run_mean_of<Direction, uint64_t>(group, operation);
  }
}

}  // namespace rondo::device

/// Expands X(name, Direction) for each kernel of a mean of integers.
#define RONDO_MEAN_KERNELS(X)                    \
  X(rondo_mean_widen, ::rondo::device::Widen)    \
  X(rondo_mean_narrow, ::rondo::device::Narrow)
