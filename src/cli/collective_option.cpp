// SPDX-License-Identifier: Apache-2.0
#include "src/cli/collective_option.h"

#include "src/base/names.h"

namespace rondo::cli {
namespace {

const char *name_of(rondo_collective_t collective) {
  return is_collective(collective) ? rondo_collective_string(collective) : nullptr;
}

}  // namespace

std::string known_collectives() { return known_names(name_of); }

Result<rondo_collective_t> read_collective(std::string_view text) {
  return parse_name(collective_spelling(text), name_of, "collective");
}

}  // namespace rondo::cli
