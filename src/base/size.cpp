// SPDX-License-Identifier: Apache-2.0
#include "src/base/size.h"

#include <array>
#include <charconv>
#include <cstdio>

#include "src/base/checked.h"

namespace rondo {
namespace {

struct Unit {
  const char *letter;
  unsigned shift;
};
constexpr std::array units{Unit{"G", 30}, Unit{"M", 20}, Unit{"K", 10}};

}  // namespace

std::optional<uint64_t> read_bytes(std::string_view text) {
  uint64_t number = 0;
  const char *const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, number);
  if (failure != std::errc{}) return std::nullopt;
  if (rest == end) return number;
  for (const Unit &unit : units)
    if (rest + 1 == end && (*rest & ~0x20) == *unit.letter) return checked_mul(number, uint64_t{1} << unit.shift);
  return std::nullopt;
}

std::string show_bytes(uint64_t bytes) {
  for (const Unit &unit : units)
    if (const uint64_t one = uint64_t{1} << unit.shift; bytes >= one && bytes % one == 0)
      return std::to_string(bytes >> unit.shift) + unit.letter;
  return std::to_string(bytes);
}

std::string show_bytes_near(double bytes) {
  constexpr double three_digits_end = 999.5;  // from here on %.3g would write an exponent: 1020K, not 1.02e+03K
  const char *letter = "";
  double value = bytes;
  for (const Unit &unit : units)
    if (const auto one = static_cast<double>(uint64_t{1} << unit.shift); bytes >= one) {
      value = bytes / one;
      letter = unit.letter;
      break;
    }
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), value < three_digits_end ? "%.3g" : "%.0f", value);
  return std::string(text.data()) + letter;
}

}  // namespace rondo
