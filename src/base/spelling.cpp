// SPDX-License-Identifier: Apache-2.0
#include "src/base/spelling.h"

#include <algorithm>
#include <vector>

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

}  // namespace rondo
