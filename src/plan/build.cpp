// SPDX-License-Identifier: Apache-2.0
// This file has the writer of schedules, and code that the direct algorithms share.
#include "src/plan/build.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "src/plan/schedule.h"

namespace rondo {

void Peers::add(uint32_t rank, uint32_t summed_ranks) {
  assert(count < 2);
  summed[count] = summed_ranks;
  ranks[count++] = rank;
}

Peers Peers::with_sum(uint32_t rank, uint32_t summed_ranks) {
  Peers peers;
  peers.add(rank, summed_ranks);
  return peers;
}

ScheduleWriter::ScheduleWriter(uint32_t chunk_count, uint32_t lane_count) {
  assert(chunk_count >= 1 && lane_count >= 1);
  schedule_.chunk_count = chunk_count;
  schedule_.lanes.resize(lane_count);
}

void ScheduleWriter::step(uint32_t chunk, unsigned flags, Peers recv, Peers send, uint32_t lane, uint32_t acc_ranks) {
  assert(chunk < schedule_.chunk_count && lane < schedule_.lanes.size());
  Step step;
  step.chunk = static_cast<uint16_t>(chunk);
  step.flags = static_cast<uint8_t>(flags | flag_if(recv.count > 0, step_recv) | flag_if(send.count > 0, step_send));
  for (uint32_t i = 0; i < recv.count; ++i) step.recv_link[i] = link(recv.ranks[i]);
  for (uint32_t i = 0; i < send.count; ++i) step.send_link[i] = link(send.ranks[i]);
  uint32_t summed[4], operands = 0;
  if ((flags & step_acc) != 0) summed[operands++] = acc_ranks;
  if ((flags & step_src) != 0) summed[operands++] = 1;
  for (uint32_t i = 0; i < recv.count; ++i) summed[operands++] = recv.summed[i];
  if (operands > 1) step.mean_shifts = mean_shifts(std::span(summed).first(operands));
  schedule_.lanes[lane].push_back(step);
}

void ScheduleWriter::send_to_all(uint32_t chunk, unsigned flags, std::span<const uint32_t> ranks, uint32_t lane) {
  for (size_t i = 0; i < ranks.size(); i += 2) {
    Peers send(ranks[i]);
    if (i + 1 < ranks.size()) send.add(ranks[i + 1]);
    step(chunk, flags, {}, send, lane);
  }
}

void ScheduleWriter::relay(uint32_t chunk, uint32_t from, std::span<const uint32_t> ranks, uint32_t lane) {
  Peers first;
  for (const uint32_t rank : ranks.first(std::min<size_t>(2, ranks.size()))) first.add(rank);
  step(chunk, step_dst, from, first, lane);
  send_to_all(chunk, step_acc, ranks.subspan(first.count), lane);
}

Schedule ScheduleWriter::take() { return std::move(schedule_); }

LinkIndex ScheduleWriter::link(uint32_t rank) {
  constexpr size_t few = 16;
  auto &peers = schedule_.peers;
  const auto end = peers.begin() + static_cast<std::ptrdiff_t>(std::min(few, peers.size()));
  const auto known = std::find(peers.begin(), end, rank);
  if (known != end) return static_cast<LinkIndex>(known - peers.begin());
  const auto next = static_cast<LinkIndex>(peers.size());
  if (next >= few) {
    const auto [found, fresh] = many_.emplace(rank, next);
    if (!fresh) return found->second;
  }
  assert(peers.size() < no_link);
  peers.push_back(rank);
  return next;
}

std::vector<uint32_t> ranks_after(uint32_t rank, uint32_t rank_count) {
  std::vector<uint32_t> ranks;
  for (uint32_t offset = 1; offset < rank_count; ++offset) ranks.push_back(ring_rank(rank, offset, rank_count));
  return ranks;
}

Schedule lone_schedule(const ScheduleArgs &args) {
  ScheduleWriter writer(1);
  const bool moves = only_moves(args.collective);
  if (!moves) writer.step(0, step_src | step_dst | step_finish, {}, {});
  if (moves && !args.in_place) writer.step(0, step_src | step_dst, {}, {});
  return writer.take();
}

bool needs_own_operand_link(const ScheduleArgs &args) {
  return args.in_place && args.rank >= 2;  // the operands of ranks 0 and 1 are used in the first step
}

void send_own_operand(ScheduleWriter &writer, const ScheduleArgs &args, uint32_t chunk) {
  if (needs_own_operand_link(args)) writer.step(chunk, step_src, {}, args.rank);
}

void check_rank_order(ScheduleWriter &writer, const ScheduleArgs &args, uint32_t chunk) {
  assert(args.rank_count >= 2);
  const bool own_by_link = needs_own_operand_link(args);
  const auto operand = [&](uint32_t rank, unsigned &flags, Peers &recv) {
    if (rank == args.rank && !own_by_link) flags |= step_src;
    else recv.add(rank);
  };
  for (uint32_t rank = 1; rank < args.rank_count; ++rank) {
    unsigned flags = step_dst | flag_if(rank > 1, step_acc) | flag_if(rank + 1 == args.rank_count, step_finish);
    Peers recv;
    if (rank == 1) operand(0, flags, recv);
    operand(rank, flags, recv);
    writer.step(chunk, flags, recv, {}, 0, rank);
  }
}

}  // namespace rondo
