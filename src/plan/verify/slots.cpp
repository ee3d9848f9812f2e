// SPDX-License-Identifier: Apache-2.0
// This file checks the verifier's rule on deadlock. It runs the lanes once, counts slots, and checks whether all lanes
// reach their end.
//
// One run decides for all interleavings. A step is enabled if each of its receive links holds a slot and each of its
// send links has room. No other lane takes slots from those receive links, or puts slots into those send links. So an
// enabled step stays enabled until it runs, and two enabled steps of different lanes have the same outcome in either
// order. Hence every run gets equally far (the diamond property). If one run reaches the end, all runs do. If one run
// gets stuck, all runs get stuck at the same steps.
//
// A step that receives and sends keeps the received slot until it has room to send, also on loop-back links.
#include <algorithm>
#include <string>

#include "src/plan/verify/parts.h"

namespace rondo::verify_parts {
namespace {

class Runner {
 public:
  Runner(const VerifyArgs &args, const Graph &graph)
      : args_(args), graph_(graph), held_(graph.wires.size()), cursors_(graph.lanes.size()) {
    for (uint32_t lane = 0; lane < graph.lanes.size(); ++lane) {
      enter_step(lane);
      wake(lane);
    }
  }

  std::optional<Violation> run() {
    while (!runnable_.empty()) {  // ends, because every slot moves once
      const uint32_t lane = runnable_.back();
      runnable_.pop_back();
      cursors_[lane].queued = false;
      while (advance(lane)) continue;
    }
    for (uint32_t lane = 0; lane < graph_.lanes.size(); ++lane)
      if (!done(lane)) return stuck(lane);
    return {};
  }

 private:
  struct Cursor {
    uint64_t tile = 0;
    uint32_t step = 0;
    uint64_t slots_left = 0;
    bool queued = false;
  };

  [[nodiscard]] bool done(uint32_t lane) const {
    return graph_.lanes[lane].node_count == 0 || cursors_[lane].tile >= args_.partition.tile_count;
  }

  [[nodiscard]] const Node &current(uint32_t lane) const {
    return graph_.nodes[graph_.lanes[lane].first_node + cursors_[lane].step];
  }

  /// Sets slots_left for the next step, and skips empty chunks.
  void enter_step(uint32_t lane) {
    Cursor &cursor = cursors_[lane];
    while (!done(lane)) {
      const uint64_t count = args_.partition.range(cursor.tile, current(lane).chunk).count;
      cursor.slots_left = count / args_.slot_elements + (count % args_.slot_elements != 0 ? 1 : 0);
      if (cursor.slots_left > 0) return;
      next_step(lane);
    }
  }

  void next_step(uint32_t lane) {
    Cursor &cursor = cursors_[lane];
    if (++cursor.step == graph_.lanes[lane].node_count) cursor.step = 0, ++cursor.tile;
  }

  bool advance(uint32_t lane) {
    if (done(lane)) return false;
    const Node &node = current(lane);
    if (blocking_recv(node) != none || blocking_send(node) != none) return false;
    for (const uint32_t wire : node.recv_wire)
      if (wire != none) --held_[wire], wake(graph_.nodes[graph_.wires[wire].sends[0]].lane);
    for (const uint32_t wire : node.send_wire)
      if (wire != none) ++held_[wire], wake(graph_.nodes[graph_.wires[wire].recvs[0]].lane);
    if (--cursors_[lane].slots_left == 0) {
      next_step(lane);
      enter_step(lane);
    }
    return true;
  }

  [[nodiscard]] uint32_t blocking_recv(const Node &node) const {
    for (const uint32_t wire : node.recv_wire)
      if (wire != none && held_[wire] == 0) return wire;
    return none;
  }

  [[nodiscard]] uint32_t blocking_send(const Node &node) const {
    for (const uint32_t wire : node.send_wire)
      if (wire != none && held_[wire] >= args_.slot_count) return wire;
    return none;
  }

  void wake(uint32_t lane) {
    if (cursors_[lane].queued) return;
    cursors_[lane].queued = true;
    runnable_.push_back(lane);
  }

  [[nodiscard]] Violation stuck(uint32_t lane) const {
    const Node &node = current(lane);
    const uint32_t recv = blocking_recv(node);
    const std::string where = " (tile " + std::to_string(cursors_[lane].tile) + ")";
    if (recv != none)
      return at(graph_, node, "deadlock: waits for rank " + std::to_string(graph_.wires[recv].from) + where);
    return at(graph_, node, "deadlock: all " + std::to_string(args_.slot_count) + " slots to rank " +
                                std::to_string(graph_.wires[blocking_send(node)].to) + " stay full" + where);
  }

  const VerifyArgs &args_;
  const Graph &graph_;
  std::vector<uint32_t> held_;  ///< number of slots in each wire
  std::vector<Cursor> cursors_;
  std::vector<uint32_t> runnable_;
};

}  // namespace

std::optional<Violation> check_slots(const VerifyArgs &args, const Graph &graph) { return Runner(args, graph).run(); }

}  // namespace rondo::verify_parts
