// SPDX-License-Identifier: Apache-2.0
// The verifier works on this view of schedules: all steps of all ranks in one table, with the links resolved.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/plan/verify/verifier.h"

namespace rondo::verify_parts {

inline constexpr uint32_t none = UINT32_MAX;

/// A step, in a lane of a rank.
struct Node {
  uint32_t rank, lane, step;  ///< `lane` is an index over all ranks, see LaneInfo
  uint32_t chunk;
  uint8_t flags;
  MeanShifts mean_shifts;
  uint32_t recv_wire[2] = {none, none}, send_wire[2] = {none, none};
  uint32_t source[2] = {none, none};  ///< step that sends what recv_wire[i] delivers
  uint32_t sink[2] = {none, none};    ///< step that receives what send_wire[i] carries
  uint32_t local = none;              ///< index among the steps of the chunk, used in data.cpp

  [[nodiscard]] bool has(StepFlag flag) const { return (flags & flag) != 0; }
};

/// A directed link.
struct Wire {
  uint32_t from, to;  ///< the two ranks
  std::vector<uint32_t> sends, recvs;  ///< nodes, in the order of their lanes
};

struct LaneInfo {
  uint32_t rank, index;
  uint32_t first_node, node_count;
};

struct Graph {
  std::vector<Node> nodes;
  std::vector<Wire> wires;
  std::vector<LaneInfo> lanes;
};

[[nodiscard]] inline Violation at(const Graph &graph, const Node &node, std::string reason) {
  return {node.rank, graph.lanes[node.lane].index, node.step, std::move(reason)};
}

[[nodiscard]] inline bool is_set(const std::vector<bool> &by_rank, uint32_t rank) {
  return rank < by_rank.size() && by_rank[rank];
}

/// Fills the graph (links.cpp). Afterwards every wire's sends and recvs match one to one.
[[nodiscard]] std::optional<Violation> resolve_links(const VerifyArgs &args, Graph &graph);
/// Checks the rules on data (data.cpp).
[[nodiscard]] std::optional<Violation> check_data(const VerifyArgs &args, Graph &graph);
/// Checks the rule on deadlock (slots.cpp).
[[nodiscard]] std::optional<Violation> check_slots(const VerifyArgs &args, const Graph &graph);

}  // namespace rondo::verify_parts
