// SPDX-License-Identifier: Apache-2.0
// These functions read and write numbers of bytes with K, M or G (powers of 1,024). Other functions write times and
// counts. All of Rondo uses these functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rondo {

/// Parses a number of bytes: digits, an optional fraction, and an optional unit (K, KB or KiB, for instance). The case
/// does not matter. Returns nothing for other text, for a number of bytes that is not whole, or for more than 64 bits.
[[nodiscard]] std::optional<uint64_t> read_bytes(std::string_view text);

/// Returns the shortest exact form that read_bytes() reads back as `bytes`, such as "64", "4K", "1M" or "1G".
[[nodiscard]] std::string show_bytes(uint64_t bytes);

/// Returns a computed number of bytes as text with three digits: "1.75G", "1020K", "977K".
[[nodiscard]] std::string show_bytes_near(double bytes);

/// Returns a computed number of bytes as text with its unit and three digits: "1.75 GiB", "977 KiB", "12 B".
[[nodiscard]] std::string show_volume(double bytes);

/// Returns a time as text with its unit and three digits: "850 ns", "12.3 us", "4.5 ms", "75 s".
[[nodiscard]] std::string show_duration(double time_us);

/// Returns a count with its noun, such as "1 rank" or "3 processes". `what` is the singular.
[[nodiscard]] std::string counted(uint64_t count, std::string_view what);

}  // namespace rondo
