// SPDX-License-Identifier: Apache-2.0
// This file has the hierarchical reduce-scatter and all-gather. For each block, a host sends one sum or receives one
// copy.
//
//     2 hosts of 2 ranks; block d belongs to rank d. On each host, rank i works for the blocks of ranks with index i.
//     reduce-scatter   host 0, block 2:  rank 1 ---> rank 0 ===> rank 2, which adds its host's sum (from 3 ---> 2)
//     all-gather       host 0, block 2:  rank 2 ===> rank 0 ---> rank 1
//                      ---> inside of a host   ===> network: S / hosts from each host to each other host, S: vector
//
// A rank's recv buffer has room for its own block only, so it cannot hold sums of other blocks. Inside of a host, the
// sums of other blocks travel around a ring, in waves of one block for each rank. A sum ends on the rank that works for
// its block. The blocks of the rank's own host come last, because sums from the network are added to them.
//
// On uneven hosts the rank with index (i mod its host's ranks) works for index i.
//
// Slots: as in a ring, slot_count > slots of a chunk is needed. A wave waits only for earlier waves, and every link to
// another host carries one chunk of a tile.
#include "src/plan/hierarchical/layout.h"

namespace rondo {
namespace {

/// Sums the blocks of `host` over this host's ranks, and sends each sum to the rank that works for the block.
void reduce_inside(ScheduleWriter &writer, const HostLayout &hosts, uint32_t host) {
  const auto &targets = hosts.ranks[host];
  const uint32_t size = hosts.own_size();
  for (uint32_t first = 0; first < targets.size(); first += size)
    for (uint32_t hop = 0; hop < size; ++hop) {
      const uint32_t index = first + (hosts.own_index + 2 * size - 1 - hop) % size;
      if (index >= targets.size()) continue;
      const Peers recv = hop > 0 ? Peers::with_sum(hosts.rank_after(size - 1), hop) : Peers();
      if (hop + 1 < size) {
        writer.step(targets[index], step_src, recv, hosts.rank_after(1));
      } else if (host != hosts.own_host) {
        writer.step(targets[index], step_src, recv, targets[index]);
      } else {
        writer.step(targets[index], step_src | step_dst | flag_if(hosts.host_count == 1, step_finish), recv, {});
      }
    }
}

/// Gathers the blocks of `host`, and forwards them to the other ranks of this host. Blocks of another host arrive from
/// the network. Blocks of this host come from its ranks.
void gather_inside(ScheduleWriter &writer, const HostLayout &hosts, uint32_t host) {
  const auto &sources = hosts.ranks[host];
  const uint32_t size = hosts.own_size();
  for (uint32_t first = 0; first < sources.size(); first += size) {
    const uint32_t own = first + hosts.own_index;
    if (host != hosts.own_host && own < sources.size())
      writer.relay(sources[own], sources[own], hosts.neighbours());
    for (uint32_t behind = 1; behind < size; ++behind) {
      const uint32_t index = first + (hosts.own_index + size - behind) % size;
      if (index < sources.size()) writer.step(sources[index], step_dst, hosts.rank_after(size - behind), {});
    }
  }
}

}  // namespace

Schedule build_hierarchical_reduce_scatter(const ScheduleArgs &args, const HostLayout &hosts) {
  ScheduleWriter writer(args.rank_count);
  for (uint32_t offset = 1; offset <= hosts.host_count; ++offset)
    reduce_inside(writer, hosts, hosts.host_after(offset));
  uint32_t summed = hosts.own_size();
  for (uint32_t offset = 1; offset < hosts.host_count; ++offset) {
    const uint32_t host = hosts.host_after(hosts.host_count - offset);
    writer.step(args.rank, step_acc | step_dst | flag_if(offset + 1 == hosts.host_count, step_finish),
                Peers::with_sum(hosts.counterpart(host, hosts.own_index), hosts.size(host)), {}, 0, summed);
    summed += hosts.size(host);
  }
  return writer.take();
}

Schedule build_hierarchical_all_gather(const ScheduleArgs &args, const HostLayout &hosts) {
  ScheduleWriter writer(args.rank_count);
  std::vector<uint32_t> takers;
  for (uint32_t offset = 1; offset < hosts.host_count; ++offset)
    takers.push_back(hosts.counterpart(hosts.host_after(offset), hosts.own_index));
  for (const uint32_t neighbour : hosts.neighbours()) takers.push_back(neighbour);
  if (!args.in_place) writer.step(args.rank, step_src | step_dst, {}, {});
  writer.send_to_all(args.rank, step_src, takers);
  for (uint32_t offset = 0; offset < hosts.host_count; ++offset)
    gather_inside(writer, hosts, hosts.host_after(hosts.host_count - offset));
  return writer.take();
}

}  // namespace rondo
