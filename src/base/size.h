// SPDX-License-Identifier: Apache-2.0
// Reads and writes numbers of bytes, everywhere alike, with K, M or G (powers of 1,024).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rondo {

/// Parses a number of bytes: digits, an optional fraction, and K, M or G, also as KB or KiB, in any case. Returns
/// nothing for other text, for a number that is not whole, or for more than 64 bits.
[[nodiscard]] std::optional<uint64_t> read_bytes(std::string_view text);

/// Returns e.g. "64", "4K", "1M" or "1G": exact, and the shortest form that read_bytes() reads back as `bytes`.
[[nodiscard]] std::string show_bytes(uint64_t bytes);

/// Returns a computed number of bytes to three digits: "1.75G", "1020K", "977K".
[[nodiscard]] std::string show_bytes_near(double bytes);

}  // namespace rondo
