// SPDX-License-Identifier: Apache-2.0
// The kernel of a premul sum (src/plan/premul.h) scales a rank's operands, before the plan adds them. It waits for
// nothing, so its blocks need not be resident at once. The order of the stream makes its input complete and publishes
// its result. A product is computed and rounded like that of two operands of a step (ProdOp).
//     rondo_scale: for all types; the type is an argument
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/reduce.h"

namespace rondo::device {

/// The element types of the kernel. Signed integers are scaled like unsigned ones: both wrap alike.
enum class ScaledType : uint32_t { int8, int32, int64, float16, bfloat16, float32, float64, float8_e4m3, float8_e5m2 };

/// The parameter of the kernel. The threads of the grid divide the elements among themselves.
struct ScaleOperation {
  const std::byte *from = nullptr;
  std::byte *to = nullptr;              ///< may be `from`
  const std::byte *address = nullptr;   ///< of the factor, which the kernel reads; if null, `factor` has it
  uint64_t factor = 0;                  ///< the value, in the first bytes
  uint64_t count = 0;                   ///< elements
  ScaledType type = ScaledType::int8;
};
static_assert(std::is_trivially_copyable_v<ScaleOperation> && std::is_standard_layout_v<ScaleOperation>);
static_assert(sizeof(ScaleOperation) == 48 && offsetof(ScaleOperation, count) == 32);

template <class Element>
struct Scale {
  using Storage = typename Element::Storage;
  using Accumulator = typename Element::Accumulator;
  static constexpr uint32_t per_vector = vector_bytes / sizeof(Storage);
  struct alignas(vector_bytes) Elements {
    Storage values[per_vector];
  };

  [[nodiscard]] RONDO_HD static Accumulator factor_of(const ScaleOperation &operation) {
    const auto *const own = reinterpret_cast<const std::byte *>(&operation.factor);
    return Element::load(load_aligned<Storage, 1>(operation.address != nullptr ? operation.address : own));
  }

  [[nodiscard]] RONDO_HD static Storage product(Storage value, Accumulator factor) {
    return Element::store(ProdOp::apply(Element::load(value), factor));
  }

  [[nodiscard]] RONDO_HD static Vector product(const Vector &operand, Accumulator factor) {
    auto elements = __builtin_bit_cast(Elements, operand);
    RONDO_UNROLL
    for (uint32_t index = 0; index < per_vector; ++index)
      elements.values[index] = product(elements.values[index], factor);
    return __builtin_bit_cast(Vector, elements);
  }

  /// Scales all elements except [begin, end), which run_vectors() scales.
  template <size_t alignment, Group G>
  RONDO_HD static void run_elements(G group, const ScaleOperation &operation, uint64_t begin, uint64_t end,
                                    Accumulator factor) {
    const uint64_t count = operation.count - (end - begin);
    RONDO_KEEP_LOOP
    for (uint64_t next = group.rank(); next < count; next += group.size()) {
      const uint64_t at = (next < begin ? next : next + (end - begin)) * sizeof(Storage);
      store_aligned<alignment>(operation.to + at,
                               product(load_aligned<Storage, alignment>(operation.from + at), factor));
    }
  }

  /// Scales `count` vectors, which begin at multiples of their size. A thread has only one vector in flight at a time,
  /// because there are many threads.
  template <Group G>
  RONDO_HD static void run_vectors(G group, const std::byte *from, std::byte *to, uint64_t count, Accumulator factor) {
    RONDO_KEEP_LOOP
    for (uint64_t index = group.rank(); index < count; index += group.size()) {
      const uint64_t at = index * vector_bytes;
      memory::store_vector(to + at, product(memory::load_vector(from + at), factor));
    }
  }

  template <Group G>
  RONDO_HD static void run(G group, const ScaleOperation &operation) {
    const Accumulator factor = factor_of(operation);
    const uint64_t from = GroupArgs::address(operation.from), to = GroupArgs::address(operation.to);
    if ((from | to) % sizeof(Storage) != 0) return run_elements<1>(group, operation, 0, 0, factor);
    const bool alike = (from ^ to) % vector_bytes == 0;
    const uint64_t to_vector = (vector_bytes - from % vector_bytes) % vector_bytes / sizeof(Storage);
    const uint64_t head = to_vector < operation.count ? to_vector : operation.count;
    const uint64_t vectors = alike ? (operation.count - head) / per_vector : 0;
    const uint64_t begin = head * sizeof(Storage);
    run_vectors(group, operation.from + begin, operation.to + begin, vectors, factor);
    run_elements<sizeof(Storage)>(group, operation, head, head + vectors * per_vector, factor);
  }
};

/// Runs the kernel. `Float16` is the element of float16: devices have their own, which converts by one instruction.
template <class Float16, Group G>
RONDO_HD void run_scale(G group, const ScaleOperation &operation) {
  switch (operation.type) {
    case ScaledType::int8: return Scale<Element<uint8_t>>::run(group, operation);
    case ScaledType::int32: return Scale<Element<uint32_t>>::run(group, operation);
    case ScaledType::int64: return Scale<Element<uint64_t>>::run(group, operation);
    case ScaledType::float16: return Scale<Float16>::run(group, operation);
    case ScaledType::bfloat16: return Scale<Bfloat16Element>::run(group, operation);
    case ScaledType::float32: return Scale<Element<float>>::run(group, operation);
    case ScaledType::float64: return Scale<Element<double>>::run(group, operation);
    case ScaledType::float8_e4m3: return Scale<Float8E4m3Element>::run(group, operation);
    case ScaledType::float8_e5m2: return Scale<Float8E5m2Element>::run(group, operation);
  }
}

}  // namespace rondo::device
