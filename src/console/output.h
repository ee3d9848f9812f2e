// SPDX-License-Identifier: Apache-2.0
// This file writes files for a command's user; "-" is standard output. Files are checked before any work, and written
// later. Links are followed, and not replaced. A device or FIFO is written into, and not replaced.
#pragma once

#include <cstdio>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rondo::console {

/// An error and its remedy, or nothing.
using Complaint = std::optional<std::string>;

/// The path of a file that is written under another name beside its final path, and then renamed.
struct OutputPlace {
  std::string path;      ///< after following all links
  bool can_be_replaced;  ///< false: the path is a device, FIFO or the like, to be written into
};
[[nodiscard]] OutputPlace output_place(const std::string &path);

/// Checks that a file can be written, before any work is done. The check does not change the file. An empty path means
/// that no file was requested.
[[nodiscard]] Complaint check_output(const std::string &path);

/// Checks that the file name of --plot has the ending of a known format. It accesses no file.
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
