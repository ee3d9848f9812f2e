// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/call.h"

namespace rondo::perf {
namespace {

rondo_status_t exchange(const Case &what, const Shape &shape, Pointers at, rondo_comm_t comm, rondo_stream_t stream) {
  const rondo_status_t begun = rondo_group_begin();
  if (begun != RONDO_OK) return begun;
  // If a call is refused, rondo_group_end() returns the reason.
  const int next = (shape.rank + 1) % what.ranks, previous = (shape.rank + what.ranks - 1) % what.ranks;
  (void)rondo_send(at.send, shape.count, what.type, next, comm, stream);
  (void)rondo_recv(at.recv, shape.count, what.type, previous, comm, stream);
  return rondo_group_end();
}

/// Gathers all blocks. In the group for `distance`, this rank has `distance` blocks: it sends them to its peer, and
/// receives as many. The first group also moves the rank's own block.
rondo_status_t gather_by_hypercube(const Case &what, const Shape &shape, Pointers at, rondo_comm_t comm,
                                   rondo_stream_t stream) {
  const size_t block_bytes = shape.count * rondo_type_size(what.type);
  const auto block = [&](int rank) { return at.recv + static_cast<size_t>(rank) * block_bytes; };
  const bool in_place = at.send == block(shape.rank);
  for (int distance = 1; distance < what.ranks || (distance == 1 && !in_place); distance *= 2) {
    const rondo_status_t begun = rondo_group_begin();
    if (begun != RONDO_OK) return begun;
    if (distance == 1 && !in_place) {
      (void)rondo_send(at.send, shape.count, what.type, shape.rank, comm, stream);
      (void)rondo_recv(block(shape.rank), shape.count, what.type, shape.rank, comm, stream);
    }
    const int peer = shape.rank ^ distance, first = shape.rank & ~(distance - 1);
    if (peer < what.ranks) {
      const size_t count = shape.count * static_cast<size_t>(distance);
      (void)rondo_send(distance == 1 ? at.send : block(first), count, what.type, peer, comm, stream);
      (void)rondo_recv(block(first ^ distance), count, what.type, peer, comm, stream);
    }
    const rondo_status_t ended = rondo_group_end();
    if (ended != RONDO_OK) return ended;
  }
  return RONDO_OK;
}

}  // namespace

rondo_status_t make_call(const Case &what, const Shape &shape, Pointers at, rondo_comm_t comm, rondo_stream_t stream) {
  const rondo_op_t op = what.op == mulsum ? what.made : what.op;
  switch (what.collective) {
    case RONDO_ALL_REDUCE:
      return rondo_all_reduce(at.send, at.recv, shape.count, what.type, op, comm, stream);
    case RONDO_REDUCE_SCATTER:
      return rondo_reduce_scatter(at.send, at.recv, shape.count, what.type, op, comm, stream);
    case RONDO_ALL_GATHER:
      return rondo_all_gather(at.send, at.recv, shape.count, what.type, comm, stream);
    case RONDO_BROADCAST:
      return rondo_broadcast(at.send, at.recv, shape.count, what.type, what.root, comm, stream);
    case RONDO_REDUCE:
      return rondo_reduce(at.send, at.recv, shape.count, what.type, op, what.root, comm, stream);
    case RONDO_ALL_TO_ALL:
      return rondo_all_to_all(at.send, at.recv, shape.count, what.type, comm, stream);
    case RONDO_GATHER:
      return rondo_gather(at.send, at.recv, shape.count, what.type, what.root, comm, stream);
    case RONDO_SCATTER:
      return rondo_scatter(at.send, at.recv, shape.count, what.type, what.root, comm, stream);
    case sendrecv:
      return exchange(what, shape, at, comm, stream);
    case hypercube:
      return gather_by_hypercube(what, shape, at, comm, stream);
    default:
      return RONDO_ERROR_UNSUPPORTED;
  }
}

}  // namespace rondo::perf
