// SPDX-License-Identifier: Apache-2.0
// Reduces one operand of every rank, in rank order and with one rounding a step, as the schedules of one_shot and
// two_shot do: ((x0 x1) x2) ... Operands come as pieces of several elements: 16 bytes, 8 bytes, or one element.
//
// Between two steps the partial result is what a step stores, so it takes no more registers than an operand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/reduce.h"
#include "src/base/host_device.h"
#include "src/proto/reducer.h"

namespace rondo::device {

/// ElementType: how a type lies in memory and what it is computed in (src/proto/reducer.h).
template <class ElementType, class Op>
struct RankReduction {
  using Element = ElementType;
  using Storage = typename Element::Storage;
  using Accumulator = typename Element::Accumulator;
  /// Divisions of integers are long subroutines: one a loop, not one for each element of a piece.
  static constexpr bool divides_pieces = !std::is_integral_v<Accumulator>;
  /// Operands that are under way at once. Small elements take a lot of code each.
  static constexpr uint32_t at_once = sizeof(Storage) == 1 ? 2 : 4;

  /// The partial result and the operand of the next rank. `last`: divides by `divisor`, unless that is 0.
  template <bool last, class Piece>
  [[nodiscard]] RONDO_HD static Piece step(const Piece &partial, const Piece &next, uint32_t divisor) {
    const auto first = __builtin_bit_cast(Elements<Piece>, partial);
    const auto second = __builtin_bit_cast(Elements<Piece>, next);
    Elements<Piece> result;
    RONDO_UNROLL
    for (uint32_t index = 0; index < sizeof(Piece) / sizeof(Storage); ++index) {
      Accumulator reduced = Op::apply(Element::load(first.values[index]), Element::load(second.values[index]));
      if constexpr (last && divides_pieces)
        if (divisor != 0) reduced = divide(reduced, divisor);
      result.values[index] = Element::store(reduced);
    }
    const auto piece = __builtin_bit_cast(Piece, result);
    if constexpr (last && !divides_pieces)
      if (divisor != 0) return divide_elements(piece, divisor);
    return piece;
  }

 private:
  template <class Piece>
  struct alignas(Piece) Elements {
    Storage values[sizeof(Piece) / sizeof(Storage)];
  };

  /// Of integers: one element, or a word of them. (Nobody divides vectors of them.)
  template <class Piece>
  [[nodiscard]] RONDO_HD static Piece divide_elements(const Piece &piece, uint32_t divisor) {
    if constexpr (sizeof(Piece) == sizeof(Storage)) {
      return __builtin_bit_cast(Piece, divide(__builtin_bit_cast(Storage, piece), divisor));
    } else if constexpr (sizeof(Piece) == sizeof(uint64_t)) {
      const auto word = __builtin_bit_cast(uint64_t, piece);
      uint64_t divided = 0;
      RONDO_KEEP_LOOP
      for (uint32_t shift = 0; shift < 64; shift += 8 * sizeof(Storage)) {
        const auto quotient = divide(static_cast<Storage>(word >> shift), divisor);
        divided |= uint64_t{static_cast<std::make_unsigned_t<Storage>>(quotient)} << shift;
      }
      return __builtin_bit_cast(Piece, divided);
    } else {
      return piece;
    }
  }
};

/// Pieces of a part as they lie in memory.
struct VectorPiece {
  using Piece = Vector;
  [[nodiscard]] RONDO_HD static Piece load(const std::byte *at) { return memory::load_vector(at); }
  RONDO_HD static void store(std::byte *at, const Piece &piece) { memory::store_vector(at, piece); }
};
template <class Storage, size_t alignment>
struct ElementPiece {
  using Piece = Storage;
  [[nodiscard]] RONDO_HD static Piece load(const std::byte *at) { return load_aligned<Storage, alignment>(at); }
  RONDO_HD static void store(std::byte *at, const Piece &piece) { store_aligned<alignment>(at, piece); }
};

/// A part of the vector of all ranks, and where the result goes. operand(rank): where that rank's part begins.
template <class Operand>
struct RankOperands {
  const Operand &operand;
  uint32_t rank_count;  ///< at least 2
  std::byte *outputs[2];
  uint32_t divisor;
};

/// Pieces [begin, end) of the part, by a group. An output may be an operand: a thread reads all operands of a piece
/// before it writes it, and no other touches it.
template <class Reduction, class Access, Group G, class Operand>
RONDO_HD void reduce_pieces(G group, const RankOperands<Operand> &of, uint32_t begin, uint32_t end) {
  using Piece = typename Access::Piece;
  const uint32_t last = of.rank_count - 1;
  RONDO_KEEP_LOOP
  for (uint32_t index = begin + group.rank(); index < end; index += group.size()) {
    const size_t at = index * sizeof(Piece);
    const Piece last_operand = Access::load(of.operand(last) + at);
    Piece partial{};
    RONDO_KEEP_LOOP
    for (uint32_t first = 0; first < last; first += Reduction::at_once) {
      Piece next[Reduction::at_once]{};
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < Reduction::at_once; ++turn)
        if (first + turn < last) next[turn] = Access::load(of.operand(first + turn) + at);
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < Reduction::at_once; ++turn)
        if (first + turn < last)
          partial = first + turn == 0 ? next[turn] : Reduction::template step<false>(partial, next[turn], 0);
    }
    const Piece result = Reduction::template step<true>(partial, last_operand, of.divisor);
    Access::store(of.outputs[0] + at, result);
    Access::store(of.outputs[1] + at, result);
  }
}

/// `count` elements of a part. `own`: this rank's operand, wherever the caller has it; outputs[1] likewise. Everything
/// else is at multiples of 16.
template <class Reduction, Group G, class Operand>
RONDO_HD void reduce_part(G group, const RankOperands<Operand> &of, const std::byte *own, uint32_t count) {
  using Storage = typename Reduction::Storage;
  const uint64_t past = GroupArgs::address(own) | GroupArgs::address(of.outputs[1]);
  if (past % sizeof(Storage) != 0) return reduce_pieces<Reduction, ElementPiece<Storage, 1>>(group, of, 0, count);
  uint32_t in_vectors = 0;
  if (past % vector_bytes == 0 && (Reduction::divides_pieces || of.divisor == 0)) {
    const uint32_t vectors = count * static_cast<uint32_t>(sizeof(Storage)) / vector_bytes;
    in_vectors = vectors * (vector_bytes / static_cast<uint32_t>(sizeof(Storage)));
    reduce_pieces<Reduction, VectorPiece>(group, of, 0, vectors);
  }
  reduce_pieces<Reduction, ElementPiece<Storage, sizeof(Storage)>>(group, of, in_vectors, count);
}

}  // namespace rondo::device
