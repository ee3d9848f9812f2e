// SPDX-License-Identifier: Apache-2.0
// This file reduces pieces of one operand of every rank, in rank order. A piece is 16 bytes, 8 bytes, or one element.
// Between operands small floats are kept in float32, and they are rounded once, at the end. A mean of floats scales its
// operands (src/proto/mean.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "src/base/host_device.h"
#include "src/proto/reducer.h"

namespace rondo::device {

/// Defines what reductions of operands of one type have in common. ElementType says how the type is stored, and in
/// which type it is computed (src/proto/reducer.h). A kernel with the operation as a parameter is made of this class.
template <class ElementType>
struct RankReducer {
  using Element = ElementType;
  using Storage = typename Element::Storage;
  using Accumulator = typename Element::Accumulator;
  /// False for integers. Their division is a long subroutine. So a loop over the elements of a piece contains it
  /// once.
  static constexpr bool divides_pieces = !std::is_integral_v<Accumulator>;
  /// The number of operands of one piece that are in flight at once. Small elements need much code each.
  static constexpr uint32_t at_once = sizeof(Storage) == 1 ? 2 : 4;
  static constexpr uint32_t looks_at_once = sizeof(Storage) == 1 ? 2 : 7;  ///< in one_shot; with the last rank, 8 ranks
  static constexpr bool is_narrow = sizeof(Storage) <= 2;
  static constexpr bool is_wide = sizeof(Accumulator) > sizeof(Storage);  ///< partial results take more registers

  template <class Piece>
  struct alignas(Piece) Elements {
    Storage values[sizeof(Piece) / sizeof(Storage)];
  };
  template <class Piece>
  struct WideElements {
    Accumulator values[sizeof(Piece) / sizeof(Storage)];
  };
  /// The partial result between operands. If the accumulator has the type of the element, a partial result takes no
  /// more registers than an operand.
  template <class Piece>
  using Partial = std::conditional_t<is_wide, WideElements<Piece>, Piece>;
};

/// Reduces operands of one type by one operation.
template <class ElementType, class Op>
struct RankReduction : RankReducer<ElementType> {
  using Reducer = RankReducer<ElementType>;
  using Reducer::divides_pieces, Reducer::is_wide;
  using typename Reducer::Accumulator, typename Reducer::Element, typename Reducer::Storage;
  template <class Piece>
  using Elements = typename Reducer::template Elements<Piece>;
  template <class Piece>
  using WideElements = typename Reducer::template WideElements<Piece>;
  template <class Piece>
  using Partial = typename Reducer::template Partial<Piece>;

  /// True if a mean scales its operands, because their sum might be too large for the accumulator.
  static constexpr bool scales = scales_mean<Op, Accumulator> &&
                                 (sizeof(Storage) == sizeof(Accumulator) || std::is_same_v<Element, Bfloat16Element>);

  /// Returns the partial result after the first rank's operand. For a mean `divisor` is the number of ranks, otherwise
  /// 0.
  template <class Piece>
  [[nodiscard]] RONDO_HD static Partial<Piece> begin(const Piece &first, [[maybe_unused]] uint32_t divisor) {
    if constexpr (!is_wide && !scales) return first;
    const auto stored = __builtin_bit_cast(Elements<Piece>, first);
    Partial<Piece> partial;
    const auto values = [&](uint32_t index) { return load(stored.values[index], divisor); };
    if constexpr (is_wide) {
      RONDO_UNROLL
      for (uint32_t index = 0; index < element_count<Piece>; ++index) partial.values[index] = values(index);
    } else {
      Elements<Piece> scaled;
      RONDO_UNROLL
      for (uint32_t index = 0; index < element_count<Piece>; ++index) scaled.values[index] = values(index);
      partial = __builtin_bit_cast(Piece, scaled);
    }
    return partial;
  }

  /// Returns the partial result after the operand of the next rank.
  template <class Piece>
  [[nodiscard]] RONDO_HD static Partial<Piece> add(const Partial<Piece> &partial, const Piece &next,
                                                   uint32_t divisor) {
    const auto operand = __builtin_bit_cast(Elements<Piece>, next);
    if constexpr (is_wide) {
      WideElements<Piece> result;
      RONDO_UNROLL
      for (uint32_t index = 0; index < element_count<Piece>; ++index)
        result.values[index] = Op::apply(partial.values[index], load(operand.values[index], divisor));
      return result;
    } else {
      return reduce_native<false>(partial, next, divisor);
    }
  }

  /// Returns the result after the operand of the last rank. If `divisor` is not 0, divides by it.
  template <class Piece>
  [[nodiscard]] RONDO_HD static Piece finish(const Partial<Piece> &partial, const Piece &last, uint32_t divisor) {
    if constexpr (is_wide) {
      const WideElements<Piece> sum = add<Piece>(partial, last, divisor);
      Elements<Piece> result;
      RONDO_UNROLL
      for (uint32_t index = 0; index < element_count<Piece>; ++index)
        result.values[index] = Element::store(divisor != 0 ? quotient(sum.values[index], divisor) : sum.values[index]);
      return __builtin_bit_cast(Piece, result);
    } else {
      return reduce_native<true>(partial, last, divisor);
    }
  }

 private:
  template <class Piece>
  static constexpr uint32_t element_count = static_cast<uint32_t>(sizeof(Piece) / sizeof(Storage));

  /// Returns an operand in the accumulator's type. A mean scales the operands of all ranks in the same way, because no
  /// partial result is stored. It does not scale float16 and float8, whose sums always fit in float32.
  [[nodiscard]] RONDO_HD static Accumulator load(Storage stored, uint32_t divisor) {
    const Accumulator value = Element::load(stored);
    if constexpr (scales) return value * mean_scale_of<Accumulator>(divisor);
    else return value;
  }
  [[nodiscard]] RONDO_HD static Accumulator quotient(Accumulator sum, uint32_t divisor) {
    if constexpr (scales) return sum / mean_divisor<Accumulator>(divisor);
    else return divide(sum, divisor);
  }

  /// Reduces two operands whose accumulator has the same type. If `last`, divides by `divisor` unless that is 0.
  template <bool last, class Piece>
  [[nodiscard]] RONDO_HD static Piece reduce_native(const Piece &partial, const Piece &next, uint32_t divisor) {
    const auto first = __builtin_bit_cast(Elements<Piece>, partial);
    const auto second = __builtin_bit_cast(Elements<Piece>, next);
    Elements<Piece> result;
    RONDO_UNROLL
    for (uint32_t index = 0; index < element_count<Piece>; ++index) {
      Accumulator reduced = Op::apply(first.values[index], load(second.values[index], divisor));
      if constexpr (last && divides_pieces)
        if (divisor != 0) reduced = quotient(reduced, divisor);
      result.values[index] = reduced;
    }
    const auto piece = __builtin_bit_cast(Piece, result);
    if constexpr (last && !divides_pieces)
      if (divisor != 0) return divide_elements(piece, divisor);
    return piece;
  }

  /// Divides integers: one element, or a word of elements. Vectors of integers are never divided.
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

/// Says whether the operations are equal. The compiler cannot see that several such comparisons are of one value. It
/// would make a branch through a table in memory of them.
[[nodiscard]] RONDO_HD inline bool is_op(ReduceOp op, ReduceOp wanted) {
  auto value = static_cast<uint32_t>(op);
#if defined(__CUDA_ARCH__)
  asm volatile("" : "+r"(value));
#endif
  return value == static_cast<uint32_t>(wanted);
}

/// Calls use() with the RankReduction for `op`, and returns its result.
template <class Reducer, class Use>
RONDO_HD auto with_reduction(ReduceOp op, const Use &use) {
  using Element = typename Reducer::Element;
  if (is_op(op, ReduceOp::sum)) return use(RankReduction<Element, SumOp>{});
  if (is_op(op, ReduceOp::prod)) return use(RankReduction<Element, ProdOp>{});
  if (is_op(op, ReduceOp::min)) return use(RankReduction<Element, MinOp>{});
  return use(RankReduction<Element, MaxOp>{});
}

}  // namespace rondo::device
