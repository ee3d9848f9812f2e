// SPDX-License-Identifier: Apache-2.0
// This file makes one call of a collective, in the same way on a device and on the host.
#pragma once

#include <cstddef>

#include "rondo/rondo.h"

namespace rondo_test {

struct DeviceCase {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  rondo_type_t type = RONDO_FLOAT32;
  rondo_op_t op = RONDO_SUM;
  size_t count = 0;
  int root = 0;
  bool in_place = false;
  size_t offset_bytes = 0;  ///< offset of the data in both buffers, a multiple of an element's size
};

/// Returns whether `count` is that of one rank's block.
[[nodiscard]] inline bool in_blocks(rondo_collective_t collective) {
  return collective == RONDO_REDUCE_SCATTER || collective == RONDO_ALL_GATHER || collective == RONDO_ALL_TO_ALL ||
         collective == RONDO_GATHER || collective == RONDO_SCATTER;
}

/// Makes the call of `rank`. `send` and `recv` point to the beginnings of buffers, which have room for the offset and
/// the elements of all ranks.
inline rondo_status_t call(const DeviceCase &it, int rank, rondo_comm_t comm, rondo_stream_t stream, std::byte *send,
                           std::byte *recv) {
  const size_t block = static_cast<size_t>(rank) * it.count * rondo_type_size(it.type);
  send += it.offset_bytes;
  recv = it.in_place ? send : recv + it.offset_bytes;
  switch (it.collective) {
    case RONDO_ALL_REDUCE:
      return rondo_all_reduce(send, recv, it.count, it.type, it.op, comm, stream);
    case RONDO_REDUCE_SCATTER:
      return rondo_reduce_scatter(send, it.in_place ? recv + block : recv, it.count, it.type, it.op, comm, stream);
    case RONDO_ALL_GATHER:
      return rondo_all_gather(it.in_place ? send + block : send, recv, it.count, it.type, comm, stream);
    case RONDO_BROADCAST:
      return rondo_broadcast(send, recv, it.count, it.type, it.root, comm, stream);
    case RONDO_REDUCE:
      return rondo_reduce(send, recv, it.count, it.type, it.op, it.root, comm, stream);
    case RONDO_ALL_TO_ALL:
      return rondo_all_to_all(send, recv, it.count, it.type, comm, stream);
    case RONDO_GATHER:
      return rondo_gather(it.in_place ? send + block : send, recv, it.count, it.type, it.root, comm, stream);
    case RONDO_SCATTER:
      return rondo_scatter(send, it.in_place ? recv + block : recv, it.count, it.type, it.root, comm, stream);
    case RONDO_BARRIER:
    case RONDO_SEND:
    case RONDO_RECV:
      break;
  }
  return rondo_barrier(comm, stream);
}

}  // namespace rondo_test
