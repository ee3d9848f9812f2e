// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/link.h"

#include <cassert>

namespace rondo::ucx {

void join_links(std::span<Link> links, std::span<const net::NearLink> near,
                std::span<const std::unique_ptr<Peer>> peers) {
  assert(links.size() == near.size());
  for (size_t index = 0; index < links.size(); ++index) {
    Link &link = links[index];
    link.ends = near[index];
    link.sent = link.consumed = link.consumed_told = net::first_counter(link.ends.outgoing);
    link.arrived = link.credit_wanted = link.credit_sent = net::first_counter(link.ends.incoming);
    const auto found = std::find_if(peers.begin(), peers.end(),
                                    [&](const auto &peer) { return peer->known.rank == link.ends.peer; });
    assert(found != peers.end());
    link.peer = found->get();
    link.sends.resize(link.ends.outgoing.geometry.slot_count);
    link.arrivals.resize(link.ends.incoming.geometry.slot_count);
    std::vector<Link *> &of_peer = link.peer->links;
    if (of_peer.size() <= link.ends.channel) of_peer.resize(link.ends.channel + 1);
    of_peer[link.ends.channel] = &link;
  }
}

std::vector<RequestBlock> lend_requests(std::span<Link> links, std::span<const std::unique_ptr<Peer>> peers,
                                        size_t request_bytes) {
  std::vector<Operation *> operations;
  const auto add = [&](Operation &operation, Peer &peer) {
    operation.peer = &peer;
    operations.push_back(&operation);
  };
  for (Link &link : links) {
    for (Operation &each : link.sends) add(each, *link.peer);
    for (Arrival &each : link.arrivals) add(each.fetch, *link.peer);
    add(link.credit, *link.peer);
  }
  for (const auto &peer : peers)
    for (Operation *const each : {&peer->greeting, &peer->greeting_fetch, &peer->flush}) add(*each, *peer);
  const size_t stride = (request_bytes + sizeof(RequestBlock) - 1) / sizeof(RequestBlock);
  std::vector<RequestBlock> blocks(stride * operations.size());
  for (size_t index = 0; index < operations.size(); ++index)
    operations[index]->request = reinterpret_cast<std::byte *>(&blocks[index * stride]) + request_bytes;
  return blocks;
}

uint32_t tell(std::span<Link> links, std::span<const std::unique_ptr<Peer>> peers, std::span<net::Event> events,
              bool &more) {
  uint32_t count = 0;
  more = false;
  const auto add = [&](const net::Event &event) {
    more = count == events.size();
    if (!more) events[count++] = event;
    return !more;
  };
  for (uint32_t index = 0; index < links.size(); ++index) {
    Link &link = links[index];
    if (link.consumed != link.consumed_told) {
      if (!add({net::Event::Kind::credit, index, link.consumed})) return count;
      link.consumed_told = link.consumed;
    }
    for (;;) {  // bounded by the slots of the link
      Arrival &next = link.arrivals[link.arrived % link.arrivals.size()];
      if (next.state != Arrival::State::whole) break;
      if (!add({net::Event::Kind::arrived, index, link.arrived, next.signature, next.bytes, next.in_device}))
        return count;
      next.state = Arrival::State::none;
      ++link.arrived;
    }
  }
  for (const auto &peer : peers) {
    if (!peer->lost || peer->told || peer->links.empty()) continue;
    const auto index = static_cast<uint32_t>(peer->links.front() - links.data());
    if (!add({net::Event::Kind::lost, index})) return count;
    peer->told = true;
  }
  return count;
}

}  // namespace rondo::ucx
