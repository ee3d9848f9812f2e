// SPDX-License-Identifier: Apache-2.0
// This file turns a rank's stream of bytes into whole tagged lines: "[3] text\n". It does no I/O. Each stream of each
// rank has one object.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo::cli {

/// A line above this size is passed on in pieces, each as a line of its own. This limits the memory.
constexpr size_t run_line_bytes_max = 64 * 1024;

class LineTagger {
 public:
  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}

  /// Appends to `out` the lines that `bytes` completes. The rest is kept until its end arrives.
  void take(std::string_view bytes, std::string *out);

  /// Ends the stream. An unfinished line is appended, with a newline.
  void finish(std::string *out);

 private:
  void emit(std::string_view end_of_line, std::string *out);

  std::string tag_;
  std::string partial_;  // a line without its end; at most run_line_bytes_max
};

}  // namespace rondo::cli
