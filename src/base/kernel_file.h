// SPDX-License-Identifier: Apache-2.0
// Files of /proc and /sys.
#pragma once

#include <string>

namespace rondo {

/// Returns the text of a file of the kernel's; empty where it cannot be read.
[[nodiscard]] std::string read_kernel_file(const std::string &path);
/// Returns its first line, without the end of the line.
[[nodiscard]] std::string read_kernel_line(const std::string &path);

}  // namespace rondo
