// SPDX-License-Identifier: Apache-2.0
#include "src/console/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

namespace rondo::console {
namespace {

constexpr size_t columns_min = 40, columns_max = 10'000, indent_step = 4;

/// Appends `line` in pieces of at most `columns` columns.
void append_fitted(std::string_view line, size_t columns, std::string &out) {
  const std::string_view mark = line.starts_with('#') ? "#" : "";
  const size_t spaces = std::min(line.find_first_not_of(' ', mark.size()), line.size()) - mark.size();
  const std::string begin = std::string(mark) + std::string(std::min(spaces + indent_step, columns / 2), ' ');
  size_t first = mark.size() + spaces;  // where the words of this piece begin
  std::string piece(line.substr(0, first));
  while (piece.size() + line.size() - first > columns) {
    const std::string_view rest = line.substr(first);
    size_t end = rest.rfind(' ', columns - piece.size());
    if (end == std::string_view::npos || end == 0) end = rest.find(' ');  // the first word is longer than the line
    if (end == std::string_view::npos) break;
    const std::string_view words = rest.substr(0, end);
    out += piece;
    out += words.substr(0, words.find_last_not_of(' ') + 1);
    out += '\n';
    piece = begin;
    first += std::min(rest.find_first_not_of(' ', end), rest.size());
  }
  out += piece;
  out += line.substr(first);
}

}  // namespace

size_t terminal_columns(std::FILE *stream) {
  if (::isatty(::fileno(stream)) == 0) return 0;
  size_t columns = 0;
  if (const char *text = std::getenv("COLUMNS"); text != nullptr) {
    const std::string_view digits = text;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), columns);
    if (error != std::errc{} || end != digits.data() + digits.size()) columns = 0;
  }
  winsize size{};
  if (columns == 0 && ::ioctl(::fileno(stream), TIOCGWINSZ, &size) == 0) columns = size.ws_col;
  return columns == 0 ? 0 : std::clamp(columns, columns_min, columns_max);
}

std::string fit_lines(std::string_view text, size_t columns) {
  if (columns == 0) return std::string(text);
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    append_fitted(text.substr(0, end), columns, out);
    if (end < text.size()) out += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::string fitted(std::string_view text, std::FILE *stream) { return fit_lines(text, terminal_columns(stream)); }

}  // namespace rondo::console
