// SPDX-License-Identifier: Apache-2.0
// The hierarchical all-reduce keeps most bytes inside of hosts. Each byte crosses the network as seldom as possible.
//
//     2 hosts of 2 ranks, k = host, i = index of the rank in its host; chunk (i, j) for each owner i and host j
//     1. inside     every rank sends its operand of (i, j) to owner i of its host, which computes the host's sum
//     2. between    owner i sends its host's sum of (i, j) to owner i of host j, which computes the whole sum
//     3. both back  owner i of host j sends the result to every other owner i; each owner sends it to its host's ranks
//
//      host 0: rank 0 <--> rank 1          rank 0 owns (0, *), rank 1 owns (1, *) of host 0's sums
//                |           |             network: S/2 for each pair and direction, S in all (S: bytes of the vector)
//      host 1: rank 2 <--> rank 3
//
// An owner is a rank that computes its host's sums of some chunks. Each host has as many owners as the smallest host
// has ranks. On larger hosts, the other ranks own nothing, so hosts may be uneven.
//
// Slots: all ranks of a host handle the chunks in the same order of j, and each link has at most one chunk in flight.
// So slot_count > slots of a chunk suffices. Host k handles j = k + 1, k + 2, ..., k in this order. So it computes the
// whole sum of (i, k) last, after the other hosts have sent their sums of that chunk. A host's sums depend only on its
// own ranks, so no host delays another host's sums.
#include <cassert>

#include "src/plan/hierarchical/layout.h"

namespace rondo {
namespace {

/// Returns the chunk that belongs to an owner and a host.
uint32_t chunk_of(const HostLayout &hosts, uint32_t owner, uint32_t host) { return owner * hosts.host_count + host; }

/// Reduces this rank's operand, which is a sum over `summed` ranks, and then the operands of `peers`, one in each step.
/// The first step reads the rank's operand. Each step writes its result to dst, but the last step may send its result
/// to `send` instead. If `finish` is set, the last step completes the reduction.
void reduce_from(ScheduleWriter &writer, uint32_t chunk, std::span<const Peers> peers, unsigned first_flag,
                 uint32_t summed, bool finish, Peers send) {
  const auto last_flags = static_cast<unsigned>(flag_if(finish, step_finish) | flag_if(send.count == 0, step_dst));
  if (peers.empty()) return writer.step(chunk, first_flag | last_flags, {}, send);
  for (size_t at = 0; at < peers.size(); ++at) {
    const bool last = at + 1 == peers.size();
    const unsigned operand = at == 0 ? first_flag : unsigned{step_acc};
    writer.step(chunk, operand | (last ? last_flags : unsigned{step_dst}), peers[at], last ? send : Peers(), 0, summed);
    summed += peers[at].summed[0];
  }
}

/// Writes steps 1 and 2 of the head of this file. Afterwards dst holds the result of this rank's chunk (i, k).
void reduce_part(ScheduleWriter &writer, const HostLayout &hosts) {
  std::vector<Peers> neighbours;
  for (const uint32_t neighbour : hosts.neighbours()) neighbours.emplace_back(neighbour);
  for (uint32_t offset = 1; offset <= hosts.host_count; ++offset) {
    const uint32_t host = hosts.host_after(offset);
    const auto &own_ranks = hosts.own_ranks();
    for (uint32_t behind = 1; behind < own_ranks.size(); ++behind) {
      const auto owner = static_cast<uint32_t>((hosts.own_index + behind) % own_ranks.size());
      if (owner < hosts.owner_count) writer.step(chunk_of(hosts, owner, host), step_src, {}, own_ranks[owner]);
    }
    if (!hosts.owns()) continue;
    const uint32_t chunk = chunk_of(hosts, hosts.own_index, host);
    const bool own = host == hosts.own_host;
    reduce_from(writer, chunk, neighbours, step_src, 1, own && hosts.host_count == 1,
              own ? Peers() : Peers(hosts.counterpart(host, hosts.own_index)));
  }
  if (!hosts.owns() || hosts.host_count == 1) return;
  std::vector<Peers> counterparts;
  for (uint32_t offset = 1; offset < hosts.host_count; ++offset) {
    const uint32_t host = hosts.host_after(offset);
    counterparts.push_back(Peers::with_sum(hosts.counterpart(host, hosts.own_index), hosts.size(host)));
  }
  reduce_from(writer, chunk_of(hosts, hosts.own_index, hosts.own_host), counterparts, step_acc, hosts.own_size(), true,
              {});
}

/// Writes step 3 of the head of this file, host by host: first this host's results, then the other hosts' results.
void gather_part(ScheduleWriter &writer, const HostLayout &hosts) {
  const std::vector<uint32_t> neighbours = hosts.neighbours();
  const auto &own_ranks = hosts.own_ranks();
  for (uint32_t offset = 0; offset < hosts.host_count; ++offset) {
    const uint32_t host = hosts.host_after(offset);
    if (hosts.owns()) {
      const uint32_t chunk = chunk_of(hosts, hosts.own_index, host);
      std::vector<uint32_t> takers;
      for (uint32_t other = 1; offset == 0 && other < hosts.host_count; ++other)
        takers.push_back(hosts.counterpart(hosts.host_after(other), hosts.own_index));
      takers.insert(takers.end(), neighbours.begin(), neighbours.end());
      if (offset != 0) writer.step(chunk, step_dst, hosts.counterpart(host, hosts.own_index), {});
      writer.send_to_all(chunk, step_acc, takers);
    }
    for (uint32_t behind = 1; behind < own_ranks.size(); ++behind) {
      const auto owner = static_cast<uint32_t>((hosts.own_index + own_ranks.size() - behind) % own_ranks.size());
      if (owner < hosts.owner_count) writer.step(chunk_of(hosts, owner, host), step_dst, own_ranks[owner], {});
    }
  }
}

Schedule all_reduce(const HostLayout &hosts) {
  ScheduleWriter writer(hosts.owner_count * hosts.host_count);
  reduce_part(writer, hosts);
  gather_part(writer, hosts);
  return writer.take();
}

Schedule build(const ScheduleArgs &args, const HostLayout &hosts) {
  switch (args.collective) {
    case RONDO_REDUCE_SCATTER: return build_hierarchical_reduce_scatter(args, hosts);
    case RONDO_ALL_GATHER: return build_hierarchical_all_gather(args, hosts);
    case RONDO_BROADCAST: return build_hierarchical_broadcast(args, hosts);
    case RONDO_REDUCE: return build_hierarchical_reduce(args, hosts);
    default: return all_reduce(hosts);  // an all-reduce or a barrier
  }
}

}  // namespace

bool hierarchical_has(rondo_collective_t collective) { return is_of_blocks_or_whole(collective); }

Schedule build_hierarchical(const ScheduleArgs &args) {
  assert(args.rank < args.rank_count && args.rank_count <= chunked_rank_count_max);
  if (args.rank_count == 1) return lone_schedule(args);
  return with_layout(args, [&](const HostLayout &hosts) { return build(args, hosts); });
}

}  // namespace rondo
