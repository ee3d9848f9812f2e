// SPDX-License-Identifier: Apache-2.0
// How a number of bytes is shown, wherever one is: with K, M or G (powers of 1,024), as parse_bytes() reads it.
#pragma once

#include <cstdint>
#include <string>

namespace rondo {

/// "64", "4K", "1M", "1G": exact, and the shortest form that parse_bytes() reads back as `bytes`.
[[nodiscard]] std::string show_bytes(uint64_t bytes);

/// The same of a computed number, to three digits: "1.75G", "1020K", "977K".
[[nodiscard]] std::string show_bytes_near(double bytes);

}  // namespace rondo
