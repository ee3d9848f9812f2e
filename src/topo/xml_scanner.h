// SPDX-License-Identifier: Apache-2.0
// This class scans the XML that hwloc writes: elements, attributes in double quotes, the five named entities, comments,
// a declaration and a document type. It skips text between elements.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rondo {

struct XmlAttribute {
  std::string_view name;
  std::string_view value;  ///< text with its entities
};

struct XmlTag {
  std::string_view name;
  bool opens = false;
  bool closes = false;  ///< true for an end tag; "<a/>" opens and closes
  std::vector<XmlAttribute> attributes;

  /// Returns the value of an attribute, or "" if it is missing.
  [[nodiscard]] std::string_view attribute(std::string_view wanted) const {
    for (const XmlAttribute &it : attributes)
      if (it.name == wanted) return it.value;
    return {};
  }
};

/// Scans the text tag by tag. Each call moves forward, so the text's length limits the number of calls.
class XmlScanner {
 public:
  explicit XmlScanner(std::string_view text) : rest_(text) {}

  /// Returns the next tag. Returns nothing at the end, or if the text is no XML. In the second case, failed() is true.
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

/// Replaces entities. For "a &lt; b" it returns "a < b".
[[nodiscard]] std::string without_entities(std::string_view text);

}  // namespace rondo
