// SPDX-License-Identifier: Apache-2.0
#include "src/base/size.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "src/base/arithmetic.h"

namespace rondo {
namespace {

struct Unit {
  const char *letter;
  unsigned shift;
};
constexpr std::array units{Unit{"G", 30}, Unit{"M", 20}, Unit{"K", 10}};
constexpr size_t decimals_max = 9;

std::string three_digits(double value) {
  constexpr double three_digits_end = 999.5;  // from here on %.3g would print 1.02e+03K in place of 1020K
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), value < three_digits_end ? "%.3g" : "%.0f", value);
  return text.data();
}

/// Removes `letter` of any case from the end of `text`. Returns whether the text ended with `letter`.
bool take_letter(std::string_view &text, char letter) {
  if (text.empty() || (text.back() & ~0x20) != letter) return false;
  text.remove_suffix(1);
  return true;
}

/// Removes a unit from the end of `text`: K, KB, KiB and the like, or B. Returns the power of two that it stands for.
std::optional<unsigned> take_unit(std::string_view &text) {
  const bool binary = take_letter(text, 'B') && take_letter(text, 'I');
  for (const Unit &unit : units)
    if (take_letter(text, *unit.letter)) return unit.shift;
  return binary ? std::nullopt : std::optional(0u);
}

/// Returns the value of `text` if it consists of digits alone.
std::optional<uint64_t> whole_number(std::string_view text) {
  uint64_t value = 0;
  const char *const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, value);
  return failure == std::errc{} && rest == end ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<uint64_t> read_bytes(std::string_view text) {
  const std::optional<unsigned> shift = take_unit(text);
  const size_t point = std::min(text.find('.'), text.size());
  const auto whole = whole_number(text.substr(0, point));
  if (!shift || !whole) return std::nullopt;
  const auto bytes = checked_mul(*whole, uint64_t{1} << *shift);
  if (!bytes || point == text.size()) return bytes;
  const std::string_view decimals = text.substr(point + 1);
  const auto fraction = decimals.size() <= decimals_max ? whole_number(decimals) : std::nullopt;
  if (!fraction) return std::nullopt;
  uint64_t one = 1;
  for (size_t at = 0; at < decimals.size(); ++at) one *= 10;
  const uint64_t part = *fraction << *shift;  // no overflow: below 2^30 * 2^30
  if (part % one != 0) return std::nullopt;
  return checked_add(*bytes, part / one);
}

std::string show_bytes(uint64_t bytes) {
  for (const Unit &unit : units)
    if (const uint64_t one = uint64_t{1} << unit.shift; bytes >= one && bytes % one == 0)
      return std::to_string(bytes >> unit.shift) + unit.letter;
  return std::to_string(bytes);
}

std::string show_bytes_near(double bytes) {
  const char *letter = "";
  double value = bytes;
  for (const Unit &unit : units)
    if (const auto one = static_cast<double>(uint64_t{1} << unit.shift); bytes >= one) {
      value = bytes / one;
      letter = unit.letter;
      break;
    }
  return three_digits(value) + letter;
}

std::string show_volume(double bytes) {
  constexpr double tera = 1024.0 * 1024 * 1024 * 1024;
  if (bytes >= tera) return three_digits(bytes / tera) + " TiB";
  std::string text = show_bytes_near(bytes);
  const char letter = text.back();
  if (letter >= '0' && letter <= '9') return text + " B";
  text.pop_back();
  return text + " " + letter + "iB";
}

std::string show_duration(double time_us) {
  constexpr double next = 0.9995;  // from here to 1 unit, a value would print as 1000 of the smaller unit
  if (time_us < next) return three_digits(time_us * 1e3) + " ns";
  if (time_us < next * 1e3) return three_digits(time_us) + " us";
  if (time_us < next * 1e6) return three_digits(time_us / 1e3) + " ms";
  return three_digits(time_us / 1e6) + " s";
}

std::string counted(uint64_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : what.ends_with("ss") ? "es" : "s");
}

}  // namespace rondo
