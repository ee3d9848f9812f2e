// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/peer.h"

#include <algorithm>
#include <cassert>

namespace rondo::verbs {

Peer::Peer(uint32_t rank, std::string name, const std::vector<net::NearLink> &links) : links_(links.size()) {
  loss_.rank = rank;
  loss_.name = std::move(name);
  for (const net::NearLink &ends : links) {
    assert(ends.channel < links_.size());
    Link &link = links_[ends.channel];
    link.ends = ends;
    link.sent = link.consumed = net::first_counter(ends.outgoing);
    link.arrived = net::first_counter(ends.incoming);
    link.arrivals.resize(ends.incoming.geometry.slot_count);
  }
}

bool Peer::send_slot(Link &link, const net::Message &message) {
  if (!paths_[message.counter % paths_.size()]->send_slot(link.ends.channel, message)) return false;
  link.sent = message.counter + 1;
  return true;
}

/// Sends all credits of a link over the same path, so that they stay in order.
bool Peer::send_credit(const Link &link, uint64_t consumed) {
  return paths_[link.ends.channel % paths_.size()]->send_credit(link.ends.channel, consumed);
}

bool Peer::greeted() const {
  return std::all_of(paths_.begin(), paths_.end(), [](const auto &path) { return path->greeted; });
}

bool Peer::has_left() const {
  return std::all_of(paths_.begin(), paths_.end(), [](const auto &path) { return path->closed; });
}

bool Peer::all_left() const {
  return std::all_of(paths_.begin(), paths_.end(), [](const auto &path) { return path->all_left(); });
}

}  // namespace rondo::verbs
