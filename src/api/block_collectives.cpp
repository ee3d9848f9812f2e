// SPDX-License-Identifier: Apache-2.0
// This file has the collectives of rondo.h that exchange blocks. Each function checks its arguments. Then it runs the
// call, or keeps the call in the thread's group.
#include <string>
#include <vector>

#include "src/api/run_collective.h"

using namespace rondo;

namespace {

Signature signature_without_op(rondo_collective_t collective, rondo_type_t type, size_t count, int root) {
  return rondo::signature_of(collective, type, RONDO_SUM, count, static_cast<uint32_t>(root));
}

/// Returns the signature of a _v function. It makes every two ranks compare the counts of the blocks between them.
Signature signature_by_pairs(rondo_collective_t collective, rondo_type_t type, int root = 0) {
  Signature signature = signature_without_op(collective, type, 0, root);
  signature.counts_hash = counts_of_pairs;
  return signature;
}

/// Checks the root, and whether the communicator has this collective. It is called before buffers are checked.
Result<void> check_call(const Communicator &comm, rondo_collective_t collective, int root = 0) {
  RONDO_TRY(check_root(root, comm.rank_count()));
  return comm.check_block_exchange(collective);
}

/// The blocks that a _v function sends or receives.
struct Side {
  std::vector<Block> blocks;  ///< indexed by rank
  uint64_t total_bytes = 0;
  size_t end_bytes = 0;  ///< bytes from the begin of the buffer to the end of the last block
};

/// Makes the Side that `counts` describes. `name` is the name of the counts in an error.
Result<Side> make_side(const char *name, const size_t *counts, const size_t *displacements, uint32_t rank_count,
                       rondo_type_t type) {
  Side side;
  side.blocks.reserve(rank_count);
  const size_t size = rondo_type_size(type);
  RONDO_TRY_ASSIGN(const BlockExtent extent, lay_out(name, counts, displacements, rank_count, type,
                                                     [&](uint32_t, size_t begin, size_t count) {
                                                       side.blocks.push_back({begin * size, count * size});
                                                     }));
  side.total_bytes = extent.total_count * size;
  side.end_bytes = extent.end * size;
  return side;
}

/// Makes a side with one block, which goes to or comes from `peer`.
Side lone_side(uint32_t peer, uint32_t rank_count, size_t bytes) {
  Side side;
  side.blocks.resize(rank_count);
  side.blocks[peer] = {0, bytes};
  side.total_bytes = side.end_bytes = bytes;
  return side;
}

/// Checks that this rank sends itself as many bytes as it expects from itself.
Result<void> check_own(const Communicator &comm, const Side &sends, const Side &receives, size_t size) {
  const uint64_t sent = sends.blocks[comm.rank()].bytes, received = receives.blocks[comm.rank()].bytes;
  if (sent == received) return {};
  return invalid_argument("rank " + std::to_string(comm.rank()) + " sends itself " + std::to_string(sent / size) +
                          " elements and expects " + std::to_string(received / size) +
                          " of itself; give both the same count");
}

/// Submits a _v call whose arguments have been checked.
Result<void> submit_lists(const Target &target, Call call, Side sends, Side receives, uint64_t total_bytes,
                          rondo_stream_t stream) {
  call.details = std::make_shared<const CallDetails>(
      BlockLists{std::move(sends.blocks), std::move(receives.blocks), total_bytes});
  return submit(target, call, stream);
}

/// Runs a call of equal blocks.
Result<void> submit_even(const Target &target, Call &&call, size_t count, rondo_type_t type, int root,
                         rondo_stream_t stream) {
  const Communicator &comm = *target.comm;
  const auto collective = static_cast<rondo_collective_t>(call.signature.collective);
  RONDO_TRY_ASSIGN(const auto layout, even_blocks(count, comm.rank_count(), comm.rank(), type));
  RONDO_TRY(check_call(comm, collective, root));
  return submit_checked(target, std::move(call), layout, stream);
}

/// Runs a gather_v or a scatter_v. This rank's block has `part_count` elements. Only the root uses `counts` and
/// `displacements`.
Result<void> submit_rooted(const Target &target, Call call, size_t part_count, const size_t *counts,
                           const size_t *displacements, rondo_type_t type, int root, rondo_stream_t stream) {
  const Communicator &comm = *target.comm;
  const auto collective = static_cast<rondo_collective_t>(call.signature.collective);
  RONDO_TRY_ASSIGN(const size_t part_bytes, bytes_of(part_count, type));
  RONDO_TRY(check_call(comm, collective, root));
  const bool gathers = traits_of(collective).root == RootRole::receives;
  const bool is_root = static_cast<uint32_t>(root) == comm.rank();
  Side part = lone_side(static_cast<uint32_t>(root), comm.rank_count(), part_bytes), whole;
  if (is_root) {
    RONDO_TRY_ASSIGN(whole, make_side("counts", counts, displacements, comm.rank_count(), type));
    if (gathers && displacements != nullptr) RONDO_TRY(check_disjoint(counts, displacements, comm.rank_count()));
    RONDO_TRY(check_own(comm, gathers ? part : whole, gathers ? whole : part, rondo_type_size(type)));
  } else {
    whole.blocks.resize(comm.rank_count());
  }
  BlockLayout layout;
  layout.end_bytes = whole.end_bytes;
  layout.own_bytes = part_bytes;
  layout.own_offset_bytes = whole.blocks[comm.rank()].begin_bytes;
  RONDO_TRY(check_buffers(comm, layout, call));
  const uint64_t total_bytes = is_root ? whole.total_bytes : part_bytes;
  return gathers ? submit_lists(target, call, std::move(part), std::move(whole), total_bytes, stream)
                 : submit_lists(target, call, std::move(whole), std::move(part), total_bytes, stream);
}

}  // namespace

extern "C" {

rondo_status_t rondo_all_to_all(const void *send, void *recv, size_t count, rondo_type_t type, rondo_comm_t handle,
                                rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) {
    return submit_even(target, {signature_without_op(RONDO_ALL_TO_ALL, type, count, 0), send, recv}, count, type, 0,
                       stream);
  });
}

rondo_status_t rondo_all_to_all_v(const void *send, const size_t *send_counts, const size_t *send_displacements,
                                  void *recv, const size_t *recv_counts, const size_t *recv_displacements,
                                  rondo_type_t type, rondo_comm_t handle, rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) -> Result<void> {
    const Communicator &comm = *target.comm;
    const uint32_t rank_count = comm.rank_count();
    RONDO_TRY(check_call(comm, RONDO_ALL_TO_ALL));
    RONDO_TRY_ASSIGN(auto sends, make_side("send_counts", send_counts, send_displacements, rank_count, type));
    RONDO_TRY_ASSIGN(auto receives, make_side("recv_counts", recv_counts, recv_displacements, rank_count, type));
    if (recv_displacements != nullptr) RONDO_TRY(check_disjoint(recv_counts, recv_displacements, rank_count));
    RONDO_TRY(check_own(comm, sends, receives, rondo_type_size(type)));
    RONDO_TRY(check_buffer(comm, "send", send, sends.end_bytes));
    RONDO_TRY(check_buffer(comm, "recv", recv, receives.end_bytes));
    RONDO_TRY(check_overlap(send, sends.end_bytes, recv, receives.end_bytes, nullptr));
    const uint64_t total_bytes = sends.total_bytes;
    return submit_lists(target, {signature_by_pairs(RONDO_ALL_TO_ALL, type), send, recv}, std::move(sends),
                        std::move(receives), total_bytes, stream);
  });
}

rondo_status_t rondo_gather(const void *send, void *recv, size_t send_count, rondo_type_t type, int root,
                            rondo_comm_t handle, rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) {
    const Signature signature = signature_without_op(RONDO_GATHER, type, send_count, root);
    return submit_even(target, {signature, send, recv}, send_count, type, root, stream);
  });
}

rondo_status_t rondo_gather_v(const void *send, size_t send_count, void *recv, const size_t *counts,
                              const size_t *displacements, rondo_type_t type, int root, rondo_comm_t handle,
                              rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) {
    const Signature signature = signature_by_pairs(RONDO_GATHER, type, root);
    return submit_rooted(target, {signature, send, recv}, send_count, counts, displacements, type, root, stream);
  });
}

rondo_status_t rondo_scatter(const void *send, void *recv, size_t recv_count, rondo_type_t type, int root,
                             rondo_comm_t handle, rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) {
    const Signature signature = signature_without_op(RONDO_SCATTER, type, recv_count, root);
    return submit_even(target, {signature, send, recv}, recv_count, type, root, stream);
  });
}

rondo_status_t rondo_scatter_v(const void *send, const size_t *counts, const size_t *displacements, void *recv,
                               size_t recv_count, rondo_type_t type, int root, rondo_comm_t handle,
                               rondo_stream_t stream) noexcept {
  return run_collective(handle, [&](const Target &target) {
    const Signature signature = signature_by_pairs(RONDO_SCATTER, type, root);
    return submit_rooted(target, {signature, send, recv}, recv_count, counts, displacements, type, root, stream);
  });
}

}  // extern "C"
