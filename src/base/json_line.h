// SPDX-License-Identifier: Apache-2.0
// JSON objects for files that have one a line. Members keep their order. A line costs a few microseconds, because
// nlohmann's own lists of members, which would be converted once more, are not used.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace rondo {

using Json = nlohmann::ordered_json;

struct JsonMember {
  const char *name;
  Json value;
};

[[nodiscard]] inline Json json_object(std::initializer_list<JsonMember> members) {
  Json::object_t object;
  object.reserve(members.size());
  for (const JsonMember &member : members) object.emplace_back(member.name, member.value);
  return Json(std::move(object));
}

/// Returns the line in ASCII, without its end. Bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] inline std::string json_line(std::initializer_list<JsonMember> members) {
  return json_object(members).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace rondo
