// SPDX-License-Identifier: Apache-2.0
// This file has verify(), the entry of the verifier, and checks its rule on the partition.
#include "src/plan/verify/verifier.h"

#include <algorithm>
#include <bit>

#include "src/plan/schedule.h"
#include "src/plan/verify/parts.h"

namespace rondo {
namespace {

using verify_parts::Graph;

Violation whole(std::string reason) { return {0, 0, 0, std::move(reason)}; }

/// Sorts the ranges. Returns whether they do not overlap and their counts add up to `total`.
bool disjoint_and_complete(std::vector<Range> &ranges, uint64_t total) {
  std::erase_if(ranges, [](const Range &range) { return range.count == 0; });
  std::sort(ranges.begin(), ranges.end(), [](const Range &a, const Range &b) { return a.begin < b.begin; });
  uint64_t covered = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (i > 0 && ranges[i].begin - ranges[i - 1].begin < ranges[i - 1].count) return false;
    covered += ranges[i].count;
  }
  return covered == total;
}

/// Returns whether the channels' parts of `all` together are `all`.
bool channels_cover(Partition partition, Range all) {
  std::vector<Range> parts;
  for (partition.channel = 0; partition.channel < partition.channel_count; ++partition.channel) {
    parts.push_back(partition.channel_part(all));
    if (parts.back().count > 0 && (parts.back().begin < all.begin || parts.back().count > all.count)) return false;
  }
  return disjoint_and_complete(parts, all.count);
}

std::optional<Violation> check_partition(const Partition &partition) {
  std::vector<Range> wholes, chunks;
  uint64_t all = 0, own = 0;
  if (partition.blocks == nullptr) wholes.push_back(partition.whole);
  else wholes.assign(partition.blocks, partition.blocks + partition.chunk_count);
  for (const Range &range : wholes) {
    if (!channels_cover(partition, range)) return whole("the channels do not share out a block exactly");
    all += range.count;
    own += partition.channel_part(range).count;
  }
  if (!disjoint_and_complete(wholes, all)) return whole("blocks overlap");
  for (uint64_t tile = 0; tile < partition.tile_count; ++tile)
    for (uint32_t chunk = 0; chunk < partition.chunk_count; ++chunk) {
      chunks.push_back(partition.range(tile, chunk));
      if (chunks.back().count > partition.chunk_elements) return whole("a chunk is larger than chunk_elements");
    }
  if (!disjoint_and_complete(chunks, own)) return whole("the chunks do not cover the channel's part exactly");
  return {};
}

std::optional<Violation> check_args(const VerifyArgs &args) {
  const Partition &partition = args.partition;
  if (args.schedules.empty()) return whole("no schedules");
  if (args.slot_count == 0 || args.slot_elements == 0) return whole("slots of no size or number");
  if (partition.channel >= partition.channel_count || !std::has_single_bit(partition.align_elements) ||
      partition.chunk_elements == 0)
    return whole("the partition's numbers make no sense");
  if (in_blocks(args.collective) && args.schedules[0].chunk_count != args.schedules.size())
    return whole("not one chunk a rank, though the collective has one block a rank");
  for (uint32_t rank = 0; rank < args.schedules.size(); ++rank)
    if (args.schedules[rank].chunk_count != partition.chunk_count)
      return Violation{rank, 0, 0, "chunk_count is not the partition's"};
  return {};
}

}  // namespace

std::string to_string(const Violation &violation) {
  return "rank " + std::to_string(violation.rank) + ", lane " + std::to_string(violation.lane) + ", step " +
         std::to_string(violation.step) + ": " + violation.reason;
}

std::optional<Violation> verify(const VerifyArgs &args) {
  if (auto violation = check_args(args)) return violation;
  if (auto violation = check_partition(args.partition)) return violation;
  Graph graph;
  if (auto violation = verify_parts::resolve_links(args, graph)) return violation;
  if (auto violation = verify_parts::check_data(args, graph)) return violation;
  return verify_parts::check_slots(args, graph);
}

}  // namespace rondo
