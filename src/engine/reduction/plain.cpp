// SPDX-License-Identifier: Apache-2.0
// This file implements reduction.h in plain C++, one element at a time. It is the reference for the vectorised forms,
// and runs on processors without a vectorised form.
#include <array>
#include <cstring>

#include "src/engine/reduction/reduction.h"
#include "src/proto/reducer.h"

namespace rondo {
namespace {

/// Loads an element. Pointers need no alignment, so it uses memcpy, which compiles to a plain load.
template <class T>
T load_at(const std::byte *from, size_t index) {
  T value;
  std::memcpy(&value, from + index * sizeof(T), sizeof(T));
  return value;
}

/// Reduces the inputs of `args`. It reads all operands of an element before it writes a result, because an output may
/// be an input. With `mean`, the operation is avg.
template <class Element, class Op, bool mean = false>
void reduce_plain(const ReductionArgs &args) {
  using Storage = typename Element::Storage;
  using Accumulator = typename Element::Accumulator;
  constexpr bool scales = mean && scales_mean<Op, Accumulator>;
  if (is_copy(args)) return copy_to_outputs(args, sizeof(Storage));
  const auto load = [&](const std::byte *from, size_t index, [[maybe_unused]] uint32_t input) {
    const Accumulator value = Element::load(load_at<Storage>(from, index));
    if constexpr (scales) return value * mean_scale<Accumulator>(args.mean_shifts, input);
    else return value;
  };
  for (size_t index = 0; index < args.count; ++index) {
    Accumulator reduced = load(args.inputs[0], index, 0);
    for (uint32_t input = 1; input < args.input_count; ++input)
      reduced = Op::apply(reduced, load(args.inputs[input], index, input));
    for (const std::byte *const operand : args.more)
      reduced = Op::apply(reduced, load(operand + args.more_at, index, reduce_inputs_max - 1));
    if constexpr (scales) reduced = saturated_mean<Element>(reduced / mean_divisor<Accumulator>(args.divisor));
    else if (args.divisor != 0) reduced = divide(reduced, args.divisor);
    const Storage result = Element::store(reduced);
    for (uint32_t output = 0; output < args.output_count; ++output)
      std::memcpy(args.outputs[output] + index * sizeof(Storage), &result, sizeof(Storage));
  }
}

using Row = std::array<ReductionFunction, 5>;  // indexed by rondo_op_t

template <class Element>
constexpr Row row() {
  return {reduce_plain<Element, SumOp>, reduce_plain<Element, ProdOp>, reduce_plain<Element, MinOp>,
          reduce_plain<Element, MaxOp>, reduce_plain<Element, SumOp, true>};
}

}  // namespace

ReductionFunction reduce_function_plain(rondo_type_t type, rondo_op_t op) {
  static constexpr std::array<Row, 12> table{  // indexed by rondo_type_t
      row<Element<int8_t>>(),   row<Element<uint8_t>>(), row<Element<int32_t>>(),  row<Element<uint32_t>>(),
      row<Element<int64_t>>(),  row<Element<uint64_t>>(), row<Float16Element>(),   row<Bfloat16Element>(),
      row<Element<float>>(),    row<Element<double>>(),  row<Float8E4m3Element>(), row<Float8E5m2Element>()};
  const auto type_index = static_cast<size_t>(type);
  const auto op_index = static_cast<size_t>(op);
  if (type_index >= table.size() || op_index >= Row{}.size()) return nullptr;
  return table[type_index][op_index];
}

}  // namespace rondo
