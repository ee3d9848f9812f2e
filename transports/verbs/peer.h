// SPDX-License-Identifier: Apache-2.0
// This file declares one remote rank over verbs: the links with it, and the paths that carry them. The slot with
// counter c of a link goes over path c % path_count, so each path carries the same share of a large message. If a slot
// arrives before an earlier one on another path, it waits in its place in the FIFO.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "transports/net.h"
#include "transports/verbs/path.h"
#include "transports/verbs/wire.h"

namespace rondo::verbs {

/// A slot that has arrived.
struct Arrival {
  bool here = false;  ///< true if it has arrived and was not reported yet
  Frame frame;
};

struct Link {
  net::NearLink ends;
  uint32_t index = 0;             ///< index among all links of the network
  uint64_t sent = 0;              ///< number of slots sent
  uint64_t arrived = 0;           ///< counter of the next slot to report
  uint64_t consumed = 0;          ///< the highest `consumed` that the peer has sent
  std::vector<Arrival> arrivals;  ///< by slot
};

class Peer {
 public:
  /// Makes the peer with its `links` to this rank, which are indexed by channel.
  Peer(uint32_t rank, std::string name, const std::vector<net::NearLink> &links);

  [[nodiscard]] uint32_t rank() const { return loss_.rank; }
  [[nodiscard]] const std::string &name() const { return loss_.name; }
  [[nodiscard]] std::vector<Link> &links() { return links_; }
  [[nodiscard]] const std::vector<std::unique_ptr<Path>> &paths() const { return paths_; }
  /// Adds a path, which gets the next number.
  void add(std::unique_ptr<Path> path) { paths_.push_back(std::move(path)); }

  // The send functions return false if there is no room now. If the peer is lost, they return true and do nothing.
  [[nodiscard]] bool send_slot(Link &link, const net::Message &message);
  [[nodiscard]] bool send_credit(const Link &link, uint64_t consumed);

  [[nodiscard]] bool greeted() const;   ///< whether the hello of every path has arrived
  [[nodiscard]] bool has_left() const;  ///< whether the bye of every path has arrived; the peer sends it last
  [[nodiscard]] bool all_left() const;  ///< Path::all_left() of every path

  [[nodiscard]] Loss &loss() { return loss_; }
  [[nodiscard]] const Loss &loss() const { return loss_; }
  [[nodiscard]] bool lost() const { return loss_.ns != 0; }

  bool told = false;  ///< the loss was reported

 private:
  Loss loss_;
  std::vector<Link> links_;  ///< by channel; never moves
  std::vector<std::unique_ptr<Path>> paths_;
};

}  // namespace rondo::verbs
