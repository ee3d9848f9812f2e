// SPDX-License-Identifier: Apache-2.0
// This file selects a quarter of many similar cases at the gate, in every build. GateShare (tests/sanitized.h) does so
// only under a sanitizer.
#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>

#include "tests/sanitized.h"

namespace rondo_test {

/// Returns `count`, or a quarter of it at the gate. Use this for cases that are drawn anew in each run.
[[nodiscard]] inline uint64_t gate_count(uint64_t count) { return gate_quarter() ? count / 4 : count; }

/// A selection of cases: a quarter of them at the gate, otherwise all. Other gates run the others.
class QuarterShare {
 public:
  /// Makes the selection. `what` names the cases in the line that says which of them run.
  explicit QuarterShare(const char *what) : quarter_(gate_quarter()) {
    if (quarter_) std::printf("a quarter of %s; other gates run the others\n", what);
  }
  /// Says whether the next case is selected.
  [[nodiscard]] bool has_next() { return !quarter_ || next_++ % 4 == *quarter_; }

 private:
  std::optional<uint64_t> quarter_;
  uint64_t next_ = 0;
};

}  // namespace rondo_test
