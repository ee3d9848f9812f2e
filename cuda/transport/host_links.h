// SPDX-License-Identifier: Apache-2.0
// These classes have a device's links in memory of the host, which kernels use like any connection.
//
// HostLinks has the links between ranks of a node whose devices do not reach each other's memory. The connections lie
// in pinned memory of the host, in one file for each node, which both ranks map and both devices see. The data of such
// a link crosses the bus twice instead of once.
//
// Layout    for each such pair of ranks, from the lesser to the greater rank and then back:
//             connections          channel_count, by channel; src/proto/connection.h
//           and after all of these, for each pair likewise:
//             connections          message_channels, of messages
//
// NetworkLinks shows a device its rank's links to other nodes. The FIFOs are in memory of this host, which the class
// registers with the driver. Kernels and the thread of the copy-engine executor use the FIFOs with the protocol
// `simple`. The sentinel (transports/net/sentinel.h) moves what they post. So the program need not call anything
// meanwhile, and a captured collective is a single kernel. Payloads may be in device memory (RdmaMemory). Then the
// sentinel makes the device's context current for each poll, and flushes arrived data before it announces them.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cuda/driver/handles.h"
#include "cuda/transport/info_exchange.h"
#include "cuda/transport/shared_file.h"
#include "src/links/links.h"
#include "src/proto/simple.h"

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

class NetworkLinks {
 public:
  /// Makes an object without links, for ranks that are all on one node.
  NetworkLinks() = default;
  /// Registers the FIFOs. `nodes` has the node of each rank. The memory stays registered as long as this object lives.
  /// The views are valid while both this object and `links` live.
  [[nodiscard]] static Result<NetworkLinks> connect(const PrimaryContext &context, const Links &links,
                                                    const std::vector<uint32_t> &nodes, uint32_t rank);

  /// Says whether the peer is on another node.
  [[nodiscard]] bool reaches(uint32_t peer) const { return !nodes_.empty() && nodes_[peer] != nodes_[rank_]; }
  /// Returns the links, whose views have addresses of the host.
  [[nodiscard]] const Links &links() const { return *links_; }
  /// Returns the view of a link with another node, with the device's addresses. It is empty if no plan uses the link.
  [[nodiscard]] ConnectionView on_device(ConnectionView view) const {
    for (const Registered *const each : {&collectives_, &messages_}) {
      const auto offset = static_cast<uint64_t>(view.base - each->bytes.data());
      if (view.base == nullptr || offset >= each->bytes.size()) continue;
      view.base = reinterpret_cast<std::byte *>(each->address + offset);
      view.credit = view.base;  // in this host's memory, like the whole link
      return view;
    }
    return {};
  }
  // These views have addresses of the device.
  [[nodiscard]] SimpleSender sender(uint32_t channel, uint32_t peer) const {
    return SimpleSender(on_device(links_->outgoing(channel, peer)), 0, links_->device_slots(channel, peer));
  }
  [[nodiscard]] SimpleReceiver receiver(uint32_t channel, uint32_t peer) const {
    return SimpleReceiver(on_device(links_->incoming(channel, peer)));
  }
  // These views are of the link for messages.
  [[nodiscard]] SimpleSender message_sender(uint32_t peer) const {
    return SimpleSender(on_device(links_->outgoing_messages(peer)), 0, links_->device_message_slots(peer));
  }
  [[nodiscard]] SimpleReceiver message_receiver(uint32_t peer) const {
    return SimpleReceiver(on_device(links_->incoming_messages(peer)));
  }

 private:
  /// Memory of the links that the device sees.
  struct Registered {
    std::span<std::byte> bytes;
    HostRegistration registration;
    DevicePointer address = 0;
  };
  [[nodiscard]] static Result<Registered> register_links(const PrimaryContext &context, std::span<std::byte> bytes);
  const Links *links_ = nullptr;
  std::vector<uint32_t> nodes_;
  uint32_t rank_ = 0;
  NetworkMemory memory_;
  // Parts of memory_, destroyed before it.
  Registered collectives_;
  Registered messages_;
};

}  // namespace rondo::cuda
