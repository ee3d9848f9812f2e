// SPDX-License-Identifier: Apache-2.0
// This file loads, computes and stores each element type for the vectorised reduction. avx2.cpp and avx512.cpp include
// it, each after setting HWY_TARGET. Everything here is in that target's namespace.
//
// A codec loads a block of `step_bytes` into an accumulator (one or two vectors), and packs the accumulator into one
// vector as long as the block. Except for NaN payloads, it gives the same bits as Element in src/proto/reducer.h. A
// demotion of Highway is used only if, in every version of Highway, it rounds to nearest even and flushes no number to
// zero. Only the demotion to float16 (F16C) is like that.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>
#include "src/proto/convert.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
using FloatVector = hn::Vec<Tag<float>>;
using WordVector = hn::Vec<Tag<uint32_t>>;
using HalfVector = hn::Vec<Tag<uint16_t>>;
using ByteTag = Tag<uint8_t>;

/// Loads a vector as bytes, so that no misaligned pointer to a wider type exists.
template <class D>
HWY_INLINE hn::Vec<D> load_vector(D d, const std::byte *from) {
  const hn::Repartition<uint8_t, D> bytes;
  return hn::BitCast(d, hn::LoadU(bytes, reinterpret_cast<const uint8_t *>(from)));
}

template <class D>
HWY_INLINE void store_vector(D, hn::Vec<D> value, std::byte *to) {
  const hn::Repartition<uint8_t, D> bytes;
  hn::StoreU(hn::BitCast(bytes, value), bytes, reinterpret_cast<uint8_t *>(to));
}

/// Stores a vector past the caches. `to` is aligned to the vector.
template <class D>
HWY_INLINE void stream_vector(D, hn::Vec<D> value, std::byte *to) {
  const hn::Repartition<uint8_t, D> bytes;
  hn::Stream(hn::BitCast(bytes, value), bytes, reinterpret_cast<uint8_t *>(to));
}

/// A type that the processor computes with: integers, float32, float64.
template <class T>
struct NativeCodec {
  using Scalar = T;
  using Accumulator = hn::Vec<Tag<T>>;
  static constexpr size_t step_bytes = HWY_MAX_BYTES;

  static HWY_INLINE Accumulator load(const std::byte *from) { return load_vector(Tag<T>(), from); }
  static HWY_INLINE Accumulator pack(Accumulator value) { return value; }
  static HWY_INLINE Accumulator scale(Accumulator value, T by) { return hn::Mul(value, hn::Set(Tag<T>(), by)); }
  static HWY_INLINE Accumulator divide(Accumulator value, T by) { return hn::Div(value, hn::Set(Tag<T>(), by)); }
  static HWY_INLINE Accumulator saturate(Accumulator value) { return value; }
};

/// A float32 vector holds two bfloat16 in each 32-bit word. The upper one is a float32 once the word's lower half is
/// cleared, and the lower one once the word is shifted. So packing and unpacking move no element to another word.
struct Bfloat16Codec {
  using Scalar = float;
  struct Accumulator {
    FloatVector upper, lower;
  };
  static constexpr size_t step_bytes = HWY_MAX_BYTES;

  static HWY_INLINE Accumulator load(const std::byte *from) {
    const Tag<uint32_t> words;
    WordVector pairs = load_vector(words, from);
    asm("" : "+v"(pairs.raw));  // keeps the compiler from loading twice, which takes up to 1.7 times as long
    return {hn::BitCast(Tag<float>(), hn::And(pairs, hn::Set(words, 0xFFFF0000u))),
            hn::BitCast(Tag<float>(), hn::ShiftLeft<16>(pairs))};
  }
  /// Rounds all elements at once, in lanes of 16 bits: the kept halves in one vector, the lost halves in another.
  static HWY_INLINE HalfVector pack(const Accumulator &value) {
    const Tag<uint32_t> words;
    const Tag<uint16_t> halves;
    const WordVector upper = hn::BitCast(words, value.upper);
    const WordVector lower = hn::BitCast(words, value.lower);
    const HalfVector kept = hn::OddEven(hn::BitCast(halves, upper), hn::BitCast(halves, hn::ShiftRight<16>(lower)));
    const HalfVector lost = hn::OddEven(hn::BitCast(halves, hn::ShiftLeft<16>(upper)), hn::BitCast(halves, lower));
    // Round up if more than half of a unit is lost, or if exactly half is lost and the kept part is odd.
    const HalfVector odd = hn::And(kept, hn::Set(halves, uint16_t{1}));
    const auto up = hn::Gt(lost, hn::Sub(hn::Set(halves, uint16_t{0x8000}), odd));
    HalfVector rounded = hn::Sub(kept, hn::VecFromMask(halves, up));  // a mask's lanes are -1
    const HalfVector magnitude = hn::And(kept, hn::Set(halves, uint16_t{0x7FFF}));
    const HalfVector infinity = hn::Set(halves, uint16_t{0x7F80});
    if (!hn::AllFalse(halves, hn::Gt(magnitude, hn::Set(halves, uint16_t{0x7F7F})))) {
      const auto nan = hn::Or(hn::Gt(magnitude, infinity),
                              hn::AndNot(hn::Eq(lost, hn::Zero(halves)), hn::Eq(magnitude, infinity)));
      rounded = hn::IfThenElse(nan, hn::Set(halves, uint16_t{0x7FC0}), rounded);
    }
    return rounded;
  }
  static HWY_INLINE Accumulator scale(const Accumulator &value, float by) {
    return {NativeCodec<float>::scale(value.upper, by), NativeCodec<float>::scale(value.lower, by)};
  }
  static HWY_INLINE Accumulator divide(const Accumulator &value, float by) {
    return {NativeCodec<float>::divide(value.upper, by), NativeCodec<float>::divide(value.lower, by)};
  }
  static HWY_INLINE Accumulator saturate(const Accumulator &value) { return value; }
};

#if HWY_TARGET == HWY_AVX3
/// Rounds with the processor's own conversion (AVX512_BF16), in assembler, because Highway's target lacks it. It
/// flushes subnormals and keeps NaN payloads, so vectors with subnormals or NaNs, which are rare, use the integer code.
struct Bfloat16ConvertingCodec : Bfloat16Codec {
  static HWY_INLINE HalfVector pack(const Accumulator &value) {
    constexpr int subnormal_or_nan = 0x20 | 0x80 | 0x01;
    const __mmask16 upper_special = _mm512_fpclass_ps_mask(value.upper.raw, subnormal_or_nan);
    const __mmask16 lower_special = _mm512_fpclass_ps_mask(value.lower.raw, subnormal_or_nan);
    if (HWY_UNLIKELY(_kortestz_mask16_u8(upper_special, lower_special) == 0)) return Bfloat16Codec::pack(value);
    __m512i packed;  // the lower elements, then the upper ones
    asm("vcvtne2ps2bf16 %2, %1, %0" : "=v"(packed) : "v"(value.upper.raw), "v"(value.lower.raw));
    alignas(64) static constexpr uint16_t in_turns[] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const Tag<uint16_t> halves;
    return HalfVector{_mm512_permutexvar_epi16(hn::Load(halves, in_turns).raw, packed)};
  }
};
#endif

/// Half a vector of float16, computed as a vector of float32. F16C converts in either direction by one instruction.
struct Float16Codec {
  using Scalar = float;
  using Accumulator = FloatVector;
  static constexpr size_t step_bytes = HWY_MAX_BYTES / 2;

  static HWY_INLINE Accumulator load(const std::byte *from) {
    const hn::Rebind<uint16_t, Tag<float>> codes;
    const hn::Rebind<hwy::float16_t, Tag<float>> halves;
    return hn::PromoteTo(Tag<float>(), hn::BitCast(halves, load_vector(codes, from)));
  }
  static HWY_INLINE auto pack(Accumulator value) {
    const hn::Rebind<uint16_t, Tag<float>> codes;
    const hn::Rebind<hwy::float16_t, Tag<float>> halves;
    return hn::BitCast(codes, hn::DemoteTo(halves, value));
  }
  static HWY_INLINE Accumulator scale(Accumulator value, float by) { return NativeCodec<float>::scale(value, by); }
  static HWY_INLINE Accumulator divide(Accumulator value, float by) { return NativeCodec<float>::divide(value, by); }
  static HWY_INLINE Accumulator saturate(Accumulator value) { return value; }
};

/// The common code of both float8 formats. It converts to float32 through float16, whose bits differ from float8 by a
/// cut or a shift. From float32, it rounds by integer code.
template <class Format>
struct Float8Codec {
  using Scalar = float;
  using Accumulator = FloatVector;
  static constexpr size_t step_bytes = HWY_MAX_BYTES / 4;

  static HWY_INLINE Accumulator load(const std::byte *from) {
    const hn::Rebind<uint8_t, Tag<float>> bytes;
    const hn::Rebind<uint16_t, Tag<float>> codes;
    const hn::Rebind<hwy::float16_t, Tag<float>> halves;
    const auto wide = hn::PromoteTo(codes, hn::LoadU(bytes, reinterpret_cast<const uint8_t *>(from)));
    if constexpr (Format::has_infinity) {  // e5m2 is the upper half of a float16
      return hn::PromoteTo(Tag<float>(), hn::BitCast(halves, hn::ShiftLeft<8>(wide)));
    } else {  // read as a float16, e4m3's bits are its value times 2^-8, except for its NaN
      const auto sign = hn::And(hn::ShiftLeft<8>(wide), hn::Set(codes, uint16_t{0x8000}));
      const auto magnitude = hn::And(hn::ShiftLeft<7>(wide), hn::Set(codes, uint16_t{0x3F80}));
      const auto nan = hn::VecFromMask(codes, hn::Eq(magnitude, hn::Set(codes, uint16_t{0x3F80})));
      const auto bits = hn::Or(hn::Or(sign, magnitude), hn::And(nan, hn::Set(codes, uint16_t{0x7C00})));
      return hn::Mul(hn::PromoteTo(Tag<float>(), hn::BitCast(halves, bits)), hn::Set(Tag<float>(), 256.0F));
    }
  }

  static HWY_INLINE auto pack(Accumulator value) {
    const Tag<uint32_t> words;
    const WordVector bits = hn::BitCast(words, value);
    const WordVector sign = hn::And(hn::ShiftRight<24>(bits), hn::Set(words, 0x80u));
    const WordVector code = hn::Or(sign, rounded(hn::And(bits, hn::Set(words, 0x7FFFFFFFu))));
    return hn::U8FromU32(code);
  }
  static HWY_INLINE Accumulator scale(Accumulator value, float by) { return NativeCodec<float>::scale(value, by); }
  static HWY_INLINE Accumulator divide(Accumulator value, float by) { return NativeCodec<float>::divide(value, by); }
  /// Computes saturated_mean() of each element of the vectors.
  static HWY_INLINE Accumulator saturate(Accumulator value) {
    const Tag<float> floats;
    const auto largest = hn::Set(floats, Format::to_float(Format::overflow_bits - 1));
    const auto finite = hn::Set(floats, hwy::HighestValue<float>());
    const auto magnitude = hn::Abs(value);
    const auto too_large = hn::And(hn::Gt(magnitude, largest), hn::Le(magnitude, finite));
    return hn::IfThenElse(too_large, hn::CopySign(largest, value), value);
  }

 private:
  /// Rounds magnitudes as Format::from_float does. Below the smallest normal number, it adds a power of two. In that
  /// sum, the unit in the last place is the format's smallest number, so the processor's own rounding is right.
  static HWY_INLINE WordVector rounded(WordVector magnitude) {
    const Tag<uint32_t> words;
    const Tag<int32_t> ints;  // for comparisons: magnitudes are positive
    constexpr int drop_bits = Format::drop_bits;
    constexpr uint32_t rebias = static_cast<uint32_t>(127 - Format::bias) << (23 - drop_bits);
    constexpr uint32_t shifter_bits = Format::unit_float_bits + (23u << 23);
    const WordVector odd = hn::And(hn::ShiftRight<drop_bits>(magnitude), hn::Set(words, 1u));
    const WordVector biased = hn::Add(hn::Add(magnitude, hn::Set(words, (1u << (drop_bits - 1)) - 1)), odd);
    const WordVector normal = hn::Sub(hn::ShiftRight<drop_bits>(biased), hn::Set(words, rebias));
    const WordVector shifter = hn::Set(words, shifter_bits);
    const FloatVector shifted =
        hn::Add(hn::BitCast(Tag<float>(), magnitude), hn::BitCast(Tag<float>(), shifter));
    const WordVector subnormal = hn::Sub(hn::BitCast(words, shifted), shifter);
    const auto is_subnormal = hn::Lt(hn::BitCast(ints, magnitude),
                                     hn::Set(ints, static_cast<int32_t>(Format::normal_min_float_bits)));
    const WordVector code = hn::Min(hn::IfThenElse(hn::RebindMask(words, is_subnormal), subnormal, normal),
                                    hn::Set(words, Format::overflow_bits));
    if constexpr (!Format::has_infinity) return code;  // NaN and too large values have both become the NaN
    const auto is_nan = hn::Gt(hn::BitCast(ints, magnitude), hn::Set(ints, static_cast<int32_t>(float_infinity_bits)));
    return hn::IfThenElse(hn::RebindMask(words, is_nan), hn::Set(words, Format::magnitude_mask), code);
  }
};

// Operations on vectors. apply() takes accumulators, which may be two vectors.

struct VectorSum {
  template <class V>
  static HWY_INLINE V of(V a, V b) { return hn::Add(a, b); }
};

/// The sum of scaled operands, for a mean.
struct VectorMean : VectorSum {};

struct VectorProd {
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    if constexpr (sizeof(hn::TFromV<V>) > 1) {
      return hn::Mul(a, b);
    } else {  // no multiplication of bytes exists, so the even and the odd bytes are multiplied as 16-bit words
      const hn::DFromV<V> bytes;
      const hn::Repartition<uint16_t, hn::DFromV<V>> words;
      const auto even = hn::Mul(hn::BitCast(words, a), hn::BitCast(words, b));
      const auto odd = hn::Mul(hn::ShiftRight<8>(hn::BitCast(words, a)), hn::ShiftRight<8>(hn::BitCast(words, b)));
      const auto low = hn::And(even, hn::Set(words, uint16_t{0x00FF}));
      return hn::BitCast(bytes, hn::Or(low, hn::ShiftLeft<8>(odd)));
    }
  }
};

/// The minimum of floats. If one operand is NaN or both are zero, the processor's instruction returns its second
/// operand. So the instruction is run with both orders of the operands: the two results contain every NaN and both
/// zeros. Their bitwise or is then a NaN, or -0 if one operand is -0.
struct VectorMin {
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) return hn::Or(hn::Min(a, b), hn::Min(b, a));
    else return hn::Min(a, b);
  }
};

struct VectorMax {
  template <class V>
  static HWY_INLINE V of(V a, V b) {
    if constexpr (hwy::IsFloat<hn::TFromV<V>>()) return hn::Neg(VectorMin::of(hn::Neg(a), hn::Neg(b)));
    else return hn::Max(a, b);
  }
};

template <class Op, class V>
HWY_INLINE V apply(V a, V b) {
  return Op::of(a, b);
}

template <class Op>
HWY_INLINE Bfloat16Codec::Accumulator apply(const Bfloat16Codec::Accumulator &a, const Bfloat16Codec::Accumulator &b) {
  return {Op::of(a.upper, b.upper), Op::of(a.lower, b.lower)};
}

}  // namespace rondo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
