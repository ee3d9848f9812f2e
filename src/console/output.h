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

/// What is wrong, and what to do.
using Complaint = std::optional<std::string>;

/// Where a file is to be put that is made beside its place and then renamed.
struct OutputPlace {
  std::string path;      ///< behind all links
  bool can_be_replaced;  ///< false: there is something that is no regular file, to be written into
};
[[nodiscard]] OutputPlace output_place(const std::string &path);

/// Whether a file can be written, before anything is done for it. What is there stays as it is. Empty: not asked for.
[[nodiscard]] Complaint check_output(const std::string &path);

/// --plot: whether the name says what is drawn. Touches no file.
[[nodiscard]] Complaint check_plot(const std::string &path);

struct Output {
  const char *option;  ///< "--json"
  std::string_view path;
};
/// That at most one of them goes to standard output.
[[nodiscard]] Complaint check_shared(std::span<const Output> outputs);

/// Writes to the open file; false: a write failed, with errno.
using Print = std::function<bool(std::FILE *)>;
[[nodiscard]] Complaint write_output(const std::string &path, const Print &print);
[[nodiscard]] Complaint write_output(const std::string &path, std::string_view text);

}  // namespace rondo::console
