// SPDX-License-Identifier: Apache-2.0
#include "src/sim/sim_network.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/plan/build.h"

namespace rondo::sim {
namespace {

constexpr double time_us_max = 1e9;
constexpr double bandwidth_GBps_max = 1e9;
constexpr double burst_bytes_max = 1e12;

Result<void> check_value(const std::string &name, double value, double min, double max) {
  if (value >= min && value <= max) return {};  // the comparison is false for NaN
  return invalid_argument(name + " is " + std::to_string(value) + ", but must be between " +
                          std::to_string(min) + " and " + std::to_string(max));
}

Result<void> check_links(const Network &network) {
  for (size_t link = 0; link < link_class_count; ++link) {
    const LinkCost &cost = network.links[link];
    const std::string name = "links." + std::string(link_class_string(static_cast<LinkClass>(link)));
    RONDO_TRY(check_value(name + ".alpha_us", cost.alpha_us, 0, time_us_max));
    RONDO_TRY(check_value(name + ".ll_alpha_us", cost.ll_alpha_us, 0, time_us_max));
    RONDO_TRY(check_value(name + ".bandwidth_GBps", cost.bandwidth_GBps, 1e-9, bandwidth_GBps_max));
    RONDO_TRY(check_value(name + ".burst_bytes", cost.burst_bytes, 0, burst_bytes_max));
    if (cost.burst_bytes > 0)
      RONDO_TRY(check_value(name + ".peak_GBps", cost.peak_GBps, cost.bandwidth_GBps, bandwidth_GBps_max));
  }
  const LinkCost &within = network.links[static_cast<size_t>(LinkClass::intra_node)];
  if (within.sharing == Sharing::nic)
    return invalid_argument("links.intra_node.sharing is nic, but these links use no network port; "
                            "choose pair, rank or node");
  return {};
}

}  // namespace

Error too_long_to_tell() {
  return invalid_argument("what is simulated takes over 26 days, which is more than is counted; take fewer bytes, or "
                          "higher bandwidths and lower latencies");
}

const char *link_class_string(LinkClass link) {
  switch (link) {
    case LinkClass::self: return "self";
    case LinkClass::intra_node: return "intra_node";
    case LinkClass::inter_node: return "inter_node";
    case LinkClass::inter_rack: return "inter_rack";
  }
  return nullptr;
}

const char *sharing_string(Sharing sharing) {
  switch (sharing) {
    case Sharing::pair: return "pair";
    case Sharing::rank: return "rank";
    case Sharing::nic: return "nic";
    case Sharing::node: return "node";
  }
  return nullptr;
}

uint64_t Network::rank_count() const {
  uint64_t count = 0;
  for (const SimNode &node : nodes) count += node.rank_count;
  return count;
}

std::vector<SimNode> even_nodes(uint32_t rank_count, uint32_t node_rank_count, uint32_t rack_node_count) {
  std::vector<SimNode> nodes;
  for (uint32_t left = rank_count; left > 0; left -= nodes.back().rank_count) {
    const auto index = static_cast<uint32_t>(nodes.size());
    nodes.push_back({std::min(left, node_rank_count), std::min(left, node_rank_count),
                     rack_node_count == 0 ? 0 : index / rack_node_count});
  }
  return nodes;
}

Result<void> check_network(const Network &network) {
  const uint64_t rank_count = network.rank_count();
  if (rank_count < 1 || rank_count > sim_rank_count_max)
    return invalid_argument("the nodes have " + std::to_string(rank_count) + " ranks together; 1 to " +
                            std::to_string(sim_rank_count_max) + " can be simulated");
  for (const SimNode &node : network.nodes)
    if (node.rank_count == 0 || node.nic_count == 0)
      return invalid_argument("every node wants at least one rank and one network port");
  RONDO_TRY(check_links(network));
  RONDO_TRY(check_value("step_us", network.step_us, 0, time_us_max));
  RONDO_TRY(check_value("switch_us", network.switch_us, 0, time_us_max));
  RONDO_TRY(check_value("reduce_GBps", network.reduce_GBps, 0, bandwidth_GBps_max));
  RONDO_TRY(check_value("reduce_send_GBps", network.reduce_send_GBps, 0, bandwidth_GBps_max));
  RONDO_TRY(check_value("copy_GBps", network.copy_GBps, 0, bandwidth_GBps_max));
  RONDO_TRY(check_value("memory_GBps", network.memory_GBps, 0, bandwidth_GBps_max));
  constexpr uint32_t slot_count_max = 1024, slot_bytes_max = 1u << 30;
  if (network.slot_count < slot_count_min || network.slot_count > slot_count_max ||
      !std::has_single_bit(network.slot_count))
    return invalid_argument("slots.count is " + std::to_string(network.slot_count) +
                            ", but wants to be a power of two from 2 to " + std::to_string(slot_count_max));
  for (const uint32_t bytes : {network.slot_bytes, network.ll_slot_bytes})
    if (bytes < 64 || bytes % 64 != 0 || bytes > slot_bytes_max)
      return invalid_argument("a slot has " + std::to_string(bytes) +
                              " bytes, but wants a multiple of 64 from 64 to 1G: slots.bytes, slots.ll_bytes");
  return {};
}

Placement::Placement(const Network &network) : nodes_(network.nodes) {
  node_of_.reserve(network.rank_count());
  for (uint32_t node = 0; node < nodes_.size(); ++node) {
    first_.push_back(static_cast<uint32_t>(node_of_.size()));
    node_of_.insert(node_of_.end(), nodes_[node].rank_count, node);
  }
}

uint32_t Placement::nic(uint32_t rank) const {
  const SimNode &node = nodes_[node_of_[rank]];
  return static_cast<uint32_t>(uint64_t{local_rank(rank)} * node.nic_count / node.rank_count);
}

LinkClass Placement::link_class(uint32_t from, uint32_t to) const {
  if (from == to) return LinkClass::self;
  if (node_of_[from] == node_of_[to]) return LinkClass::intra_node;
  return nodes_[node_of_[from]].rack == nodes_[node_of_[to]].rack ? LinkClass::inter_node : LinkClass::inter_rack;
}

}  // namespace rondo::sim
