// SPDX-License-Identifier: Apache-2.0
// These functions return and parse names of types, operations, algorithms and protocols. One returns the version.
#pragma once

#include <string>
#include <string_view>

#include "src/base/parse.h"
#include "src/base/result.h"
#include "src/base/spelling.h"

namespace rondo {

/// Returns the library's version, such as "0.1.0".
[[nodiscard]] inline std::string version_text() {
  return std::to_string(RONDO_VERSION_MAJOR) + "." + std::to_string(RONDO_VERSION_MINOR) + "." +
         std::to_string(RONDO_VERSION_PATCH);
}

/// A bound above the number of values of any named enumeration. Some values below this bound may have no name.
inline constexpr int named_values_max = 16;

/// Returns all names of an enumeration in order, as "int8, uint8, ...". `name` is one of the rondo_*_string functions.
template <class Enum>
[[nodiscard]] std::string known_names(const char *(*name)(Enum)) {
  std::string list;
  for (int value = 0; value < named_values_max; ++value) {
    const char *const text = name(static_cast<Enum>(value));
    if (text != nullptr) list += (list.empty() ? "" : ", ") + std::string(text);
  }
  return list;
}

/// Returns the enumerator called `text`, and ignores the case. RONDO_ERROR_INVALID_ARGUMENT lists the known names.
template <class Enum>
[[nodiscard]] Result<Enum> parse_name(std::string_view text, const char *(*name)(Enum), std::string_view what) {
  for (int value = 0; value < named_values_max; ++value) {
    const char *const known = name(static_cast<Enum>(value));
    if (known != nullptr && equal_in_any_case(text, known)) return static_cast<Enum>(value);
  }
  return invalid_argument("unknown " + std::string(what) + " '" + std::string(text) + "'" +
                          known_are(text, known_names(name)));
}

}  // namespace rondo
