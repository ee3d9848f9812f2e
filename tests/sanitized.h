// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace rondo_test {

/// Returns whether the tests run under a sanitizer (scripts/test says so). Tests that take minutes there do less, and
/// say so.
[[nodiscard]] inline bool sanitized() { return std::getenv("RONDO_TEST_SANITIZED") != nullptr; }

/// Returns which quarter of the tests that take long runs, from 0 to 3. If all of them run, it returns none.
[[nodiscard]] inline std::optional<uint64_t> gate_quarter() {
  const char *const quarter = std::getenv("RONDO_TEST_QUARTER");  // set by scripts/test
  return quarter == nullptr ? std::nullopt : std::optional{uint64_t{std::strtoull(quarter, nullptr, 10)} % 4};
}

/// Selects a quarter of many similar cases at the gate if they run under a sanitizer; otherwise it selects all.
class GateShare {
 public:
  /// `what` names the cases in the line that says what is left out. `divided` is false where another rule leaves cases
  /// out: all of them are selected then.
  explicit GateShare(const char *what, bool divided = true)
      : quarter_(divided && sanitized() ? gate_quarter().value_or(all) : all) {
    if (quarter_ != all)
      std::printf("skipped: three quarters of %s: take long under a sanitizer; done without one\n", what);
  }
  /// Returns whether the next case is one of those selected.
  [[nodiscard]] bool has_next() { return quarter_ == all || next_++ % 4 == quarter_; }

 private:
  static constexpr uint64_t all = 4;
  uint64_t quarter_;
  uint64_t next_ = 0;
};

}  // namespace rondo_test
