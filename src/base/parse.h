// SPDX-License-Identifier: Apache-2.0
// These functions parse numbers, sizes and durations as people write them in the environment and on the command line.
// The text may be anything. If it is refused, the error says what would be accepted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/result.h"
#include "src/base/spelling.h"

namespace rondo {

/// Returns `text` in quotes, for a message. The result is one line, and a long text is cut off.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// Compares two texts, and ignores the case of ASCII letters, which has no meaning in a value.
[[nodiscard]] bool equal_in_any_case(std::string_view one, std::string_view other);

/// Parses a decimal number in [min, max].
[[nodiscard]] Result<uint64_t> parse_number(std::string_view text, uint64_t min, uint64_t max);

/// Parses a number of bytes in [min, max], as read_bytes() does.
[[nodiscard]] Result<uint64_t> parse_bytes(std::string_view text, uint64_t min, uint64_t max);

/// Parses seconds in [0.001, seconds_max], with decimal fractions allowed. The result is in nanoseconds.
[[nodiscard]] Result<uint64_t> parse_seconds(std::string_view text);
inline constexpr uint64_t seconds_max = 4'000'000;  // 46 days, which fit into the milliseconds of rondo_config_t

/// Returns a duration in seconds that parse_seconds() can read, such as "300" or "0.25".
[[nodiscard]] std::string show_seconds(uint64_t duration_ns);

}  // namespace rondo
