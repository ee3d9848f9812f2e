// SPDX-License-Identifier: Apache-2.0
#include "src/topo/xml_scanner.h"

#include <array>
#include <utility>

namespace rondo {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == ':';
}

}  // namespace

std::optional<XmlTag> XmlScanner::next() {
  while (skip_past("<")) {
    if (rest_.starts_with("?")) {
      if (!skip_past("?>")) return fail();
    } else if (rest_.starts_with("!--")) {
      if (!skip_past("-->")) return fail();
    } else if (rest_.starts_with("!")) {
      if (!skip_past(">")) return fail();
    } else {
      return tag();
    }
  }
  return std::nullopt;
}

std::nullopt_t XmlScanner::fail() {
  failed_ = true;
  rest_ = {};
  return std::nullopt;
}

bool XmlScanner::skip_past(std::string_view mark) {
  const size_t at = rest_.find(mark);
  if (at == rest_.npos) return false;
  rest_.remove_prefix(at + mark.size());
  return true;
}

bool XmlScanner::take(char wanted) {
  if (rest_.empty() || rest_.front() != wanted) return false;
  rest_.remove_prefix(1);
  return true;
}

void XmlScanner::skip_space() {
  while (!rest_.empty() && is_space(rest_.front())) rest_.remove_prefix(1);
}

std::string_view XmlScanner::name() {
  size_t length = 0;
  while (length < rest_.size() && is_name(rest_[length])) ++length;
  const std::string_view found = rest_.substr(0, length);
  rest_.remove_prefix(length);
  return found;
}

std::optional<XmlTag> XmlScanner::tag() {
  constexpr size_t attribute_count_max = 64;
  XmlTag tag;
  tag.closes = take('/');
  tag.opens = !tag.closes;
  tag.name = name();
  if (tag.name.empty()) return fail();
  for (size_t count = 0; count <= attribute_count_max; ++count) {
    skip_space();
    if (take('>')) return tag;
    if (take('/')) {
      tag.closes = true;
      if (!take('>')) return fail();
      return tag;
    }
    const auto found = attribute();
    if (!found) return fail();
    tag.attributes.push_back(*found);
  }
  return fail();
}

std::optional<XmlAttribute> XmlScanner::attribute() {
  XmlAttribute found;
  found.name = name();
  skip_space();
  if (found.name.empty() || !take('=')) return std::nullopt;
  skip_space();
  if (!take('"')) return std::nullopt;
  const size_t end = rest_.find('"');
  if (end == rest_.npos || rest_.substr(0, end).find('<') != rest_.npos) return std::nullopt;
  found.value = rest_.substr(0, end);
  rest_.remove_prefix(end + 1);
  return found;
}

std::string without_entities(std::string_view text) {
  static constexpr std::array<std::pair<std::string_view, char>, 5> entities{
      {{"&quot;", '"'}, {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&apos;", '\''}}};
  std::string out;
  while (!text.empty()) {
    char character = text.front();
    size_t length = 1;
    for (const auto &[name, meaning] : entities)
      if (text.starts_with(name)) {
        character = meaning;
        length = name.size();
      }
    out += character;
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace rondo
