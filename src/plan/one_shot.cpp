// SPDX-License-Identifier: Apache-2.0
// In a one-shot, every rank sends its data directly to all others. The latency is the latency of one message, but a
// rank sends its data n - 1 times.
//
//   all-reduce, n = 3      0 --x0--> 1, 2     1 --x1--> 2, 0     2 --x2--> 0, 1     then each reduces (x0 x1) x2
//
// Operands are reduced in rank order on every rank (check_rank_order), so all results are bit-equal. A rank sends first
// to the rank after it, and receives first from the rank before it. All sends of a tile precede its first receive, so
// each link needs room for one chunk.
#include <cassert>

#include "src/plan/build.h"
#include "src/plan/collective.h"

namespace rondo {
namespace {

Schedule all_reduce(const ScheduleArgs &args) {
  ScheduleWriter writer(1);
  writer.send_to_all(0, step_src, ranks_after(args.rank, args.rank_count));
  send_own_operand(writer, args, 0);
  check_rank_order(writer, args, 0);
  return writer.take();
}

Schedule reduce_scatter(const ScheduleArgs &args) {
  ScheduleWriter writer(args.rank_count);
  for (const uint32_t peer : ranks_after(args.rank, args.rank_count)) writer.step(peer, step_src, {}, peer);
  send_own_operand(writer, args, args.rank);
  check_rank_order(writer, args, args.rank);
  return writer.take();
}

Schedule all_gather(const ScheduleArgs &args) {
  ScheduleWriter writer(args.rank_count);
  if (!args.in_place) writer.step(args.rank, step_src | step_dst, {}, {});
  writer.send_to_all(args.rank, step_src, ranks_after(args.rank, args.rank_count));
  for (uint32_t offset = 1; offset < args.rank_count; ++offset) {
    const uint32_t peer = ring_rank(args.rank, args.rank_count - offset, args.rank_count);
    writer.step(peer, step_dst, peer, {});
  }
  return writer.take();
}

Schedule broadcast(const ScheduleArgs &args) {
  ScheduleWriter writer(1);
  if (args.rank == args.root) {
    writer.send_to_all(0, step_src, ranks_after(args.rank, args.rank_count));
    if (!args.in_place) writer.step(0, step_src | step_dst, {}, {});
  } else {
    writer.step(0, step_dst, args.root, {});
  }
  return writer.take();
}

Schedule reduce(const ScheduleArgs &args) {
  ScheduleWriter writer(1);
  if (args.rank == args.root) {
    send_own_operand(writer, args, 0);
    check_rank_order(writer, args, 0);
  } else {
    writer.step(0, step_src, {}, args.root);
  }
  return writer.take();
}

}  // namespace

bool one_shot_has(rondo_collective_t collective) {
  return is_of_blocks_or_whole(collective) || exchanges_blocks(collective);
}

Schedule build_one_shot(const ScheduleArgs &args) {
  assert(args.rank < args.rank_count && args.rank_count <= all_links_rank_count_max);
  if (exchanges_blocks(args.collective)) return build_blocks(args);
  if (args.rank_count == 1) return lone_schedule(args);
  switch (args.collective) {
    case RONDO_REDUCE_SCATTER: return reduce_scatter(args);
    case RONDO_ALL_GATHER: return all_gather(args);
    case RONDO_BROADCAST: return broadcast(args);
    case RONDO_REDUCE: return reduce(args);
    default: return all_reduce(args);  // an all-reduce or a barrier
  }
}

}  // namespace rondo
