// SPDX-License-Identifier: Apache-2.0
// This file makes the elements and buffers of the tests of all_to_all, gather and scatter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "rondo/rondo.h"

namespace rondo_test {

using Values = std::vector<int32_t>;

/// Returns element `i` of the block that `from` sends to `to`.
inline int32_t element(int from, int to, size_t i) { return from * 1'000'003 + to * 10'007 + static_cast<int32_t>(i); }

/// Appends a block.
inline void put(Values &values, int from, int to, size_t count) {
  for (size_t i = 0; i < count; ++i) values.push_back(element(from, to, i));
}

/// Returns the blocks that `rank` sends to every rank, or receives from every rank, of `count` elements each.
inline Values blocks(int rank, int size, size_t count, bool received) {
  Values values;
  for (int peer = 0; peer < size; ++peer) put(values, received ? peer : rank, received ? rank : peer, count);
  return values;
}

inline rondo_status_t right(bool is_right, rondo_status_t status) { return is_right ? status : RONDO_ERROR_INTERNAL; }

/// A buffer that peers can map.
class Shared {
 public:
  explicit Shared(const Values &values) : count_(values.size()) {
    if (rondo_mem_alloc(&memory_, count_ * 4 + 4) != RONDO_OK) std::abort();
    std::copy(values.begin(), values.end(), data());
  }
  ~Shared() { static_cast<void>(rondo_mem_free(memory_)); }
  Shared(const Shared &) = delete;
  Shared &operator=(const Shared &) = delete;
  [[nodiscard]] int32_t *data() const { return static_cast<int32_t *>(memory_); }
  [[nodiscard]] bool holds(const Values &expected) const {
    return std::equal(expected.begin(), expected.end(), data(), data() + count_);
  }

 private:
  void *memory_ = nullptr;
  size_t count_;
};

}  // namespace rondo_test
