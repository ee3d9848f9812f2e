// SPDX-License-Identifier: Apache-2.0
// How a number of bytes is written, wherever one is: with K, M or G (powers of 1,024).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rondo {

/// Reads a number of bytes: digits, perhaps a fraction, and perhaps K, M or G, also as KB or KiB, in any case. Returns
/// nothing if the text is anything else, if it is not a whole number of bytes, or if it exceeds 64 bits.
[[nodiscard]] std::optional<uint64_t> read_bytes(std::string_view text);

/// "64", "4K", "1M", "1G": exact, and the shortest form that read_bytes() reads back as `bytes`.
[[nodiscard]] std::string show_bytes(uint64_t bytes);

/// The same of a computed number, to three digits: "1.75G", "1020K", "977K".
[[nodiscard]] std::string show_bytes_near(double bytes);

}  // namespace rondo
