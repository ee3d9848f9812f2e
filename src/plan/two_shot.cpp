// SPDX-License-Identifier: Apache-2.0
// A two-shot has two rounds of direct messages, in which each rank works on one chunk for all ranks. It moves as many
// bytes as a ring, with the latency of two messages.
//
//     all-reduce, n = 3   1. all send chunk c to rank c, which reduces (x0 x1) x2    2. rank c sends it to all
//     broadcast           1. the root sends each other rank a different chunk        2. that rank sends it to all
//     reduce              1. as in all-reduce                                        2. rank c sends it to the root
//
// Only the root of a reduce may write its recv buffer. Another rank keeps its partial sum in its loop-back link. Each
// step takes the sum out and puts it back, which needs slot_count > slots of a chunk.
#include <cassert>

#include "src/plan/build.h"

namespace rondo {
namespace {

/// Sends each operand to the rank that reduces it. This rank's own chunk stays on this rank.
void scatter_operands(ScheduleWriter &writer, const ScheduleArgs &args) {
  for (const uint32_t peer : ranks_after(args.rank, args.rank_count)) writer.step(peer, step_src, {}, peer);
}

void receive_chunks(ScheduleWriter &writer, const ScheduleArgs &args) {
  for (uint32_t offset = 1; offset < args.rank_count; ++offset) {
    const uint32_t peer = ring_rank(args.rank, args.rank_count - offset, args.rank_count);
    writer.step(peer, step_dst, peer, {});
  }
}

Schedule two_shot_all_reduce(const ScheduleArgs &args) {
  ScheduleWriter writer(args.rank_count);
  scatter_operands(writer, args);
  send_own_operand(writer, args, args.rank);
  check_rank_order(writer, args, args.rank);
  writer.send_to_all(args.rank, step_acc, ranks_after(args.rank, args.rank_count));
  receive_chunks(writer, args);
  return writer.take();
}

/// Builds a broadcast. Rank root + 1 + i forwards chunk i. The root only sends, and sends each chunk once.
Schedule two_shot_broadcast(const ScheduleArgs &args) {
  const uint32_t chunk_count = args.rank_count - 1;
  const auto sharer = [&](uint32_t chunk) { return ring_rank(args.root, 1 + chunk, args.rank_count); };
  ScheduleWriter writer(chunk_count);
  if (args.rank == args.root) {
    for (uint32_t chunk = 0; chunk < chunk_count; ++chunk)
      writer.step(chunk, step_src | flag_if(!args.in_place, step_dst), {}, sharer(chunk));
    return writer.take();
  }
  const uint32_t own = ring_rank(args.rank, args.rank_count - sharer(0), args.rank_count);
  assert(sharer(own) == args.rank);
  std::vector<uint32_t> others;
  for (uint32_t offset = 1; offset < chunk_count; ++offset) others.push_back(sharer((own + offset) % chunk_count));
  writer.step(own, step_dst, args.root, {});
  writer.send_to_all(own, step_acc, others);
  for (uint32_t offset = 1; offset < chunk_count; ++offset) {
    const uint32_t chunk = (own + chunk_count - offset) % chunk_count;
    writer.step(chunk, step_dst, sharer(chunk), {});
  }
  return writer.take();
}

/// Reduces like check_rank_order(), but the partial sum is in the loop-back link, not in dst. The last step sends the
/// sum to the root.
void reduce_for_root(ScheduleWriter &writer, const ScheduleArgs &args) {
  for (uint32_t rank = 1; rank < args.rank_count; ++rank) {
    const bool last = rank + 1 == args.rank_count;
    unsigned flags = flag_if(last, step_finish);
    Peers recv;
    if (rank > 1) recv.add(args.rank, rank);
    for (uint32_t operand = rank == 1 ? 0 : rank; operand <= rank; ++operand) {
      if (operand == args.rank) flags |= step_src;
      else recv.add(operand);
    }
    writer.step(args.rank, flags, recv, last ? args.root : args.rank);
  }
}

Schedule two_shot_reduce(const ScheduleArgs &args) {
  ScheduleWriter writer(args.rank_count);
  scatter_operands(writer, args);
  if (args.rank == args.root) {
    send_own_operand(writer, args, args.rank);
    check_rank_order(writer, args, args.rank);
    receive_chunks(writer, args);
  } else {
    reduce_for_root(writer, args);
  }
  return writer.take();
}

}  // namespace

bool two_shot_has(rondo_collective_t collective) { return is_of_whole_vectors(collective); }

Schedule build_two_shot(const ScheduleArgs &args) {
  assert(args.rank < args.rank_count && args.rank_count <= all_links_rank_count_max);
  if (args.rank_count == 1) return lone_schedule(args);
  if (args.collective == RONDO_BROADCAST) return two_shot_broadcast(args);
  if (args.collective == RONDO_REDUCE) return two_shot_reduce(args);
  return two_shot_all_reduce(args);
}

}  // namespace rondo
