// SPDX-License-Identifier: Apache-2.0
// Reads and writes numbers of bytes, everywhere alike, with K, M or G (powers of 1,024). Writes times and counts.
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

/// Returns a computed number of bytes with its unit, to three digits: "1.75 GiB", "977 KiB", "12 B".
[[nodiscard]] std::string show_volume(double bytes);

/// Returns a time with its unit, to three digits: "850 ns", "12.3 us", "4.5 ms", "75 s".
[[nodiscard]] std::string show_duration(double time_us);

/// Returns e.g. "1 rank" or "3 processes". `what` is one of them.
[[nodiscard]] std::string counted(uint64_t count, std::string_view what);

}  // namespace rondo
