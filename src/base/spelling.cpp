// SPDX-License-Identifier: Apache-2.0
#include "src/base/spelling.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <vector>

#include "src/base/arithmetic.h"

namespace rondo {
namespace {

constexpr size_t compared_bytes_max = 64;  // longer than every name; limits the time, which grows with both lengths

char lower(char letter) {
  return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
}

/// Returns how many letters must be inserted, removed or changed to turn one text into the other (Levenshtein).
size_t edit_distance(std::string_view one, std::string_view other) {
  std::vector<size_t> row(other.size() + 1);
  for (size_t column = 0; column < row.size(); ++column) row[column] = column;
  for (size_t line = 1; line <= one.size(); ++line) {
    size_t above_left = row[0];
    row[0] = line;
    for (size_t column = 1; column < row.size(); ++column) {
      const size_t above = row[column];
      const size_t changed = above_left + (lower(one[line - 1]) == lower(other[column - 1]) ? 0 : 1);
      row[column] = std::min({above + 1, row[column - 1] + 1, changed});
      above_left = above;
    }
  }
  return row.back();
}

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

std::string letters_of(std::string_view text) {
  std::string letters;
  for (const char each : text)
    if (each != '-' && each != '_') letters += lower(each);
  return letters;
}

std::string nearest_name(std::string_view text, std::string_view list, size_t letters_max) {
  std::string_view best;
  if (text.empty() || text.size() > compared_bytes_max) return {};
  size_t best_distance = letters_max + 1;
  while (!list.empty()) {
    const size_t end = std::min(list.find(", "), list.size());
    const std::string_view name = list.substr(0, end);
    const size_t distance = edit_distance(text, name);
    if (distance < best_distance) {
      best = name;
      best_distance = distance;
    }
    list.remove_prefix(std::min(end + 2, list.size()));
  }
  return std::string(best);
}

std::string did_you_mean(std::string_view text, std::string_view list) {
  const std::string meant = text.size() < 2 ? "" : nearest_name(text, list, std::max<size_t>(text.size() / 3, 1));
  return meant.empty() ? "" : "; did you mean " + meant + "?";
}

std::string known_are(std::string_view text, std::string_view list) {
  return "; known are: " + std::string(list) + did_you_mean(text, list);
}

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
