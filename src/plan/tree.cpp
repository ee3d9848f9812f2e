// SPDX-License-Identifier: Apache-2.0
// This file has the double binary tree. Its latency grows with log(ranks). With two channels, each of the two trees
// uses half of the bandwidth.
//
// Positions 0 to n-1 form one tree. A position's height is the number of its trailing zero bits. Position 0 is on top
// and has one child. The drawing is for n = 8. If a position's parent would be n or more, its parent is one level
// higher:
//
//        0
//         \------- 4           reduce: partial sums go up; a rank reduces (own, lower child's, upper child's)
//             2 --' `-- 6      broadcast: the result goes down
//            1 3       5 7
//
// Odd positions are leaves, even ones are not. In the second tree (odd channels), almost every rank has a position of
// the other parity. So a rank that works for two children in one tree has little work in the other. Broadcast and
// reduce put the root at position 0 of both trees.
//
// All-reduce has two lanes, up and down, which run concurrently. The top rank sends results down in the same step that
// completes a sum. With one common lane, the top's sends could fill the links down while the ranks below still send up.
// All ranks would then wait for each other. Two lanes need only one slot in each link.
#include <cassert>

#include "src/plan/tree_shape.h"

namespace rondo {
namespace {

/// The place of a rank in its tree.
struct Place {
  explicit Place(const ScheduleArgs &args, bool rooted) {
    const TreePlacement placement{rooted ? args.root : 0, args.rank_count, args.channel % 2 == 1, rooted};
    const Tree tree{args.rank_count};
    const uint32_t position = placement.position(args.rank);
    assert(placement.rank(position) == args.rank);
    is_top = position == 0;
    if (!is_top) parent = placement.rank(tree.parent(position));
    children = tree.children(position);
    for (uint32_t i = 0; i < children.count; ++i)
      children.summed[i] = tree.total(children.ranks[i], [](uint32_t) { return 1u; });
    children = placement.ranks(children);
  }

  bool is_top = false;
  Peers parent, children;  ///< the rank on top has no parent
};

Schedule all_reduce(const Place &place) {
  ScheduleWriter writer(1, 2);
  if (place.is_top) {
    writer.step(0, step_src | step_dst | step_finish, place.children, place.children, lane_up);
  } else {
    writer.step(0, step_src, place.children, place.parent, lane_up);
    writer.step(0, step_dst, place.parent, place.children, lane_down);
  }
  return writer.take();
}

Schedule broadcast(const Place &place, bool in_place) {
  ScheduleWriter writer(1);
  const unsigned flags = place.is_top ? step_src | flag_if(!in_place, step_dst) : step_dst;
  writer.step(0, flags, place.parent, place.children);
  return writer.take();
}

Schedule reduce(const Place &place) {
  ScheduleWriter writer(1);
  writer.step(0, step_src | (place.is_top ? step_dst | step_finish : 0), place.children, place.parent);
  return writer.take();
}

}  // namespace

bool tree_has(rondo_collective_t collective) { return is_of_whole_vectors(collective); }

Schedule build_tree(const ScheduleArgs &args) {
  assert(args.rank < args.rank_count);
  if (args.rank_count == 1) return lone_schedule(args);
  if (args.collective == RONDO_BROADCAST) return broadcast(Place(args, true), args.in_place);
  if (args.collective == RONDO_REDUCE) return reduce(Place(args, true));
  return all_reduce(Place(args, false));
}

}  // namespace rondo
