// SPDX-License-Identifier: Apache-2.0
// This file shows the progress of a command and its remaining time, on one line of standard error. The line is removed
// at the end. It appears only on a terminal, and only after two seconds.
#pragma once

#include <cstdint>
#include <string>

namespace rondo::console {

/// Returns text such as "40 %, about 12 s left". `part`, from 0 to 1, is the part of the work that took `elapsed_s`.
[[nodiscard]] std::string progress_text(double part, double elapsed_s);

/// Returns text such as "about 12 s left".
[[nodiscard]] std::string left_text(double seconds);

class Progress {
 public:
  /// Shows the progress of a command.
  /// @param what  "rondo sim"
  explicit Progress(std::string what);
  ~Progress() { wipe(); }
  Progress(const Progress &) = delete;
  Progress &operator=(const Progress &) = delete;

  /// Records that this part of the work, from 0 to 1, is done. It is cheap, so it may be called often.
  void reach(double part);
  /// Removes the line, before other output is written.
  void wipe();

 private:
  std::string what_;
  bool watched_ = false, shown_ = false;
  uint64_t begin_ns_ = 0, next_ns_ = 0;
};

}  // namespace rondo::console
