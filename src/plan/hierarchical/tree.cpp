// SPDX-License-Identifier: Apache-2.0
// In the hierarchical tree, each host has a leader. The leaders form a tree over the network, and the ranks of each
// host form a tree below their leader.
//
//     3 hosts of 3 ranks, leaders 0, 3, 6       0 ============== 6
//     ---  inside of a host                     |`-- 2           |`-- 8
//     ===  network                              1     `== 3      7
//                                                         |`-- 5
//                                                         4
//
// Data take as many network hops up or down as the tree of hosts is deep. Each host sends one message up and receives
// one down, however many ranks it has. On channel c, the rank with index c leads its host (modulo the host's ranks). On
// odd channels, hosts form the second tree of src/plan/tree.cpp. A root leads its host, and its host is on top.
//
// A leader has up to three children: one of its own host, and two other leaders. But a step receives only two operands,
// and in a reduce only the root may write its recv buffer. So a leader puts the sum of its own operand and two
// children's sums into its loop-back link. The next step takes it out and adds the third child's sum.
//
// Slots: two lanes, as in a tree. The loop-back link needs slot_count > slots of a chunk.
#include <cassert>

#include "src/plan/hierarchical/layout.h"
#include "src/plan/tree_shape.h"

namespace rondo {
namespace {

/// The place of a rank in the tree.
struct TreePlace {
  TreePlace(const ScheduleArgs &args, const HostLayout &hosts, bool rooted) {
    const HostPlace root = rooted ? place_of(hosts, args.root) : HostPlace();
    const auto leader_of = [&](uint32_t host) {
      return rooted && host == root.host ? root.index
                                         : args.channel % static_cast<uint32_t>(hosts.ranks[host].size());
    };
    const uint32_t own_leader = leader_of(hosts.own_host), size = hosts.own_size();
    const auto local_rank = [&](uint32_t position) { return hosts.own_ranks()[ring_rank(position, own_leader, size)]; };
    const uint32_t position = ring_rank(hosts.own_index, size - own_leader, size);
    const Tree inside{size};
    add_children(inside, position, local_rank, [](uint32_t) { return 1u; });
    if (position != 0) {
      parent = local_rank(inside.parent(position));
      return;
    }
    const TreePlacement placement{root.host, hosts.host_count, args.channel % 2 == 1, rooted};
    const Tree between{hosts.host_count};
    const uint32_t host_position = placement.position(hosts.own_host);
    const auto leader_rank = [&](uint32_t at) {
      const uint32_t host = placement.rank(at);
      return hosts.ranks[host][leader_of(host)];
    };
    add_children(between, host_position, leader_rank, [&](uint32_t at) { return hosts.size(placement.rank(at)); });
    is_top = host_position == 0;
    if (!is_top) parent = leader_rank(between.parent(host_position));
  }

  bool is_top = false;
  Peers parent;                    ///< parent in the tree; empty for the rank on top
  std::vector<uint32_t> children;  ///< children; ranks of this host come first, because their sums arrive first
  std::vector<uint32_t> summed;    ///< for each child, the number of ranks in its subtree, including the child

 private:
  template <class RankOf, class Weight>
  void add_children(const Tree &tree, uint32_t position, const RankOf &rank_of, const Weight &weight) {
    const Peers positions = tree.children(position);
    for (uint32_t i = 0; i < positions.count; ++i) {
      children.push_back(rank_of(positions.ranks[i]));
      summed.push_back(tree.total(positions.ranks[i], weight));
    }
  }
};

/// Returns the ranks to which this rank sends. Leaders of other hosts come first, because their paths are the longest.
std::vector<uint32_t> takers_of(const TreePlace &place) { return {place.children.rbegin(), place.children.rend()}; }

/// Sums this rank's operand and the children's sums. The result goes to the parent, or at the top of the tree to dst.
void sum_up(ScheduleWriter &writer, const TreePlace &place, uint32_t rank) {
  assert(place.children.size() <= 3);
  const unsigned last = place.is_top ? step_dst | step_finish : 0;
  Peers first;
  for (size_t child = 0; child < place.children.size() && child < 2; ++child)
    first.add(place.children[child], place.summed[child]);
  if (place.children.size() < 3) return writer.step(0, step_src | last, first, place.parent, lane_up);
  writer.step(0, step_src, first, rank, lane_up);
  Peers second = Peers::with_sum(rank, 1 + place.summed[0] + place.summed[1]);
  second.add(place.children[2], place.summed[2]);
  writer.step(0, last, second, place.parent, lane_up);
}

Schedule all_reduce(const TreePlace &place, uint32_t rank) {
  ScheduleWriter writer(1, 2);
  sum_up(writer, place, rank);
  if (place.is_top) writer.send_to_all(0, step_acc, takers_of(place), lane_up);
  else writer.relay(0, place.parent.ranks[0], takers_of(place), lane_down);
  return writer.take();
}

Schedule broadcast(const TreePlace &place, bool in_place) {
  ScheduleWriter writer(1);
  if (!place.is_top) {
    writer.relay(0, place.parent.ranks[0], takers_of(place));
    return writer.take();
  }
  if (!in_place) writer.step(0, step_src | step_dst, {}, {});
  writer.send_to_all(0, step_src, takers_of(place));
  return writer.take();
}

Schedule reduce(const TreePlace &place, uint32_t rank) {
  ScheduleWriter writer(1);
  sum_up(writer, place, rank);
  return writer.take();
}

}  // namespace

bool hierarchical_tree_has(rondo_collective_t collective) { return is_of_whole_vectors(collective); }

Schedule build_hierarchical_tree(const ScheduleArgs &args) {
  assert(args.rank < args.rank_count);
  if (args.rank_count == 1) return lone_schedule(args);
  return with_layout(args, [&](const HostLayout &hosts) {
    if (args.collective == RONDO_BROADCAST) return broadcast(TreePlace(args, hosts, true), args.in_place);
    if (args.collective == RONDO_REDUCE) return reduce(TreePlace(args, hosts, true), args.rank);
    return all_reduce(TreePlace(args, hosts, false), args.rank);
  });
}

}  // namespace rondo
