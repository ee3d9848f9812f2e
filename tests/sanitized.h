// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>

namespace rondo_test {

/// Says whether the tests run under a sanitizer. scripts/test sets the variable. Tests that would take minutes do less
/// under a sanitizer, and print that.
[[nodiscard]] inline bool sanitized() { return std::getenv("RONDO_TEST_SANITIZED") != nullptr; }

/// Returns which quarter of the long tests runs, from 0 to 3. Returns nothing if all of them run.
[[nodiscard]] inline std::optional<uint64_t> gate_quarter() {
  const char *const quarter = std::getenv("RONDO_TEST_QUARTER");  // set by scripts/test
  return quarter == nullptr ? std::nullopt : std::optional{uint64_t{std::strtoull(quarter, nullptr, 10)} % 4};
}

/// Returns `count`, or a quarter of it at the gate. Use this for cases that are drawn anew in each run.
[[nodiscard]] inline uint64_t gate_count(uint64_t count) { return gate_quarter() ? count / 4 : count; }

/// Says whether case `which` of two cases runs. At the gate under a sanitizer, even and odd ones run by turns. `what`
/// names the two in the line that says that one is left out.
[[nodiscard]] inline bool has_turn(uint64_t which, const char *what) {
  const auto quarter = gate_quarter();
  if (!sanitized() || !quarter || (*quarter + which) % 2 == 0) return true;
  std::printf("skipped: one of two %s: takes long under a sanitizer; done without one\n", what);
  return false;
}

/// A selection of cases: a quarter of many similar cases at the gate, otherwise all of them.
class GateShare {
 public:
  /// Selects a quarter under a sanitizer only. `what` names the cases in the line that says that some are left out. If
  /// `divided` is false, this selects all cases, because another rule leaves cases out.
  explicit GateShare(const char *what, bool divided = true)
      : GateShare(what, "take long under a sanitizer; done without one", divided && sanitized()) {}
  /// Selects a quarter in every build.
  [[nodiscard]] static GateShare in_every_build(const char *what) {
    return {what, "other gates run them", true};
  }
  /// Says whether the next case is selected.
  [[nodiscard]] bool has_next() { return quarter_ == all || next_++ % 4 == quarter_; }
  /// Counts a case that does not exist. After an inner loop of 4 cases, a quarter then meets another case in the next.
  void skip() { ++next_; }

 private:
  GateShare(const char *what, const char *why, bool divided) : quarter_(divided ? gate_quarter().value_or(all) : all) {
    if (quarter_ != all) std::printf("skipped: three quarters of %s: %s\n", what, why);
  }

  static constexpr uint64_t all = 4;
  uint64_t quarter_;
  uint64_t next_ = 0;
};

}  // namespace rondo_test
