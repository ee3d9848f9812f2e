// SPDX-License-Identifier: Apache-2.0
// This file checks the verifier's rules on single steps and on links. A link is a FIFO with one sending and one
// receiving lane. So if both ends name the same chunks in the same order, the k-th receive always gets the k-th send.
#include <string>
#include <unordered_map>
#include <utility>

#include "src/plan/verify/parts.h"

namespace rondo::verify_parts {
namespace {

constexpr unsigned known_flags = step_recv | step_src | step_acc | step_dst | step_send | step_finish;

class Resolver {
 public:
  Resolver(const VerifyArgs &args, Graph &graph) : args_(args), graph_(graph) {}

  std::optional<Violation> run() {
    for (uint32_t rank = 0; rank < args_.schedules.size(); ++rank) {
      if (auto violation = check_peers(rank)) return violation;
      if (auto violation = add_steps(rank)) return violation;
    }
    for (const Wire &wire : graph_.wires)
      if (auto violation = match(wire)) return violation;
    return {};
  }

 private:
  std::optional<Violation> check_peers(uint32_t rank) const {
    const auto &peers = args_.schedules[rank].peers;
    if (peers.size() > no_link) return Violation{rank, 0, 0, "more links than a step can name"};
    std::vector<bool> seen(args_.schedules.size());
    for (const uint32_t peer : peers) {
      if (peer >= seen.size())
        return Violation{rank, 0, 0, "a link to rank " + std::to_string(peer) + ": no such rank"};
      if (seen[peer]) return Violation{rank, 0, 0, "two links to rank " + std::to_string(peer)};
      seen[peer] = true;
    }
    return {};
  }

  std::optional<Violation> add_steps(uint32_t rank) {
    const Schedule &schedule = args_.schedules[rank];
    for (uint32_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      const Lane &steps = schedule.lanes[lane];
      const auto lane_id = static_cast<uint32_t>(graph_.lanes.size());
      const auto first = static_cast<uint32_t>(graph_.nodes.size());
      graph_.lanes.push_back({rank, lane, first, static_cast<uint32_t>(steps.size())});
      for (uint32_t step = 0; step < steps.size(); ++step) {
        Node node{.rank = rank, .lane = lane_id, .step = step, .chunk = steps[step].chunk, .flags = steps[step].flags,
                  .mean_shifts = steps[step].mean_shifts};
        if (auto violation = check_flags(node, schedule.chunk_count)) return violation;
        graph_.nodes.push_back(node);
        if (auto violation = attach(steps[step], step_recv, schedule)) return violation;
        if (auto violation = attach(steps[step], step_send, schedule)) return violation;
      }
    }
    return {};
  }

  std::optional<Violation> check_flags(const Node &node, uint32_t chunk_count) const {
    if (node.chunk >= chunk_count) return at(graph_, node, "chunk " + std::to_string(node.chunk) + ": no such chunk");
    if ((node.flags & ~known_flags) != 0) return at(graph_, node, "unknown flags");
    if (!node.has(step_recv) && !node.has(step_src) && !node.has(step_acc)) return at(graph_, node, "has no operand");
    if (!node.has(step_dst) && !node.has(step_send)) return at(graph_, node, "its result goes nowhere");
    return {};
  }

  /// Adds the newest node to the wires of its links.
  std::optional<Violation> attach(const Step &step, StepFlag flag, const Schedule &schedule) {
    const auto id = static_cast<uint32_t>(graph_.nodes.size() - 1);
    Node &node = graph_.nodes[id];
    if (!node.has(flag)) return {};
    const bool sends = flag == step_send;
    const auto &links = sends ? step.send_link : step.recv_link;
    if (links[0] == links[1]) return at(graph_, node, "names a link twice, or none");
    for (int i = 0; i < 2; ++i) {
      if (i == 1 && links[i] == no_link) break;
      if (links[i] >= schedule.peers.size()) return at(graph_, node, "no link " + std::to_string(links[i]));
      const uint32_t peer = schedule.peers[links[i]];
      const uint32_t wire_id = sends ? wire(node.rank, peer) : wire(peer, node.rank);
      auto &users = sends ? graph_.wires[wire_id].sends : graph_.wires[wire_id].recvs;
      if (!users.empty() && graph_.nodes[users.back()].lane != node.lane)
        return at(graph_, node, "another lane " + std::string(sends ? "sends" : "receives") +
                                    " on its link to rank " + std::to_string(peer) + ", too");
      users.push_back(id);
      (sends ? node.send_wire : node.recv_wire)[i] = wire_id;
    }
    return {};
  }

  uint32_t wire(uint32_t from, uint32_t to) {
    const auto next = static_cast<uint32_t>(graph_.wires.size());
    const auto [found, added] = wire_ids_.try_emplace(uint64_t{from} << 32 | to, next);
    if (added) graph_.wires.push_back({from, to, {}, {}});
    return found->second;
  }

  std::optional<Violation> match(const Wire &wire) {
    for (size_t i = 0; i < wire.sends.size() && i < wire.recvs.size(); ++i) {
      Node &sender = graph_.nodes[wire.sends[i]], &receiver = graph_.nodes[wire.recvs[i]];
      if (sender.chunk != receiver.chunk)
        return at(graph_, receiver, "expects chunk " + std::to_string(receiver.chunk) + " where rank " +
                                        std::to_string(wire.from) + " sends chunk " + std::to_string(sender.chunk));
      sender.sink[graph_.wires[sender.send_wire[0]].to == wire.to ? 0 : 1] = wire.recvs[i];
      receiver.source[graph_.wires[receiver.recv_wire[0]].from == wire.from ? 0 : 1] = wire.sends[i];
    }
    if (wire.sends.size() > wire.recvs.size())
      return at(graph_, graph_.nodes[wire.sends[wire.recvs.size()]],
                "sends what rank " + std::to_string(wire.to) + " does not receive");
    if (wire.recvs.size() > wire.sends.size())
      return at(graph_, graph_.nodes[wire.recvs[wire.sends.size()]],
                "expects what rank " + std::to_string(wire.from) + " does not send");
    return {};
  }

  const VerifyArgs &args_;
  Graph &graph_;
  std::unordered_map<uint64_t, uint32_t> wire_ids_;
};

}  // namespace

std::optional<Violation> resolve_links(const VerifyArgs &args, Graph &graph) { return Resolver(args, graph).run(); }

}  // namespace rondo::verify_parts
