// SPDX-License-Identifier: Apache-2.0
// The collectives of rondo.h share these functions. Each collective checks its arguments. Then it runs the call, or
// keeps the call in the thread's group.
#pragma once

#include <memory>
#include <utility>

#include "src/api/boundary.h"
#include "src/api/group.h"
#include "src/api/lookup.h"
#include "src/api/validate.h"
#include "src/plan/collective.h"

namespace rondo {

[[nodiscard]] inline Signature signature_of(rondo_collective_t collective, rondo_type_t type, rondo_op_t op,
                                            size_t count, uint32_t root = 0) {
  return {static_cast<uint32_t>(collective), static_cast<uint32_t>(type), static_cast<uint32_t>(op), root, count, 0};
}

/// Checks `op`, the operation of a call that reduces. The call's type must be valid. If rondo_op_create_premul_sum()
/// made `op` for `comm`, writes its factor into the call.
[[nodiscard]] inline Result<void> resolve_op(const Communicator &comm, rondo_op_t op, Call &call) {
  if (op < RONDO_OP_DYNAMIC) return check_op(op);
  RONDO_TRY_ASSIGN(CreatedOp made, process().created_ops.find(op, comm));
  const auto type = static_cast<rondo_type_t>(call.signature.type);
  if (made.type != type) return refused_type(op, made.type, type);
  call.signature.op = premul_sum_op;
  call.details = std::move(made.factor);
  return {};
}

/// Runs check_buffer(), and checks that the memory is on the communicator's device, if the communicator has a device.
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

/// Checks the buffers of a call whose other arguments are valid, and notes whether the call is in place. The table of
/// collectives says which buffers this rank uses. The function sets every other buffer to null.
[[nodiscard]] inline Result<void> check_buffers(const Communicator &comm, const BlockLayout &layout, Call &call) {
  const Collective &traits = traits_of(static_cast<rondo_collective_t>(call.signature.collective));
  const bool part_is_send = traits.source == BufferLayout::own_block;
  const bool part_is_recv = traits.target == BufferLayout::own_block;
  const bool sends = has_source(traits, comm.rank(), call.signature.root);
  const bool receives = has_target(traits, comm.rank(), call.signature.root);
  if (!sends) call.send = nullptr;
  if (!receives) call.recv = nullptr;
  if (sends) RONDO_TRY(check_buffer(comm, "send", call.send, part_is_send ? layout.own_bytes : layout.end_bytes));
  if (receives) RONDO_TRY(check_buffer(comm, "recv", call.recv, part_is_recv ? layout.own_bytes : layout.end_bytes));
  if (!sends || !receives) return {};
  const bool has_part = part_is_send || part_is_recv;
  const void *const whole = part_is_send ? call.recv : call.send;
  const void *const other = part_is_send ? call.send : call.recv;
  const void *const own = has_part ? advance_bytes(whole, layout.own_offset_bytes) : whole;
  RONDO_TRY(check_overlap(whole, layout.end_bytes, other, has_part ? layout.own_bytes : layout.end_bytes, own));
  call.in_place = other == own;
  return {};
}

/// Checks the buffers, and submits the call. `call` is a reference, because a copy would take time.
[[nodiscard]] inline Result<void> submit_checked(const Target &target, Call &&call, const BlockLayout &layout,
                                                 rondo_stream_t stream) {
  RONDO_TRY(check_buffers(*target.comm, layout, call));
  return submit(target, call, stream);
}

/// Runs `body` as the body of a collective. It passes the communicator to `body`.
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
