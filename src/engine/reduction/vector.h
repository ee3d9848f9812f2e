// SPDX-License-Identifier: Apache-2.0
// This file is the vectorised reduction: loops over blocks, tails, integer division, and the table by type and
// operation. The files avx2.cpp and avx512.cpp include it, each after setting HWY_TARGET.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include <hwy/cache_control.h>
#include "src/engine/reduction/reduction.h"
#include "src/engine/reduction/vector_types.h"
#include "src/proto/reducer.h"

HWY_BEFORE_NAMESPACE();
namespace rondo::HWY_NAMESPACE {

/// Stores the result of a step. With past_caches, `to` is aligned to a step.
template <class Codec, bool past_caches = false>
HWY_INLINE void store(const typename Codec::Accumulator &reduced, std::byte *to) {
  const auto packed = Codec::pack(reduced);
  const hn::DFromV<decltype(packed)> tag;
  if constexpr (past_caches) stream_vector(tag, packed, to);
  else store_vector(tag, packed, to);
}

template <class Codec, class Op>
inline constexpr bool is_mean = std::is_same_v<Op, VectorMean> && std::is_floating_point_v<typename Codec::Scalar>;

/// Returns the factor of an operand. Only a mean has factors.
template <class Codec, class Op>
HWY_INLINE typename Codec::Scalar factor_of([[maybe_unused]] const ReductionArgs &args,
                                            [[maybe_unused]] uint32_t input) {
  if constexpr (is_mean<Codec, Op>) return mean_scale<typename Codec::Scalar>(args.mean_shifts, input);
  else return 1;
}

template <class Codec, class Op>
HWY_INLINE typename Codec::Accumulator load_scaled(const std::byte *from,
                                                   [[maybe_unused]] typename Codec::Scalar factor) {
  if constexpr (is_mean<Codec, Op>) return Codec::scale(Codec::load(from), factor);
  else return Codec::load(from);
}

/// Completes a step of a mean. For other operations it does nothing.
template <class Codec, class Op>
HWY_INLINE typename Codec::Accumulator finish(const typename Codec::Accumulator &sum,
                                              [[maybe_unused]] const ReductionArgs &args) {
  if constexpr (is_mean<Codec, Op>) {
    if (args.divisor == 0) return Codec::saturate(sum);
    return Codec::saturate(Codec::divide(sum, mean_divisor<typename Codec::Scalar>(args.divisor)));
  } else {
    return sum;
  }
}

/// Reduces a common case. The loop contains only the operation. `bytes` is a multiple of the step.
template <class Codec, class Op, uint32_t input_count, uint32_t output_count>
void reduce_fixed(const ReductionArgs &args, size_t bytes) {
  const std::byte *inputs[input_count];
  std::byte *outputs[output_count];
  typename Codec::Scalar factors[input_count];
  for (uint32_t input = 0; input < input_count; ++input) {
    inputs[input] = args.inputs[input];
    factors[input] = factor_of<Codec, Op>(args, input);
  }
  for (uint32_t output = 0; output < output_count; ++output) outputs[output] = args.outputs[output];
  for (size_t at = 0; at < bytes; at += Codec::step_bytes) {
    auto reduced = load_scaled<Codec, Op>(inputs[0] + at, factors[0]);
    for (uint32_t input = 1; input < input_count; ++input)
      reduced = apply<Op>(reduced, load_scaled<Codec, Op>(inputs[input] + at, factors[input]));
    if constexpr (is_mean<Codec, Op>) reduced = Codec::saturate(reduced);
    for (uint32_t output = 0; output < output_count; ++output) store<Codec>(reduced, outputs[output] + at);
  }
}

/// Reduces if the arguments are a common case, and returns whether they are.
template <class Codec, class Op>
bool reduce_common(const ReductionArgs &args, size_t bytes) {
  if (args.divisor != 0 || args.output_count > 2 || !args.more.empty()) return false;
  const bool one = args.output_count == 1;
  switch (args.input_count) {
    case 2: (one ? reduce_fixed<Codec, Op, 2, 1> : reduce_fixed<Codec, Op, 2, 2>)(args, bytes); return true;
    case 3: (one ? reduce_fixed<Codec, Op, 3, 1> : reduce_fixed<Codec, Op, 3, 2>)(args, bytes); return true;
    case 4: (one ? reduce_fixed<Codec, Op, 4, 1> : reduce_fixed<Codec, Op, 4, 2>)(args, bytes); return true;
    default: return false;
  }
}

/// Reduces with any arguments. It reads all operands of a step before it writes a result, because an output may be an
/// input.
template <class Codec, class Op, bool past_caches = false>
void reduce_steps(const ReductionArgs &shared_args, size_t bytes) {
  const ReductionArgs args = shared_args;  // a copy, which no store can alias, so that its fields stay in registers
  if constexpr (!past_caches)  // streaming stores wait for memory, so a tight loop gains nothing
    if (reduce_common<Codec, Op>(args, bytes)) return;
  typename Codec::Scalar factors[reduce_inputs_max];
  for (uint32_t input = 0; input < reduce_inputs_max; ++input) factors[input] = factor_of<Codec, Op>(args, input);
  for (size_t at = 0; at < bytes; at += Codec::step_bytes) {
    auto reduced = load_scaled<Codec, Op>(args.inputs[0] + at, factors[0]);
    for (uint32_t input = 1; input < args.input_count; ++input)
      reduced = apply<Op>(reduced, load_scaled<Codec, Op>(args.inputs[input] + at, factors[input]));
    for (const std::byte *const operand : args.more)
      reduced = apply<Op>(reduced, load_scaled<Codec, Op>(operand + args.more_at + at, factors[reduce_inputs_max - 1]));
    reduced = finish<Codec, Op>(reduced, args);
    for (uint32_t output = 0; output < args.output_count; ++output)
      store<Codec, past_caches>(reduced, args.outputs[output] + at);
  }
}

/// Reduces the last elements, fewer than a step, in padded copies. So no byte outside of the buffers is accessed.
template <class Codec, class Op>
void reduce_few(const ReductionArgs &args, size_t begin, size_t bytes) {
  alignas(64) std::byte padded[Codec::step_bytes] = {};
  const auto load = [&](const std::byte *operand, uint32_t input) {
    std::memcpy(padded, operand + begin, bytes);
    return load_scaled<Codec, Op>(padded, factor_of<Codec, Op>(args, input));
  };
  auto reduced = load(args.inputs[0], 0);
  for (uint32_t input = 1; input < args.input_count; ++input)
    reduced = apply<Op>(reduced, load(args.inputs[input], input));
  for (const std::byte *const operand : args.more)
    reduced = apply<Op>(reduced, load(operand + args.more_at, reduce_inputs_max - 1));
  reduced = finish<Codec, Op>(reduced, args);
  alignas(64) std::byte result[Codec::step_bytes];
  store<Codec>(reduced, result);
  for (uint32_t output = 0; output < args.output_count; ++output)
    std::memcpy(args.outputs[output] + begin, result, bytes);
}

template <class Codec, class Op>
void reduce_through_caches(const ReductionArgs &args, size_t bytes) {
  const size_t whole_bytes = bytes / Codec::step_bytes * Codec::step_bytes;
  reduce_steps<Codec, Op>(args, whole_bytes);
  if (whole_bytes < bytes) reduce_few<Codec, Op>(args, whole_bytes, bytes - whole_bytes);
}

/// Reduces to one output by streaming stores. The first `head` bytes, up to a cache line, are stored normally.
template <class Codec, class Op>
void reduce_past_caches(ReductionArgs args, size_t head, size_t bytes) {
  reduce_through_caches<Codec, Op>(args, head);
  for (uint32_t input = 0; input < args.input_count; ++input) args.inputs[input] += head;
  args.more_at += head;
  args.outputs[0] += head;
  const size_t whole_bytes = (bytes - head) / Codec::step_bytes * Codec::step_bytes;
  reduce_steps<Codec, Op, true>(args, whole_bytes);
  hwy::FlushStream();  // a release store does not order streaming stores
  if (head + whole_bytes < bytes) reduce_few<Codec, Op>(args, whole_bytes, bytes - head - whole_bytes);
}

template <class Codec, class Op, size_t element_bytes>
void reduce_elements(const ReductionArgs &args) {
  const size_t bytes = args.count * element_bytes;
  if constexpr (Codec::step_bytes >= 16) {  // streaming stores exist for whole vectors only
    const size_t head = bytes_to_line(args.outputs[0]);
    if (args.past_caches && args.output_count == 1 && head % element_bytes == 0 && head <= bytes)
      return reduce_past_caches<Codec, Op>(args, head, bytes);
  }
  reduce_through_caches<Codec, Op>(args, bytes);
}

template <class Codec, class Op, size_t element_bytes>
void reduce_floats(const ReductionArgs &args) {
  if (is_copy(args)) return copy_to_outputs(args, element_bytes);
  reduce_elements<Codec, Op, element_bytes>(args);
}

/// Divides in place. Processors have no vector division of integers. For up to 32 bits, the function truncates a
/// quotient of doubles, which the compiler vectorises. The result is exact: no quotient rounds up to a whole number.
template <class T>
void divide_all(std::byte *values, size_t count, uint32_t divisor) {
  for (size_t index = 0; index < count; ++index) {
    T value;
    std::memcpy(&value, values + index * sizeof(T), sizeof(T));
    if constexpr (sizeof(T) <= 4) value = static_cast<T>(static_cast<double>(value) / static_cast<double>(divisor));
    else value = divide(value, divisor);
    std::memcpy(values + index * sizeof(T), &value, sizeof(T));
  }
}

/// Computes avg of integers: reduces and divides block by block in the first-level cache.
template <class T, class Codec, class Op>
void reduce_and_divide(const ReductionArgs &args) {
  alignas(64) std::byte block[4096];
  const size_t bytes = args.count * sizeof(T);
  for (size_t begin = 0; begin < bytes; begin += sizeof block) {
    const size_t block_bytes = std::min(bytes - begin, sizeof block);
    ReductionArgs part{};
    part.input_count = args.input_count;
    part.output_count = 1;
    part.outputs[0] = block;
    for (uint32_t input = 0; input < args.input_count; ++input) part.inputs[input] = args.inputs[input] + begin;
    part.more = args.more;
    part.more_at = args.more_at + begin;
    reduce_through_caches<Codec, Op>(part, block_bytes);
    divide_all<T>(block, block_bytes / sizeof(T), args.divisor);
    for (uint32_t output = 0; output < args.output_count; ++output)
      std::memcpy(args.outputs[output] + begin, block, block_bytes);
  }
}

/// Sums and products of signed and unsigned integers have the same bits, so both sorts of integers share this code.
template <class T, class Op>
void reduce_integers(const ReductionArgs &args) {
  constexpr bool ordered = std::is_same_v<Op, VectorMin> || std::is_same_v<Op, VectorMax>;
  using Codec = NativeCodec<std::conditional_t<ordered, T, std::make_unsigned_t<T>>>;
  if (is_copy(args)) return copy_to_outputs(args, sizeof(T));
  if (args.divisor != 0) return reduce_and_divide<T, Codec, Op>(args);
  reduce_elements<Codec, Op, sizeof(T)>(args);
}

using VectorRow = std::array<ReductionFunction, 5>;  // indexed by rondo_op_t

template <class T>
constexpr VectorRow integer_row() {
  return {reduce_integers<T, VectorSum>, reduce_integers<T, VectorProd>, reduce_integers<T, VectorMin>,
          reduce_integers<T, VectorMax>, reduce_integers<T, VectorSum>};
}

template <class Codec, size_t element_bytes>
constexpr VectorRow float_row() {
  return {reduce_floats<Codec, VectorSum, element_bytes>, reduce_floats<Codec, VectorProd, element_bytes>,
          reduce_floats<Codec, VectorMin, element_bytes>, reduce_floats<Codec, VectorMax, element_bytes>,
          reduce_floats<Codec, VectorMean, element_bytes>};
}

template <class Bfloat16>
ReductionFunction find_vector_function(rondo_type_t type, rondo_op_t op) {
  static constexpr std::array<VectorRow, 12> table{  // indexed by rondo_type_t
      integer_row<int8_t>(),
      integer_row<uint8_t>(),
      integer_row<int32_t>(),
      integer_row<uint32_t>(),
      integer_row<int64_t>(),
      integer_row<uint64_t>(),
      float_row<Float16Codec, 2>(),
      float_row<Bfloat16, 2>(),
      float_row<NativeCodec<float>, 4>(),
      float_row<NativeCodec<double>, 8>(),
      float_row<Float8Codec<Float8E4m3Format>, 1>(),
      float_row<Float8Codec<Float8E5m2Format>, 1>()};
  const auto type_index = static_cast<size_t>(type);
  const auto op_index = static_cast<size_t>(op);
  if (type_index >= table.size() || op_index >= VectorRow{}.size()) return nullptr;
  return table[type_index][op_index];
}

}  // namespace rondo::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
