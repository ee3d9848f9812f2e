// SPDX-License-Identifier: Apache-2.0
// Inputs whose results are exactly known, whatever the order in which they are reduced.
//
// Each element has one of 256 rows, drawn for a pattern of 4096 elements. Every 4096 elements of a vector are that
// pattern, rotated by a hash of the seed and their position. So writing is copying from a cache. Otherwise inputs would
// take long to write, and their time would include what the machine's other users did to its caches meanwhile.
//
// A row has one input for each rank and the result of reducing them. Rows are drawn so that every partial result, over
// any of the ranks in any order, is exact in the element type. Sums have small integers times a power of two. Products
// have powers of two, and one factor with a full mantissa. So the result is known bit for bit, and an element in the
// wrong place most likely shows. A rank needs its own column and the results only: 512 elements. Data that is merely
// copied has random bits instead, NaN and all.
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

/// Bits of 256 elements, one a row.
using Column = std::array<uint64_t, row_count>;

/// Returns the inputs of all ranks, then the result, of one row, as the bits of elements.
[[nodiscard]] std::vector<uint64_t> make_row(rondo_type_t type, rondo_op_t op, int ranks, uint64_t seed);

/// Returns the bits of a rank's factor in mulsum.
[[nodiscard]] uint64_t make_factor(rondo_type_t type, int rank);

/// An endless sequence of elements, computed from their position.
class Sequence {
 public:
  /// Random bits.
  Sequence(size_t element_bytes, uint64_t seed);
  /// Elements of `column`, drawn at random.
  Sequence(size_t element_bytes, uint64_t seed, const Column &column);

  void write(std::byte *to, Part part) const;
  /// Counts the elements of `part` at `at` that are not as write() makes them.
  [[nodiscard]] uint64_t count_wrong(const std::byte *at, Part part) const;

  /// Returns the sequence with every bit inverted, which differs from this one in each element.
  [[nodiscard]] Sequence inverted() const;
  /// Returns the same for another run.
  [[nodiscard]] Sequence with_seed(uint64_t seed) const;

 private:
  using Pattern = std::vector<std::byte>;

  /// Calls visit(bytes, count of bytes) for the pieces of the pattern that make up `part`, in order.
  template <class Visit>
  void each_piece(Part part, const Visit &visit) const;

  size_t element_bytes_;
  uint64_t seed_;
  std::shared_ptr<const Pattern> pattern_;  ///< pattern_elements packed elements
};

/// A rank's input and its expected output, for a run of a given seed.
struct Data {
  Sequence input;   ///< of this rank, over the logical vector
  Sequence output;  ///< of every rank; of sendrecv, the input of the previous rank
};

/// Makes the data. `seed` is the table's; Sequence::with_seed() then distinguishes runs.
[[nodiscard]] Data make_data(const Case &what, int rank, uint64_t seed);

}  // namespace rondo::perf
