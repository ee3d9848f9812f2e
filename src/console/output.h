// SPDX-License-Identifier: Apache-2.0
// Files that a command writes for its user, "-" for standard output: checked before any work, then written. A link is
// followed, so that it stays; what is no regular file (a device, a FIFO) is written into, never replaced.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rondo::console {

/// A message with the error and its remedy, or nothing.
using Complaint = std::optional<std::string>;

/// The path of a file that is made beside its final path and then renamed.
struct OutputPlace {
  std::string path;      ///< behind all links
  bool can_be_replaced;  ///< false: there is something that is no regular file, to be written into
};
[[nodiscard]] OutputPlace output_place(const std::string &path);

/// Checks that a file can be written, before any work is done. Existing contents stay. An empty path was not requested.
[[nodiscard]] Complaint check_output(const std::string &path);

/// Checks that the name of --plot says what is drawn. Touches no file.
[[nodiscard]] Complaint check_plot(const std::string &path);

struct Output {
  const char *option;  ///< "--json"
  std::string_view path;
};
/// Checks that at most one output goes to standard output.
[[nodiscard]] Complaint check_shared(std::span<const Output> outputs);

/// Writes to the open file. Returns false with errno if a write failed.
using Print = std::function<bool(std::FILE *)>;
[[nodiscard]] Complaint write_output(const std::string &path, const Print &print);
[[nodiscard]] Complaint write_output(const std::string &path, std::string_view text);

}  // namespace rondo::console
