// SPDX-License-Identifier: Apache-2.0
// Formats the lines that `rondo info` prints for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::cli {

/// Appends "  name                    value\n".
void add_line(std::string &out, std::string name, const std::string &value);

/// Returns text such as "0-3,8,10-11". The numbers must ascend.
[[nodiscard]] std::string ranges(const std::vector<uint32_t> &numbers);

}  // namespace rondo::cli
