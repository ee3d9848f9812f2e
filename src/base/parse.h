// SPDX-License-Identifier: Apache-2.0
// Numbers, sizes and durations as people write them, from the environment and the command line. The text may be
// anything; what is refused is answered with what would be accepted.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "src/base/result.h"
#include "src/base/size.h"

namespace rondo {

/// `text` between quotes for a message: one line whatever it holds, cut off when it is long.
[[nodiscard]] std::string in_quotes(std::string_view text);

/// Compares two texts without regard to the case of their ASCII letters, which has no meaning in a value.
[[nodiscard]] bool equal_in_any_case(std::string_view one, std::string_view other);

/// Parses a decimal number in [min, max].
[[nodiscard]] Result<uint64_t> parse_number(std::string_view text, uint64_t min, uint64_t max);

/// Parses a number of bytes in [min, max], as read_bytes() does.
[[nodiscard]] Result<uint64_t> parse_bytes(std::string_view text, uint64_t min, uint64_t max);

/// Parses seconds in [0.001, seconds_max], with decimal fractions allowed. The result is in nanoseconds.
[[nodiscard]] Result<uint64_t> parse_seconds(std::string_view text);
inline constexpr uint64_t seconds_max = 4'000'000;  // 46 days; fits rondo_config_t's milliseconds

/// Returns e.g. "300" or "0.25": seconds, as parse_seconds() reads them.
[[nodiscard]] std::string show_seconds(uint64_t duration_ns);

}  // namespace rondo
