// SPDX-License-Identifier: Apache-2.0
// Shows the progress of a command and about how long it still takes: one line of standard error, wiped at the end. It
// appears on a terminal only, after two seconds.
#pragma once

#include <cstdint>
#include <string>

namespace rondo::console {

/// Returns e.g. "40 %, about 12 s left". `part` of the work, 0 to 1, took `elapsed_s`.
[[nodiscard]] std::string progress_text(double part, double elapsed_s);

/// Returns e.g. "about 12 s left".
[[nodiscard]] std::string left_text(double seconds);

class Progress {
 public:
  /// Shows the progress of a command.
  /// @param what  "rondo sim"
  explicit Progress(std::string what);
  ~Progress() { wipe(); }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// Notes that this part of the work, 0 to 1, is done. It is cheap and may be called often.
  void reach(double part);
  /// Takes the line away, before something else is written.
  void wipe();

 private:
  std::string what_;
  bool watched_ = false, shown_ = false;
  uint64_t begin_ns_ = 0, next_ns_ = 0;
};

}  // namespace rondo::console
