// SPDX-License-Identifier: Apache-2.0
// This file implements rondo_comm_shrink(), rondo_comm_revoke() and rondo_comm_flush(): it validates arguments and
// translates results.
#include <span>
#include <string>

#include "src/api/boundary.h"
#include "src/api/group.h"
#include "src/api/lookup.h"
#include "src/core/shrink.h"

using namespace rondo;

namespace {

Result<rondo_comm_t> shrink(rondo_comm_t handle, std::span<const int> excluded, unsigned flags,
                            const rondo_config_t *config) {
  RONDO_TRY_ASSIGN(auto comm, communicator_of(handle));
  if ((flags & ~unsigned{RONDO_SHRINK_ABORT}) != 0)
    return invalid_argument("unknown flags " + std::to_string(flags) + "; known is RONDO_SHRINK_ABORT (1)");
  if (group::is_open())
    return Error{RONDO_ERROR_INVALID_USAGE, "rondo_comm_shrink cannot be part of a group; call it after "
                                            "rondo_group_end"};
  return make(begin_shrink(std::move(comm), excluded, (flags & RONDO_SHRINK_ABORT) != 0, config));
}

}  // namespace

extern "C" {

rondo_status_t rondo_comm_shrink(rondo_comm_t handle, const int *excluded, int excluded_count, unsigned flags,
                                 const rondo_config_t *config, rondo_comm_t *rest) noexcept {
  return at_boundary(handle, [&] {
    return group::keep_refusal([&]() -> Result<void> {
      if (rest == nullptr) return invalid_argument("rest is NULL");
      if (excluded_count < 0) return invalid_argument("excluded_count is " + std::to_string(excluded_count));
      if (excluded == nullptr && excluded_count != 0) return invalid_argument("excluded is NULL");
      RONDO_TRY_ASSIGN(*rest, shrink(handle, {excluded, static_cast<size_t>(excluded_count)}, flags, config));
      return {};
    });
  });
}

rondo_status_t rondo_comm_revoke(rondo_comm_t handle) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    comm->revoke();
    return {};
  });
}

rondo_status_t rondo_comm_flush(rondo_comm_t handle) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    return comm->flush();
  });
}

}  // extern "C"
