// SPDX-License-Identifier: Apache-2.0
// This file has the collectives of rondo.h that have a schedule. Each function checks its arguments. Then it runs the
// call, or keeps the call in the thread's group.
#include "src/api/run_collective.h"

using namespace rondo;

namespace {

/// Describes a vector that is not divided into blocks.
BlockLayout whole(size_t count, size_t bytes) {
  return {.total_count = count, .end_bytes = bytes};
}

/// Submits a call whose blocks have the sizes that `layout` says.
Result<void> submit_blocks(const Target &target, Call &&call, const BlockLayout &layout, rondo_stream_t stream) {
  call.signature.counts_hash = layout.hash;
  return submit_checked(target, std::move(call), layout, stream);
}

}  // namespace

extern "C" {

rondo_status_t rondo_all_reduce(const void *send, void *recv, size_t count, rondo_type_t type, rondo_op_t op,
                                rondo_comm_t handle, rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) -> Result<void> {
    RONDO_TRY_ASSIGN(const size_t bytes, bytes_of(count, type));
    Call call{signature_of(RONDO_ALL_REDUCE, type, op, count), send, recv};
    RONDO_TRY(resolve_op(*target.comm, op, call));
    return submit_checked(target, std::move(call), whole(count, bytes), stream);
  });
}

rondo_status_t rondo_reduce_scatter(const void *send, void *recv, size_t recv_count, rondo_type_t type, rondo_op_t op,
                                    rondo_comm_t handle, rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) -> Result<void> {
    const Communicator &comm = *target.comm;
    RONDO_TRY_ASSIGN(const auto layout, even_blocks(recv_count, comm.rank_count(), comm.rank(), type));
    Call call{signature_of(RONDO_REDUCE_SCATTER, type, op, recv_count), send, recv};
    RONDO_TRY(resolve_op(comm, op, call));
    return submit_blocks(target, std::move(call), layout, stream);
  });
}

rondo_status_t rondo_reduce_scatter_v(const void *send, void *recv, const size_t *counts, rondo_type_t type,
                                      rondo_op_t op, rondo_comm_t handle, rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) -> Result<void> {
    const Communicator &comm = *target.comm;
    RONDO_TRY_ASSIGN(const auto layout, check_blocks(counts, nullptr, comm.rank_count(), comm.rank(), type));
    Call call{signature_of(RONDO_REDUCE_SCATTER, type, op, layout.total_count), send, recv, false, counts, nullptr};
    RONDO_TRY(resolve_op(comm, op, call));
    return submit_blocks(target, std::move(call), layout, stream);
  });
}

rondo_status_t rondo_all_gather(const void *send, void *recv, size_t send_count, rondo_type_t type, rondo_comm_t handle,
                                rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) -> Result<void> {
    const Communicator &comm = *target.comm;
    RONDO_TRY_ASSIGN(const auto layout, even_blocks(send_count, comm.rank_count(), comm.rank(), type));
    Call call{signature_of(RONDO_ALL_GATHER, type, RONDO_SUM, send_count), send, recv};
    return submit_blocks(target, std::move(call), layout, stream);
  });
}

rondo_status_t rondo_all_gather_v(const void *send, void *recv, const size_t *counts, const size_t *displacements,
                                  rondo_type_t type, rondo_comm_t handle, rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) -> Result<void> {
    const Communicator &comm = *target.comm;
    RONDO_TRY_ASSIGN(const auto layout, check_blocks(counts, displacements, comm.rank_count(), comm.rank(), type));
    Call call{signature_of(RONDO_ALL_GATHER, type, RONDO_SUM, layout.total_count), send, recv, false, counts,
              displacements};
    return submit_blocks(target, std::move(call), layout, stream);
  });
}

rondo_status_t rondo_broadcast(const void *send, void *recv, size_t count, rondo_type_t type, int root,
                               rondo_comm_t handle, rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) -> Result<void> {
    RONDO_TRY_ASSIGN(const size_t bytes, bytes_of(count, type));
    RONDO_TRY(check_root(root, target.comm->rank_count()));
    Call call{signature_of(RONDO_BROADCAST, type, RONDO_SUM, count, static_cast<uint32_t>(root)), send, recv};
    return submit_checked(target, std::move(call), whole(count, bytes), stream);
  });
}

rondo_status_t rondo_reduce(const void *send, void *recv, size_t count, rondo_type_t type, rondo_op_t op, int root,
                            rondo_comm_t handle, rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) -> Result<void> {
    RONDO_TRY_ASSIGN(const size_t bytes, bytes_of(count, type));
    Call call{signature_of(RONDO_REDUCE, type, op, count, static_cast<uint32_t>(root)), send, recv};
    RONDO_TRY(resolve_op(*target.comm, op, call));
    RONDO_TRY(check_root(root, target.comm->rank_count()));
    return submit_checked(target, std::move(call), whole(count, bytes), stream);
  });
}

rondo_status_t rondo_barrier(rondo_comm_t handle, rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) -> Result<void> {
    Call call;
    call.signature = signature_of(RONDO_BARRIER, RONDO_UINT8, RONDO_MAX, 1);
    return submit(target, call, stream);
  });
}

}  // extern "C"
