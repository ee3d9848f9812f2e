// SPDX-License-Identifier: Apache-2.0
// The functions of rondo.h that are collectives share this. Each checks its arguments, and then runs the call or keeps
// it in the thread's group.
#pragma once

#include <memory>
#include <utility>

#include "src/api/boundary.h"
#include "src/api/group.h"
#include "src/api/lookup.h"
#include "src/api/validate.h"

namespace rondo {

[[nodiscard]] inline Signature signature_of(rondo_collective_t collective, rondo_type_t type, rondo_op_t op,
                                            size_t count, uint32_t root = 0) {
  return {static_cast<uint32_t>(collective), static_cast<uint32_t>(type), static_cast<uint32_t>(op), root, count, 0};
}

/// Runs check_buffer(), and checks that the memory is of the communicator's device, if it has one.
[[nodiscard]] inline Result<void> check_buffer(const Communicator &comm, const char *name, const void *buffer,
                                               size_t bytes) {
  RONDO_TRY(rondo::check_buffer(name, buffer, bytes));
  return comm.check_buffer(name, buffer, bytes);
}

/// The communicator of a call.
struct Target {
  rondo_comm_t handle = nullptr;
  std::shared_ptr<Communicator> comm;
};

[[nodiscard]] inline Result<void> submit(const Target &target, const Call &call, rondo_stream_t stream) {
  if (group::is_open()) return group::keep(target.handle, target.comm, call, stream);
  if (stream == nullptr || !decode_handle(stream)) return target.comm->submit(call, {nullptr, stream});
  RONDO_TRY_ASSIGN(const auto queue, stream_of(stream));
  return target.comm->submit(call, {queue.get(), nullptr});
}

/// Runs `body`, which takes the communicator, as the body of a collective.
template <class Body>
[[nodiscard]] rondo_status_t run_collective(rondo_comm_t handle, const Body &body) noexcept {
  return at_boundary(handle, [&] {
    return group::keep_refusal([&]() -> Result<void> {
      RONDO_TRY_ASSIGN(auto comm, communicator_of(handle));
      return body(Target{handle, std::move(comm)});
    });
  });
}

}  // namespace rondo
