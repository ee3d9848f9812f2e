// SPDX-License-Identifier: Apache-2.0
// JSON objects for files that have one a line: members keep their order, and a line costs a few microseconds, since
// nlohmann's own lists of members would be converted once more.
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

/// In ASCII, without the end of the line. Bytes that are no UTF-8 become U+FFFD.
[[nodiscard]] inline std::string json_line(std::initializer_list<JsonMember> members) {
  return json_object(members).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace rondo
