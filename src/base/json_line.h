// SPDX-License-Identifier: Apache-2.0
// This file makes JSON objects for files with one object in each line. Members keep their order. A line costs a few
// microseconds. nlohmann's own lists of members would take longer, because nlohmann converts them once more.
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

/// Returns the object as a line of ASCII without a line end. Bytes that are not UTF-8 become U+FFFD.
[[nodiscard]] inline std::string json_line(std::initializer_list<JsonMember> members) {
  return json_object(members).dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace rondo
