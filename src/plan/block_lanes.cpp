// SPDX-License-Identifier: Apache-2.0
// This file makes a schedule of the lanes that move blocks.
#include "src/plan/block_lanes.h"

#include "src/plan/build.h"

namespace rondo {
namespace {

/// The largest block, in bytes, that goes by the protocol ll. Such a block and its flags fit into one cache line. For a
/// larger block, packing takes longer than moving the second cache line of a slot of `simple`.
constexpr uint64_t ll_block_bytes_max = 32;

constexpr Step own_block_step(uint32_t chunk) { return {static_cast<uint16_t>(chunk), step_src | step_dst}; }

}  // namespace

PlanChoice choose_for_blocks(uint64_t block_bytes, uint64_t slot_bytes, uint64_t ll_slot_bytes) {
  const bool by_ll = ll_slot_bytes != 0 && block_bytes <= ll_block_bytes_max;
  return {RONDO_ALGORITHM_ONE_SHOT, by_ll ? RONDO_PROTOCOL_LL : RONDO_PROTOCOL_SIMPLE, 1,
          by_ll ? ll_slot_bytes : slot_bytes, RONDO_KERNEL_INTERPRETER};
}

Schedule build_blocks(const ScheduleArgs &args) {
  const Collective &traits = traits_of(args.collective);
  Schedule schedule;
  schedule.chunk_count = args.rank_count;
  std::vector<LinkIndex> links(args.rank_count, no_link);  // indexed by rank
  const auto link_to = [&](uint32_t peer) {
    if (links[peer] == no_link) {
      links[peer] = static_cast<LinkIndex>(schedule.peers.size());
      schedule.peers.push_back(peer);
    }
    return links[peer];
  };
  const bool trades = args.in_place && trades_blocks(traits);
  each_block_lane(traits, args.rank, args.rank_count, args.root, trades, [&](const BlockLane &block) {
    Lane &lane = schedule.lanes.emplace_back();
    for (Step step : steps_of(block)) {
      const bool sends = (step.flags & step_send) != 0;
      const uint32_t from = sends ? args.rank : block.peer, to = sends ? block.peer : args.rank;
      step.chunk = static_cast<uint16_t>(block_chunk(traits, from, to, args.rank_count));
      (sends ? step.send_link : step.recv_link)[0] = link_to(block.peer);
      lane.push_back(step);
    }
  });
  const bool copies = !args.in_place && moves_block(traits, args.rank, args.rank, args.root);
  if (copies) schedule.lanes.push_back({own_block_step(block_chunk(traits, args.rank, args.rank, args.rank_count))});
  if (schedule.lanes.empty()) schedule.lanes.emplace_back();
  return schedule;
}

}  // namespace rondo
