// SPDX-License-Identifier: Apache-2.0
// This file makes inputs whose results are known exactly, whatever the order of reduction.
//
// For each of the 4096 elements of a pattern, one of 256 rows is drawn. A vector repeats this pattern, each time
// rotated by a hash of the seed and the position. So inputs are copied from a few kilobytes. Computing them would take
// longer, and the time would depend on how other programs use the caches.
//
// A row has one input for each rank, and the result of reducing them. Rows are drawn so that every partial result, over
// any ranks in any order, is exact in the element type. Inputs of sums are small integers times a power of two. Inputs
// of products are powers of two, and one factor with a full mantissa. So the result is known bit for bit, and an
// element in the wrong place is very likely detected. A rank stores only its own input and the result of each row,
// which are 512 elements. Data that is only copied has random bits, including NaN.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "bench/perf/cases.h"

namespace rondo::perf {

inline constexpr size_t row_count = 256;
inline constexpr size_t pattern_elements = 4096;

/// The bits of 256 elements, one for each row.
using Column = std::array<uint64_t, row_count>;

/// Returns one row as bits of elements: the inputs of all ranks, then the result.
[[nodiscard]] std::vector<uint64_t> make_row(rondo_type_t type, rondo_op_t op, int ranks, uint64_t seed);

/// Returns the bits of a rank's factor in mulsum.
[[nodiscard]] uint64_t make_factor(rondo_type_t type, int rank);

/// An endless sequence of elements, computed from their position.
class Sequence {
 public:
  /// Makes a sequence of random bits.
  Sequence(size_t element_bytes, uint64_t seed);
  /// Makes a sequence of elements of `column`, drawn at random.
  Sequence(size_t element_bytes, uint64_t seed, const Column &column);

  void write(std::byte *to, Part part) const;
  /// Counts the elements at `at` that differ from what write() makes for `part`.
  [[nodiscard]] uint64_t count_wrong(const std::byte *at, Part part) const;

  /// Returns the sequence with every bit inverted, which differs from this one in each element.
  [[nodiscard]] Sequence inverted() const;
  /// Returns a sequence with the same pattern, rotated as `seed` determines. Runs have different seeds.
  [[nodiscard]] Sequence with_seed(uint64_t seed) const;

 private:
  using Pattern = std::vector<std::byte>;

  /// Calls visit(bytes, byte count) for each piece of the pattern in `part`, in order.
  template <class Visit>
  void each_piece(Part part, const Visit &visit) const;

  size_t element_bytes_;
  uint64_t seed_;
  std::shared_ptr<const Pattern> pattern_;  ///< the pattern's elements, packed
};

/// A rank's input and its expected output, for a run of a given seed.
struct Data {
  Sequence input;   ///< elements of this rank's inputs, for the logical vector
  Sequence output;  ///< elements of every rank's output; for sendrecv, the previous rank's input
};

/// Makes the data. `seed` determines the rows. Sequence::with_seed() distinguishes runs.
[[nodiscard]] Data make_data(const Case &what, int rank, uint64_t seed);

}  // namespace rondo::perf
