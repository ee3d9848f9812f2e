// SPDX-License-Identifier: Apache-2.0
#include "src/base/parse.h"

#include <algorithm>
#include <charconv>
#include <optional>

namespace rondo {
namespace {

constexpr uint64_t duration_min_ns = 1'000'000;
constexpr uint64_t ns_per_second = 1'000'000'000;

/// Parses `text` if all of it is digits. from_chars() alone would stop at the first other character.
std::optional<uint64_t> digits(std::string_view text) {
  uint64_t value = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failure != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr size_t length_max = 64;
  std::string out = "'";
  for (const char character : text.substr(0, length_max)) {
    const bool printable = character >= ' ' && character <= '~';
    out += printable ? character : '?';
  }
  if (text.size() > length_max) out += "...";
  return out + "'";
}

bool equal_in_any_case(std::string_view one, std::string_view other) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                    [&](char a, char b) { return lower(a) == lower(b); });
}

Result<uint64_t> parse_number(std::string_view text, uint64_t min, uint64_t max) {
  const auto value = digits(text);
  if (value && *value >= min && *value <= max) return *value;
  return invalid_argument(in_quotes(text) + " is not a number from " + std::to_string(min) + " to " +
                          std::to_string(max));
}

Result<uint64_t> parse_bytes(std::string_view text, uint64_t min, uint64_t max) {
  const auto value = read_bytes(text);
  if (value && *value >= min && *value <= max) return *value;
  return invalid_argument(in_quotes(text) + " is not a size from " + show_bytes(min) + " to " + show_bytes(max) +
                          " bytes, as in 4096, 64K, 1M or 1G");
}

Result<uint64_t> parse_seconds(std::string_view text) {
  const size_t point = text.find('.');
  const std::string_view fraction = point == text.npos ? "0" : text.substr(point + 1);
  const auto whole = digits(text.substr(0, point));
  // Nine decimals are nanoseconds. Further decimals are cut off, but they must be digits, too.
  std::string nine(fraction.substr(0, 9));
  nine.resize(9, '0');
  const bool rest_is_digits = fraction.find_first_not_of("0123456789") == fraction.npos && !fraction.empty();
  const auto part = rest_is_digits ? digits(nine) : std::nullopt;
  if (whole && part && *whole <= seconds_max) {
    const uint64_t duration_ns = *whole * ns_per_second + *part;
    if (duration_ns >= duration_min_ns && duration_ns <= seconds_max * ns_per_second) return duration_ns;
  }
  return invalid_argument(in_quotes(text) + " is not a time from 0.001 to " + std::to_string(seconds_max) +
                          " seconds, as in 30 or 0.5");
}

std::string show_seconds(uint64_t duration_ns) {
  std::string fraction = std::to_string(duration_ns % ns_per_second);
  fraction.insert(0, 9 - fraction.size(), '0');
  fraction.erase(fraction.find_last_not_of('0') + 1);
  return std::to_string(duration_ns / ns_per_second) + (fraction.empty() ? "" : "." + fraction);
}

}  // namespace rondo
