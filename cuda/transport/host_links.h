// SPDX-License-Identifier: Apache-2.0
// This class has the links between ranks of a node whose devices do not reach each other's memory. The connections lie
// in pinned memory of the host, in one file for each node, which both ranks map and both devices see. Kernels use them
// like any connection. The data of such a link crosses the bus twice instead of once.
//
// Layout    for each such pair of ranks, from the lesser to the greater rank and then back:
//             connections          channel_count, by channel; src/proto/connection.h
//           and after all of these, for each pair likewise:
//             connections          message_channels, of messages
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/transport/info_exchange.h"
#include "cuda/transport/shared_file.h"

namespace rondo::cuda {

struct HostLinksShape {
  std::vector<std::pair<uint32_t, uint32_t>> pairs;  ///< of all nodes, the lesser rank first, in ascending order
  std::vector<uint32_t> nodes;                       ///< by rank
  uint32_t channel_count = 1;
  uint64_t connection_bytes = 0;  ///< a multiple of 64
  uint32_t message_channels = 0;
  uint64_t message_connection_bytes = 0;  ///< likewise
};

class HostLinks {
 public:
  /// Makes an object without links, for nodes whose devices all reach each other.
  HostLinks() = default;
  /// Makes and maps the memory; every rank of the communicator calls it, with the same shape. The memory lives as long
  /// as this object.
  [[nodiscard]] static Result<HostLinks> connect(const PrimaryContext &context, HostLinksShape shape,
                                                 InfoExchange &info_exchange);

  /// Returns whether the links with `peer` are in this memory.
  [[nodiscard]] bool reaches(uint32_t peer) const { return peer < reached_.size() && reached_[peer]; }
  // These functions return the device's address of a connection with a rank for which reaches() is true.
  [[nodiscard]] DevicePointer connection(uint32_t channel, uint32_t sender, uint32_t receiver) const;
  [[nodiscard]] DevicePointer message_connection(uint32_t channel, uint32_t sender, uint32_t receiver) const;

 private:
  /// Returns the number of a directed link.
  [[nodiscard]] uint64_t link_of(uint32_t sender, uint32_t receiver) const;
  [[nodiscard]] uint64_t messages_offset() const {
    return 2 * shape_.pairs.size() * shape_.channel_count * shape_.connection_bytes;
  }

  HostLinksShape shape_;        ///< with only the pairs of this rank's node
  std::vector<bool> reached_;  ///< by rank
  std::shared_ptr<const RegisteredFile> memory_;
  DevicePointer address_ = 0;
};

}  // namespace rondo::cuda
