// SPDX-License-Identifier: Apache-2.0
// This file implements rondo_comm_split(): it validates arguments and translates results.
#include <string>

#include "src/api/boundary.h"
#include "src/api/group.h"
#include "src/api/lookup.h"
#include "src/core/split.h"

using namespace rondo;

extern "C" {

rondo_status_t rondo_comm_split(rondo_comm_t handle, int color, int key, const rondo_config_t *config,
                                rondo_comm_t *part) noexcept {
  return at_boundary(handle, [&] {
    return group::keep_refusal([&]() -> Result<void> {
      RONDO_TRY_ASSIGN(auto comm, communicator_of(handle));
      if (part == nullptr) return invalid_argument("part is NULL");
      if (color < RONDO_NO_COLOR)
        return invalid_argument("color is " + std::to_string(color) +
                                "; it must be 0 or more, or RONDO_NO_COLOR (-1) for no communicator");
      if (group::is_open())
        return Error{RONDO_ERROR_INVALID_USAGE,
                     "rondo_comm_split cannot be part of a group; call it after rondo_group_end"};
      RONDO_TRY_ASSIGN(*part, make(begin_split(std::move(comm), color, key, config)));
      return {};
    });
  });
}

}  // extern "C"
