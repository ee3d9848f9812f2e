// SPDX-License-Identifier: Apache-2.0
// Files that a command writes for its user, "-" for standard output: checked before any work, then written.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rondo::console {

/// What is wrong, and what to do.
using Complaint = std::optional<std::string>;

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

[[nodiscard]] Complaint write_output(const std::string &path, std::string_view text);

}  // namespace rondo::console
