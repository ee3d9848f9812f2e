// SPDX-License-Identifier: Apache-2.0
// This file implements rondo_comm_suspend(), rondo_comm_resume() and rondo_comm_device_memory(): it validates arguments
// and translates results.
#include <string>

#include "src/api/boundary.h"
#include "src/api/group.h"
#include "src/api/lookup.h"
#include "src/core/suspend.h"

using namespace rondo;

extern "C" {

rondo_status_t rondo_comm_suspend(rondo_comm_t handle, unsigned flags) noexcept {
  return at_boundary(handle, [&] {
    return group::keep_refusal([&]() -> Result<void> {
      RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
      RONDO_TRY(group::check_outside("rondo_comm_suspend"));
      if (flags != RONDO_SUSPEND_MEMORY)
        return invalid_argument("flags are " + std::to_string(flags) + "; they must be RONDO_SUSPEND_MEMORY (1)");
      return suspend(comm);
    });
  });
}

rondo_status_t rondo_comm_resume(rondo_comm_t handle) noexcept {
  return at_boundary(handle, [&] {
    return group::keep_refusal([&]() -> Result<void> {
      RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
      RONDO_TRY(group::check_outside("rondo_comm_resume"));
      return resume(comm);
    });
  });
}

rondo_status_t rondo_comm_device_memory(rondo_comm_t handle, uint64_t *suspendable_bytes, uint64_t *persistent_bytes,
                                        int *suspended) noexcept {
  return at_boundary(handle, [&]() -> Result<void> {
    RONDO_TRY_ASSIGN(const auto comm, communicator_of(handle));
    const DeviceBytes bytes = comm->executor().device_bytes();
    if (suspendable_bytes != nullptr) *suspendable_bytes = bytes.suspendable;
    if (persistent_bytes != nullptr) *persistent_bytes = bytes.persistent;
    if (suspended != nullptr) *suspended = comm->is_suspended() ? 1 : 0;
    return {};
  });
}

}  // extern "C"
