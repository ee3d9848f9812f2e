// SPDX-License-Identifier: Apache-2.0
// These functions read files of /proc and /sys.
#pragma once

#include <string>

namespace rondo {

/// Returns the text of a file of the kernel, or "" if it cannot be read.
[[nodiscard]] std::string read_kernel_file(const std::string &path);
/// Returns the first line of the file, without the line end.
[[nodiscard]] std::string read_kernel_line(const std::string &path);

}  // namespace rondo
