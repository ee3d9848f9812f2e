// SPDX-License-Identifier: Apache-2.0
#include "cuda/executors/copy_fifos.h"

namespace rondo::cuda {
namespace {

/// The two connections with a peer, as the thread sees them, and where the device sees the first payload of each.
struct Pair {
  ConnectionView out, in;
  DevicePointer out_slots = 0, in_slots = 0;
};

DevicePointer place_of(const std::byte *address) { return reinterpret_cast<DevicePointer>(address); }

/// Returns the links with a rank of another node. Their views are null if no schedule can use them.
Pair network_pair(const NetworkLinks &network, uint32_t channel, uint32_t peer) {
  const Links &links = network.links();
  const bool of_messages = channel == 0;
  Pair pair;
  pair.out = of_messages ? links.outgoing_messages(peer) : links.outgoing(channel - 1, peer);
  pair.in = of_messages ? links.incoming_messages(peer) : links.incoming(channel - 1, peer);
  if (pair.out.base == nullptr) return pair;
  const std::byte *const on_device = of_messages ? links.device_message_slots(peer)
                                                 : links.device_slots(channel - 1, peer);
  pair.out_slots = place_of(on_device != nullptr ? on_device : network.on_device(pair.out).payload(0));
  pair.in_slots = place_of(network.on_device(pair.in).payload(0));
  return pair;
}

/// Returns the connections with a rank of this node.
Pair near_pair(const Segment &segment, const HostLinks &host_links, const Flags &flags, uint32_t channel,
               uint32_t peer) {
  const SegmentShape &shape = segment.shape();
  const uint32_t rank = segment.rank();
  const bool in_messages = channel < shape.message_channels;
  const auto slots_of = [&](uint32_t receiver, uint32_t sender) {
    if (host_links.reaches(peer))
      return in_messages ? host_links.message_connection(channel, sender, receiver)
                         : host_links.connection(channel - 1, sender, receiver);
    return segment.address_of(receiver) + (in_messages ? shape.message_connection_offset(channel, sender)
                                                       : shape.connection_offset(channel - 1, sender, receiver));
  };
  Pair pair{flags.fifo(peer, channel, rank), flags.fifo(rank, channel, peer)};
  pair.out_slots = slots_of(peer, rank) + pair.out.geometry.slots_offset();
  pair.in_slots = slots_of(rank, peer) + pair.in.geometry.slots_offset();
  return pair;
}

}  // namespace

CopyFifos::CopyFifos(const Segment &segment, const HostLinks &host_links, const NetworkLinks &network,
                     const Flags &flags)
    : rank_count_(segment.shape().rank_count) {
  const uint32_t channel_count = flags.shape().fifo_channels;
  for (uint32_t channel = 0; channel < channel_count; ++channel)
    for (uint32_t peer = 0; peer < rank_count_; ++peer) {
      device::DeviceLinkEnds &ends = ends_.emplace_back();
      uint64_t &to_slots = to_slots_.emplace_back();
      ends.peer = peer;
      if (channel == 0 && segment.shape().message_channels == 0) continue;
      const Pair pair = network.reaches(peer) ? network_pair(network, channel, peer)
                                              : near_pair(segment, host_links, flags, channel, peer);
      if (pair.out.base == nullptr) continue;
      ends.simple_out = SimpleSender(pair.out, 0, reinterpret_cast<std::byte *>(pair.out_slots));
      ends.simple_in = SimpleReceiver(pair.in);
      to_slots = pair.in_slots - place_of(pair.in.payload(0));
    }
}

}  // namespace rondo::cuda
