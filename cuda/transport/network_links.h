// SPDX-License-Identifier: Apache-2.0
// A device's view of its rank's links to other nodes. Their FIFOs are memory of this host, which this file registers
// with the driver. Kernels use them like any connection, with the protocol `simple`, and the sentinel
// (transports/net/sentinel.h) moves what they post. The program need not call anything meanwhile, so a captured
// collective is a single kernel there, too. Payloads may be in memory of the device (RdmaMemory). The sentinel then
// makes the device's context current for each poll, and flushes arrived data before it announces it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/driver/handles.h"
#include "src/proto/simple.h"
#include "src/links/links.h"

namespace rondo::cuda {

class NetworkLinks {
 public:
  /// Makes no links, because all ranks are on one node.
  NetworkLinks() = default;
  /// Registers the FIFOs. `nodes` is by rank. The memory lives as long as this object; views need `links` as well.
  [[nodiscard]] static Result<NetworkLinks> connect(const PrimaryContext &context, const Links &links,
                                                    const std::vector<uint32_t> &nodes, uint32_t rank);

  /// Returns whether the peer is on another node.
  [[nodiscard]] bool reaches(uint32_t peer) const { return !nodes_.empty() && nodes_[peer] != nodes_[rank_]; }
  // The views have addresses of the device.
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
  [[nodiscard]] ConnectionView on_device(ConnectionView view) const {
    for (const Registered *const each : {&collectives_, &messages_}) {
      const auto offset = static_cast<uint64_t>(view.base - each->bytes.data());
      if (view.base == nullptr || offset >= each->bytes.size()) continue;
      view.base = reinterpret_cast<std::byte *>(each->address + offset);
      view.credit = view.base;  // near, as all of the link is
      return view;
    }
    return {};  // no plan has this link
  }

  const Links *links_ = nullptr;
  std::vector<uint32_t> nodes_;
  uint32_t rank_ = 0;
  NetworkMemory memory_;
  // Parts of memory_, and gone before it.
  Registered collectives_;
  Registered messages_;
};

}  // namespace rondo::cuda
