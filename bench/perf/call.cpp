// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/call.h"

namespace rondo::perf {
namespace {

rondo_status_t exchange(const Case &what, const Shape &shape, Pointers at, rondo_comm_t comm, rondo_stream_t stream) {
  const rondo_status_t begun = rondo_group_begin();
  if (begun != RONDO_OK) return begun;
  // If a call is refused, rondo_group_end() returns the reason.
  (void)rondo_send(at.send, shape.count, what.type, shape.next, comm, stream);
  (void)rondo_recv(at.recv, shape.count, what.type, shape.previous, comm, stream);
  return rondo_group_end();
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
    default:
      return RONDO_ERROR_UNSUPPORTED;
  }
}

}  // namespace rondo::perf
