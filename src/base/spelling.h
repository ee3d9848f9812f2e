// SPDX-License-Identifier: Apache-2.0
// These functions read and write sizes, times, counts and names as people spell them. All of Rondo uses them. Sizes are
// numbers of bytes with K, M or G (powers of 1,024). If a name is unknown, other functions suggest what was meant.
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

/// Returns the name of `list` ("ring, tree") that is nearest to `text`. The case of letters does not matter. Returns ""
/// if more than `letters_max` letters must be inserted, removed or changed.
[[nodiscard]] std::string nearest_name(std::string_view text, std::string_view list, size_t letters_max);

/// Returns a hint such as "; did you mean ring?", or "" if no name of `list` is near. One letter may be wrong; in a
/// long text, a third of the letters.
[[nodiscard]] std::string did_you_mean(std::string_view text, std::string_view list);

/// Returns the end of a message about an unknown name: the names of `list`, and did_you_mean().
[[nodiscard]] std::string known_are(std::string_view text, std::string_view list);

/// Returns the letters of `text` in lower case, without '-' and '_'.
[[nodiscard]] std::string letters_of(std::string_view text);

}  // namespace rondo
