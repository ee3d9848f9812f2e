// SPDX-License-Identifier: Apache-2.0
// Turns a rank's stream of bytes into whole tagged lines: "[3] text\n". Pure; one for each rank and stream.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace rondo::cli {

/// A line longer than this is passed on in pieces of this size, each as a line of its own: memory stays bounded.
constexpr size_t run_line_bytes_max = 64 * 1024;

class LineTagger {
 public:
  explicit LineTagger(std::string tag) : tag_(std::move(tag)) {}

  /// Appends to `out` the lines that `bytes` completes; the rest waits for its end.
  void take(std::string_view bytes, std::string *out);

  /// Ends the stream: appends the rest of an unfinished line, with the newline that it lacks.
  void finish(std::string *out);

 private:
  void emit(std::string_view end_of_line, std::string *out);

  std::string tag_;
  std::string partial_;  // a line without its end; at most run_line_bytes_max
};

}  // namespace rondo::cli
