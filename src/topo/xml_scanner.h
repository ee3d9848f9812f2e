// SPDX-License-Identifier: Apache-2.0
// Scans the XML that hwloc writes: elements and attributes between double quotes, the five named entities, comments, a
// declaration and a document type. Text between elements is skipped.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

struct XmlAttribute {
  std::string_view name;
  std::string_view value;  ///< entities are still in it
};

struct XmlTag {
  std::string_view name;
  bool opens = false;
  bool closes = false;  ///< "<a/>" does both
  std::vector<XmlAttribute> attributes;

  /// Returns the value of an attribute, empty if it is missing.
  [[nodiscard]] std::string_view attribute(std::string_view wanted) const {
    for (const XmlAttribute &it : attributes)
      if (it.name == wanted) return it.value;
    return {};
  }
};

/// Goes over the text tag by tag; each call moves on, so the text's length bounds the calls.
class XmlScanner {
 public:
  explicit XmlScanner(std::string_view text) : rest_(text) {}

  /// Returns the next element's tag, or nothing at the end. Also nothing if the text is no XML; failed() is true then.
  [[nodiscard]] std::optional<XmlTag> next();
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  std::nullopt_t fail();
  bool skip_past(std::string_view mark);
  bool take(char wanted);
  void skip_space();
  std::string_view name();
  std::optional<XmlTag> tag();
  std::optional<XmlAttribute> attribute();

  std::string_view rest_;
  bool failed_ = false;
};

/// Replaces entities, e.g. returns "a < b" for "a &lt; b".
[[nodiscard]] std::string without_entities(std::string_view text);

}  // namespace rondo
