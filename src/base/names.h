// SPDX-License-Identifier: Apache-2.0
// Names of types, operations, collectives, algorithms and protocols, and the parsing of them; that of the version.
#pragma once

#include <string>
#include <string_view>

#include "src/base/parse.h"
#include "src/base/result.h"
#include "src/base/spelling.h"

namespace rondo {

/// Returns the library's version, such as "0.1.0".
[[nodiscard]] std::string version_text();

/// Returns the name of a collective that runs by a schedule, or null for all other values.
[[nodiscard]] const char *planned_collective_string(rondo_collective_t collective);

/// Returns whether the value is known and no end of a message. Any number.
[[nodiscard]] bool is_collective(rondo_collective_t collective);

/// Returns every name of an enumeration in order, as "int8, uint8, ...". `name` is one of the rondo_*_string functions.
template <class Enum>
[[nodiscard]] std::string known_names(const char *(*name)(Enum)) {
  std::string list;
  for (int value = 0; const char *text = name(static_cast<Enum>(value)); ++value) {
    if (value != 0) list += ", ";
    list += text;
  }
  return list;
}

/// Returns the enumerator called `text`, in any case of letters. RONDO_ERROR_INVALID_ARGUMENT lists the known names.
template <class Enum>
[[nodiscard]] Result<Enum> parse_name(std::string_view text, const char *(*name)(Enum), std::string_view what) {
  for (int value = 0; const char *known = name(static_cast<Enum>(value)); ++value)
    if (equal_in_any_case(text, known)) return static_cast<Enum>(value);
  return invalid_argument("unknown " + std::string(what) + " '" + std::string(text) + "'" +
                          known_are(text, known_names(name)));
}

/// Returns the collective with a plan that is called `text`, as collective_spelling() reads it.
[[nodiscard]] Result<rondo_collective_t> parse_collective(std::string_view text);

}  // namespace rondo
