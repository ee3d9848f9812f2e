// SPDX-License-Identifier: Apache-2.0
// This file has the buffers of one call of one rank. They are filled so that each element of the result is known before
// the call.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tests/sim/life_plan.h"

namespace rondo::sim {

class CallData {
 public:
  /// Makes and fills the buffers. `salt` must differ between calls.
  CallData(const PlannedCall &planned, uint32_t rank, uint32_t rank_count, uint64_t salt);

  /// Returns the argument of Communicator::submit().
  [[nodiscard]] const Call &call() const { return call_; }
  [[nodiscard]] std::vector<std::byte> &first() { return first_; }
  [[nodiscard]] std::vector<std::byte> &second() { return second_; }

  /// Returns what is wrong in the result, or "".
  [[nodiscard]] std::string wrong() const;

 private:
  template <class T>
  void fill(std::byte *at, uint64_t first, uint64_t count, uint32_t rank) const;
  template <class T>
  [[nodiscard]] std::string compare() const;
  [[nodiscard]] uint64_t value(uint64_t element, uint32_t rank) const;
  [[nodiscard]] uint64_t expected(uint64_t element) const;

  PlannedCall planned_;
  uint32_t rank_;
  uint32_t rank_count_;
  uint64_t salt_;
  std::vector<std::byte> first_;
  std::vector<std::byte> second_;
  Call call_;
};

}  // namespace rondo::sim
