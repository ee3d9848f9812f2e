// SPDX-License-Identifier: Apache-2.0
// This file has the reducer of a group of threads. It reduces the operands of a step and writes the result to all
// outputs in one pass. The bits are those that src/engine/reduction/reduction.h promises (docs/numerics.md): from the
// left, small floats in float32, rounded once.
//
// If all pointers of a step are equal modulo 16, the threads divide its vectors of 16 bytes among them, each with
// several loads in flight. They reduce elements before and after the vectors one by one. If pointers differ modulo 16,
// they reduce all elements one by one. An output may be an input: a thread reads all operands of an element before it
// writes the element, and no other thread touches the element.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "src/base/host_device.h"
#include "src/proto/group.h"
#include "src/proto/memory.h"
#include "src/proto/reducer.h"

namespace rondo::device {

inline constexpr uint32_t inputs_max = 4;   // acc, src, recv[0], recv[1]
inline constexpr uint32_t outputs_max = 3;  // dst, send[0], send[1]
inline constexpr uint32_t vector_bytes = 16;

/// The operands and results of a step. All indices are constants, so that the arrays stay in registers.
struct GroupArgs {
  const std::byte *inputs[inputs_max];
  std::byte *outputs[outputs_max];
  uint32_t input_count;
  uint32_t output_count;
  uint64_t count;    ///< elements; their size is less than 4 GiB
  uint32_t divisor;  ///< 0: no division
  MeanShifts mean_shifts;

  RONDO_HD void add_input(const std::byte *input) {
    RONDO_UNROLL
    for (uint32_t index = 0; index < inputs_max; ++index)
      if (index == input_count) inputs[index] = input;
    ++input_count;
  }
  RONDO_HD void add_output(std::byte *output) {
    RONDO_UNROLL
    for (uint32_t index = 0; index < outputs_max; ++index)
      if (index == output_count) outputs[index] = output;
    ++output_count;
  }
  /// Returns the bits in which the pointers' addresses differ.
  [[nodiscard]] RONDO_HD uint64_t difference() const {
    uint64_t bits = 0;
    RONDO_UNROLL
    for (uint32_t index = 1; index < inputs_max; ++index)
      if (index < input_count) bits |= address(inputs[index]) ^ address(inputs[0]);
    RONDO_UNROLL
    for (uint32_t index = 0; index < outputs_max; ++index)
      if (index < output_count) bits |= address(outputs[index]) ^ address(inputs[0]);
    return bits;
  }
  [[nodiscard]] RONDO_HD static uint64_t address(const std::byte *pointer) {
    return reinterpret_cast<uint64_t>(pointer);
  }
};

using memory::note_batch;
using memory::Vector;

/// Asserts, on the host, that `at` is aligned. A device would fault.
RONDO_HD inline void check_aligned([[maybe_unused]] const std::byte *at, [[maybe_unused]] size_t alignment) {
#if !defined(__CUDA_ARCH__)
  assert(reinterpret_cast<uintptr_t>(at) % alignment == 0);
#endif
}

/// Returns the value of type T at `at`, which is aligned to `alignment`.
template <class T, size_t alignment>
[[nodiscard]] RONDO_HD inline T load_aligned(const std::byte *at) {
  T value;
  check_aligned(at, alignment);
  memory::note(memory::Access::load, at, sizeof value);
  std::memcpy(&value, __builtin_assume_aligned(at, alignment), sizeof value);
  return value;
}
template <size_t alignment, class T>
RONDO_HD inline void store_aligned(std::byte *at, const T &value) {
  check_aligned(at, alignment);
  memory::note(memory::Access::store, at, sizeof value);
  std::memcpy(__builtin_assume_aligned(at, alignment), &value, sizeof value);
}

/// The parts of a slice: head, whole vectors and tail. They are counted in units, which are elements, or bytes in a
/// copy.
struct Split {
  uint32_t head;
  uint32_t vectors;
  uint32_t units_per_vector;

  [[nodiscard]] RONDO_HD uint32_t tail_begin() const { return head + vectors * units_per_vector; }
  /// Returns the number of bytes before a vector.
  [[nodiscard]] RONDO_HD uint32_t vector_at(uint32_t index, uint32_t unit_bytes) const {
    return head * unit_bytes + index * vector_bytes;
  }
};

/// Splits `count` units. All pointers, such as `at`, are equal modulo 16 and are multiples of unit_bytes.
[[nodiscard]] RONDO_HD inline Split split_at(const std::byte *at, uint32_t count, uint32_t unit_bytes) {
  const uint32_t past = static_cast<uint32_t>(GroupArgs::address(at)) % vector_bytes;
  const uint32_t to_vector = (vector_bytes - past) % vector_bytes / unit_bytes;
  const uint32_t per_vector = vector_bytes / unit_bytes;
  const uint32_t head = to_vector < count ? to_vector : count;
  return {head, (count - head) / per_vector, per_vector};
}

/// Copies units [begin, end) of T, one at a time.
template <class T, Group G>
RONDO_HD void copy_units(G group, const GroupArgs &args, uint32_t begin, uint32_t end) {
  RONDO_KEEP_LOOP
  for (uint32_t index = begin + group.rank(); index < end; index += group.size()) {
    note_batch();
    const T value = load_aligned<T, sizeof(T)>(args.inputs[0] + index * sizeof(T));
    RONDO_UNROLL
    for (uint32_t output = 0; output < outputs_max; ++output)
      if (output < args.output_count) store_aligned<sizeof(T)>(args.outputs[output] + index * sizeof(T), value);
  }
}

/// False from sm_100 on: if operands were loaded ahead, kernels of ll would spill registers (nvcc 13).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
inline constexpr bool loads_ahead = false;
#else
inline constexpr bool loads_ahead = true;
#endif

/// Reduces vectors of a slice from `first` on, while each thread has `turns` of them left. It calls load(operands, at)
/// for each vector and stores result_of(operands) to all outputs. With `ahead`, a thread that has used the
/// operands of a turn loads the next ones in their place, before it computes the other turns. So loads are
/// always in flight. Returns the first vector that is left for the caller. Like `first`, it is the index for
/// thread 0.
template <class Operands, uint32_t turns, bool ahead, Group G, class Load, class Result>
RONDO_HD uint32_t roll_vectors(G group, const GroupArgs &args, const Split &split, uint32_t unit_bytes, uint32_t first,
                               const Load &load, const Result &result_of) {
  const uint32_t step = turns * group.size(), last_turn = (turns - 1) * group.size() + group.rank();
  uint32_t next = first;
  if (next + last_turn >= split.vectors) return next;
  const auto place = [&](uint32_t from, uint32_t turn) {
    return split.vector_at(from + turn * group.size() + group.rank(), unit_bytes);
  };
  Operands operands[turns]{};
  if constexpr (!ahead) {  // in bytes and without a store function, otherwise kernels for sm_120 spill
    const uint32_t stride = group.size() * vector_bytes, begin = place(next, 0);
    const uint32_t end = split.vector_at(split.vectors, unit_bytes) - (turns - 1) * stride;
    uint32_t at = begin;
    RONDO_KEEP_LOOP
    for (; at < end; at += turns * stride) {
      note_batch();
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < turns; ++turn) load(operands[turn], at + turn * stride);
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < turns; ++turn) {
        const Vector result = result_of(operands[turn]);
        RONDO_UNROLL
        for (uint32_t output = 0; output < outputs_max; ++output)
          if (output < args.output_count) memory::store_vector(args.outputs[output] + at + turn * stride, result);
      }
    }
    return next + (at - begin) / vector_bytes;
  }
  note_batch();
  RONDO_UNROLL
  for (uint32_t turn = 0; turn < turns; ++turn) load(operands[turn], place(next, turn));
  RONDO_KEEP_LOOP
  for (bool more = true; more; next += step) {
    note_batch();
    more = next + step + last_turn < split.vectors;
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < turns; ++turn) {
      const Vector result = result_of(operands[turn]);
      RONDO_UNROLL
      for (uint32_t output = 0; output < outputs_max; ++output)
        if (output < args.output_count) memory::store_vector(args.outputs[output] + place(next, turn), result);
      if (more) load(operands[turn], place(next + step, turn));
    }
  }
  return next;
}

/// Copies vectors in the same way as roll_vectors() reduces them.
template <uint32_t turns, Group G>
RONDO_HD uint32_t copy_vectors(G group, const GroupArgs &args, const Split &split, uint32_t first) {
  const auto load = [&](Vector &value, uint32_t at) { value = memory::load_vector(args.inputs[0] + at); };
  const auto result_of = [](const Vector &value) { return value; };
  return roll_vectors<Vector, turns, loads_ahead>(group, args, split, 1, first, load, result_of);
}

/// Copies bits of any type, if nothing is computed: there is one operand and no division.
template <Group G>
RONDO_HD void copy_by_group(G group, const GroupArgs &args, uint32_t element_bytes) {
  const auto bytes = static_cast<uint32_t>(args.count * element_bytes);
  const uint64_t difference = args.difference();
  if (difference % vector_bytes != 0) {
    const bool words = (difference | GroupArgs::address(args.inputs[0])) % sizeof(uint32_t) == 0;
    const uint32_t word_count = words ? bytes / static_cast<uint32_t>(sizeof(uint32_t)) : 0;
    copy_units<uint32_t>(group, args, 0, word_count);
    copy_units<uint8_t>(group, args, word_count * static_cast<uint32_t>(sizeof(uint32_t)), bytes);
    return;
  }
  const Split split = split_at(args.inputs[0], bytes, 1);
  copy_vectors<1>(group, args, split, copy_vectors<4>(group, args, split, 0));
  copy_units<uint8_t>(group, args, 0, split.head);
  copy_units<uint8_t>(group, args, split.tail_begin(), bytes);
}

/// Copies data for collectives that do not reduce, of any type.
struct GroupCopier {
  using Args = GroupArgs;
  uint32_t divisor = 0;  ///< always 0
  uint32_t element_bytes = 1;

  [[nodiscard]] RONDO_HD static GroupCopier make(uint32_t, ReduceOp, uint32_t element_bytes) {
    return {0, element_bytes};
  }

  template <Group G>
  RONDO_HD void operator()(G group, const Args &args) const {
    copy_by_group(group, args, element_bytes);
  }
};

/// Reduces by one operation. Element says how a type is stored, and in which type it is computed (src/proto/reducer.h).
template <class Element, class Op>
struct GroupReduction {
  using Args = GroupArgs;
  using Storage = typename Element::Storage;
  using Accumulator = typename Element::Accumulator;
  static constexpr uint32_t per_vector = vector_bytes / sizeof(Storage);
  /// False for integers. Their division is a long subroutine. So a loop over elements divides them, with one copy of
  /// that code.
  static constexpr bool divides_vectors = !std::is_integral_v<Accumulator>;

  /// The number of vectors that a thread has in flight, for each of two operands. Conversions of small floats also need
  /// registers, and each double takes two.
  static constexpr uint32_t in_flight = sizeof(Storage) == 1 ? 2 : std::is_same_v<Accumulator, double> ? 3 : 4;

  template <Group G>
  RONDO_HD static void run(G group, const Args &args) {
    if constexpr (scales_mean<Op, Accumulator>)
      if (args.divisor != 0 || args.mean_shifts != 0) return reduce<true>(group, args);
    reduce<false>(group, args);
  }

 private:
  /// Reduces a slice. With `mean`, scales the operands, and has fewer in flight, because the factors need registers.
  template <bool mean, Group G>
  RONDO_HD static void reduce(G group, const Args &args) {
    const auto count = static_cast<uint32_t>(args.count);
    const uint64_t difference = args.difference();
    const bool alike = difference % vector_bytes == 0;
    const bool natural = (difference | Args::address(args.inputs[0])) % sizeof(Storage) == 0;
    if (!natural) return reduce_elements<1, mean>(group, args, 0, count);
    if (!alike || (args.divisor != 0 && !divides_vectors))
      return reduce_elements<sizeof(Storage), mean>(group, args, 0, count);
    const Split split = split_at(args.inputs[0], count, sizeof(Storage));
    uint32_t next = 0;
    if (args.input_count == 2) next = reduce_vectors<2, mean ? 2 : in_flight, mean>(group, args, split, next);
    reduce_vectors<inputs_max, 1, mean>(group, args, split, next);
    reduce_elements<sizeof(Storage), mean>(group, args, 0, split.head);
    reduce_elements<sizeof(Storage), mean>(group, args, split.tail_begin(), count);
  }

  template <bool mean>
  [[nodiscard]] RONDO_HD static Accumulator load(Storage stored, [[maybe_unused]] const Args &args,
                                                 [[maybe_unused]] uint32_t input) {
    const Accumulator value = Element::load(stored);
    if constexpr (mean) return value * mean_scale<Accumulator>(args.mean_shifts, input);
    else return value;
  }

  template <bool mean>
  [[nodiscard]] RONDO_HD static Storage store(Accumulator reduced, const Args &args) {
    if constexpr (mean) {
      if (args.divisor != 0) reduced = reduced / mean_divisor<Accumulator>(args.divisor);
      reduced = saturated_mean<Element>(reduced);
    } else if constexpr (!scales_mean<Op, Accumulator>) {
      if (args.divisor != 0) reduced = divide(reduced, args.divisor);
    }
    return Element::store(reduced);
  }

  template <size_t alignment, bool mean, Group G>
  RONDO_HD static void reduce_elements(G group, const Args &args, uint32_t begin, uint32_t end) {
    RONDO_KEEP_LOOP
    for (uint32_t index = begin + group.rank(); index < end; index += group.size()) {
      const size_t at = index * sizeof(Storage);
      Accumulator reduced = load<mean>(load_aligned<Storage, alignment>(args.inputs[0] + at), args, 0);
      RONDO_UNROLL
      for (uint32_t input = 1; input < inputs_max; ++input)
        if (input < args.input_count)
          reduced =
              Op::apply(reduced, load<mean>(load_aligned<Storage, alignment>(args.inputs[input] + at), args, input));
      const Storage result = store<mean>(reduced, args);
      RONDO_UNROLL
      for (uint32_t output = 0; output < outputs_max; ++output)
        if (output < args.output_count) store_aligned<alignment>(args.outputs[output] + at, result);
    }
  }

  /// Reduces vectors as roll_vectors() does. `inputs` is the number of operands, or inputs_max.
  template <uint32_t inputs, uint32_t turns, bool mean, Group G>
  RONDO_HD static uint32_t reduce_vectors(G group, const Args &args, const Split &split, uint32_t first) {
    struct Operands {
      Vector of[inputs];
    };
    const auto load = [&](Operands &operands, uint32_t at) {
      RONDO_UNROLL
      for (uint32_t input = 0; input < inputs; ++input)
        if (inputs < inputs_max || input == 0 || input < args.input_count)
          operands.of[input] = memory::load_vector(args.inputs[input] + at);
    };
    const auto result_of = [&](const Operands &operands) { return reduce_vector<inputs, mean>(operands.of, args); };
    constexpr bool ahead = loads_ahead && sizeof(Storage) > 1 && !mean;  // otherwise some kernels would spill
    return roll_vectors<Operands, turns, ahead>(group, args, split, sizeof(Storage), first, load, result_of);
  }

  struct alignas(vector_bytes) Elements {
    Storage values[per_vector];
  };

  template <uint32_t inputs, bool mean>
  [[nodiscard]] RONDO_HD static Vector reduce_vector(const Vector (&operands)[inputs], const Args &args) {
    Accumulator reduced[per_vector];
    const auto first = __builtin_bit_cast(Elements, operands[0]);
    RONDO_UNROLL
    for (uint32_t index = 0; index < per_vector; ++index) reduced[index] = load<mean>(first.values[index], args, 0);
    RONDO_UNROLL
    for (uint32_t input = 1; input < inputs; ++input) {
      if (inputs == inputs_max && input >= args.input_count) continue;
      const auto next = __builtin_bit_cast(Elements, operands[input]);
      RONDO_UNROLL
      for (uint32_t index = 0; index < per_vector; ++index)
        reduced[index] = Op::apply(reduced[index], load<mean>(next.values[index], args, input));
    }
    Elements result;
    RONDO_UNROLL
    for (uint32_t index = 0; index < per_vector; ++index) {
      if constexpr (divides_vectors) result.values[index] = store<mean>(reduced[index], args);
      else result.values[index] = Element::store(reduced[index]);
    }
    return __builtin_bit_cast(Vector, result);
  }
};

/// Reduces by an operation that is set at run time. So one kernel serves all operations. With a kernel for each, the
/// image would have the interpreter's code four times.
template <class Element>
struct GroupReducer {
  using Args = GroupArgs;
  uint32_t divisor = 0;
  ReduceOp op = ReduceOp::sum;

  [[nodiscard]] RONDO_HD static GroupReducer make(uint32_t divisor, ReduceOp op, uint32_t) { return {divisor, op}; }

  template <Group G>
  RONDO_HD void operator()(G group, const Args &args) const {
    if (args.input_count == 1 && args.divisor == 0)
      return copy_by_group(group, args, sizeof(typename Element::Storage));
    switch (op) {
      case ReduceOp::sum: return GroupReduction<Element, SumOp>::run(group, args);
      case ReduceOp::prod: return GroupReduction<Element, ProdOp>::run(group, args);
      case ReduceOp::min: return GroupReduction<Element, MinOp>::run(group, args);
      case ReduceOp::max: return GroupReduction<Element, MaxOp>::run(group, args);
    }
  }
};

}  // namespace rondo::device
