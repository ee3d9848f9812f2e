// SPDX-License-Identifier: Apache-2.0
// Kernels are written for a block of threads. A block type has thread(), threads(), index() of the block, count() of
// blocks, and sync(). Its shared() is memory of the block, 8 bytes per thread. On a device the type represents a
// hardware block (kernels.cu), in tests a group of host threads.
//
// A function that a block runs is declared with RONDO_TRAIN_FUNCTION, which the including file defines.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo::train::cuda {

inline constexpr uint32_t block_threads = 256;
inline constexpr uint32_t shared_bytes = block_threads * sizeof(double);

/// Returns this thread's number among all threads of the grid.
template <class Block>
RONDO_TRAIN_FUNCTION inline uint64_t first_of(const Block &block) {
  return uint64_t{block.index()} * block.threads() + block.thread();
}
/// Returns the number of threads in the grid.
template <class Block>
RONDO_TRAIN_FUNCTION inline uint64_t step_of(const Block &block) {
  return uint64_t{block.count()} * block.threads();
}

struct Sum {
  template <class Value>
  RONDO_TRAIN_FUNCTION static Value of(Value one, Value other) {
    return one + other;
  }
};
struct Greatest {
  template <class Value>
  RONDO_TRAIN_FUNCTION static Value of(Value one, Value other) {
    return one < other ? other : one;
  }
};

/// Reduces the values of all threads, and returns the result on all of them. The order of the operations depends only
/// on the number of threads.
template <class Reduction, class Block, class Value>
RONDO_TRAIN_FUNCTION inline Value reduce(const Block &block, Value mine) {
  static_assert(sizeof(Value) <= sizeof(double));
  auto *const values = reinterpret_cast<Value *>(block.shared());
  block.sync();  // all threads have read the previous reduction's result
  values[block.thread()] = mine;
  block.sync();
  for (uint32_t left = block.threads(); left > 1;) {
    const uint32_t half = (left + 1) / 2;
    if (block.thread() + half < left)
      values[block.thread()] = Reduction::of(values[block.thread()], values[block.thread() + half]);
    block.sync();
    left = half;
  }
  return values[0];
}

}  // namespace rondo::train::cuda
