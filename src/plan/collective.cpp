// SPDX-License-Identifier: Apache-2.0
#include "src/plan/collective.h"

#include <algorithm>

#include "src/base/names.h"
#include "src/base/spelling.h"

namespace rondo {

bool is_collective(rondo_collective_t collective) {
  return rondo_collective_string(collective) != nullptr && traits_of(collective).carrier != Carrier::messages;
}

const char *scheduled_collective_string(rondo_collective_t collective) {
  const char *const name = rondo_collective_string(collective);
  return name != nullptr && has_schedule(collective) ? name : nullptr;
}

std::string collective_names(bool (*wanted)(const Collective &traits)) {
  std::string list;
  for (const Collective &each : collective_table)
    if (wanted(each)) list += (list.empty() ? "" : ", ") + std::string(each.name);
  return list;
}

std::string collective_spelling(std::string_view text) {
  const std::string letters = letters_of(text);
  if (letters == "bcast") return "broadcast";
  if (letters == "sendrecv") return letters;  // a pattern of `rondo perf`, not a collective
  const auto *const found =
      std::ranges::find(collective_table, letters, [](const Collective &each) { return letters_of(each.name); });
  return found == collective_table.end() ? std::string(text) : found->name;
}

Result<rondo_collective_t> parse_collective(std::string_view text) {
  return parse_name(collective_spelling(text), scheduled_collective_string, "collective");
}

}  // namespace rondo
