// SPDX-License-Identifier: Apache-2.0
// Hierarchical all-reduce: most bytes stay inside of a host, and each byte crosses the network as seldom as it can.
//
//   2 hosts of 2 ranks, k = host, i = number of the rank in it; chunk (i, j) for each owner i and host j
//   1. inside     every rank sends its operand of (i, j) to owner i of its host, which folds its host's sum of it
//   2. between    owner i sends its host's sum of (i, j) to owner i of host j, which folds the whole
//   3. both back  owner i of host j sends the result to the other owners i, and each to the ranks of its host
//
//      host 0: rank 0 <--> rank 1          rank 0 owns (0, *), rank 1 owns (1, *) of host 0's sums
//                |           |             network: S/2 for each pair and direction, S in all (S: bytes of the vector)
//      host 1: rank 2 <--> rank 3
//
// There are as many owners as the smallest host has ranks; further ranks of a host own nothing, so hosts may be uneven.
// Slots: everything is ordered by j, the same on all ranks of a host, and each link has one chunk on its way at most:
// slot_count > slots a chunk suffices. The whole of (i, k) is folded by host k last (j = k + 1, k + 2, ..., k), when
// all hosts have sent their sums of it, which none of them delays: a host's sums depend on its own ranks only.
#include <algorithm>
#include <cassert>

#include "src/plan/build.h"

namespace rondo {
namespace {

struct Hosts {
  explicit Hosts(const ScheduleArgs &args) {
    std::vector<uint32_t> first_of;  // by host: what node_of says of its ranks
    for (uint32_t rank = 0; rank < args.rank_count; ++rank) {
      const uint32_t node = args.node_of.empty() ? 0 : args.node_of[rank];
      const auto found = std::find(first_of.begin(), first_of.end(), node);
      const auto host = static_cast<uint32_t>(found - first_of.begin());
      if (found == first_of.end()) {
        first_of.push_back(node);
        ranks.emplace_back();
      }
      if (rank == args.rank) {
        own_host = host;
        own_index = static_cast<uint32_t>(ranks[host].size());
      }
      ranks[host].push_back(rank);
    }
    owner_count = static_cast<uint32_t>(ranks[0].size());
    for (const auto &of_host : ranks) owner_count = std::min(owner_count, static_cast<uint32_t>(of_host.size()));
    host_count = static_cast<uint32_t>(ranks.size());
  }

  [[nodiscard]] uint32_t chunk(uint32_t owner, uint32_t host) const { return owner * host_count + host; }
  [[nodiscard]] bool owns() const { return own_index < owner_count; }
  /// The other ranks of this host, beginning behind this one.
  [[nodiscard]] std::vector<uint32_t> neighbours() const {
    const auto &all = ranks[own_host];
    std::vector<uint32_t> others;
    for (uint32_t offset = 1; offset < all.size(); ++offset) others.push_back(all[(own_index + offset) % all.size()]);
    return others;
  }
  /// Host own_host + offset.
  [[nodiscard]] uint32_t host_after(uint32_t offset) const { return (own_host + offset) % host_count; }
  [[nodiscard]] uint32_t counterpart(uint32_t host) const { return ranks[host][own_index]; }

  std::vector<std::vector<uint32_t>> ranks;  ///< by host
  uint32_t own_host = 0;
  uint32_t own_index = 0;
  uint32_t owner_count = 0;
  uint32_t host_count = 0;
};

/// x(own) and then the operands of `peers`, one a step: the first step reads the own operand, and the result of each
/// goes to dst; the last one may go to `send` instead, and is marked `finish` if nothing comes after it.
void fold_from(ScheduleWriter &writer, uint32_t chunk, std::span<const uint32_t> peers, unsigned first_flag,
               bool finish, Peers send) {
  const auto last_flags = static_cast<unsigned>(flag_if(finish, step_finish) | flag_if(send.count == 0, step_dst));
  if (peers.empty()) return writer.step(chunk, first_flag | last_flags, {}, send);
  for (size_t at = 0; at < peers.size(); ++at) {
    const bool last = at + 1 == peers.size();
    const unsigned operand = at == 0 ? first_flag : unsigned{step_acc};
    writer.step(chunk, operand | (last ? last_flags : unsigned{step_dst}), peers[at], last ? send : Peers());
  }
}

/// Steps 1 and 2 of the head of this file; the result of the own (i, k) is in dst.
void reduce_part(ScheduleWriter &writer, const Hosts &hosts) {
  const std::vector<uint32_t> neighbours = hosts.neighbours();
  for (uint32_t offset = 1; offset <= hosts.host_count; ++offset) {
    const uint32_t host = hosts.host_after(offset);
    const auto &own_ranks = hosts.ranks[hosts.own_host];
    for (uint32_t behind = 1; behind < own_ranks.size(); ++behind) {
      const auto owner = static_cast<uint32_t>((hosts.own_index + behind) % own_ranks.size());
      if (owner < hosts.owner_count) writer.step(hosts.chunk(owner, host), step_src, {}, own_ranks[owner]);
    }
    if (!hosts.owns()) continue;
    const uint32_t chunk = hosts.chunk(hosts.own_index, host);
    const bool own = host == hosts.own_host;
    fold_from(writer, chunk, neighbours, step_src, own && hosts.host_count == 1,
              own ? Peers() : Peers(hosts.counterpart(host)));
  }
  if (!hosts.owns() || hosts.host_count == 1) return;
  std::vector<uint32_t> counterparts;
  for (uint32_t offset = 1; offset < hosts.host_count; ++offset)
    counterparts.push_back(hosts.counterpart(hosts.host_after(offset)));
  fold_from(writer, hosts.chunk(hosts.own_index, hosts.own_host), counterparts, step_acc, true, {});
}

/// Step 3, by host: first what this host has folded itself, then what the others send.
void gather_part(ScheduleWriter &writer, const Hosts &hosts) {
  const std::vector<uint32_t> neighbours = hosts.neighbours();
  const auto &own_ranks = hosts.ranks[hosts.own_host];
  for (uint32_t offset = 0; offset < hosts.host_count; ++offset) {
    const uint32_t host = hosts.host_after(offset);
    if (hosts.owns()) {
      const uint32_t chunk = hosts.chunk(hosts.own_index, host);
      std::vector<uint32_t> takers;
      for (uint32_t other = 1; offset == 0 && other < hosts.host_count; ++other)
        takers.push_back(hosts.counterpart(hosts.host_after(other)));
      takers.insert(takers.end(), neighbours.begin(), neighbours.end());
      if (offset != 0) writer.step(chunk, step_dst, hosts.counterpart(host), {});
      writer.send_to_all(chunk, step_acc, takers);
    }
    for (uint32_t behind = 1; behind < own_ranks.size(); ++behind) {
      const auto owner = static_cast<uint32_t>((hosts.own_index + own_ranks.size() - behind) % own_ranks.size());
      if (owner < hosts.owner_count) writer.step(hosts.chunk(owner, host), step_dst, own_ranks[owner], {});
    }
  }
}

}  // namespace

Schedule build_hierarchical(const ScheduleArgs &args) {
  assert(args.rank < args.rank_count && args.rank_count <= direct_rank_count_max);
  assert(args.node_of.empty() || args.node_of.size() == args.rank_count);
  if (args.rank_count == 1) return lone_schedule(args);
  const Hosts hosts(args);
  ScheduleWriter writer(hosts.owner_count * hosts.host_count);
  reduce_part(writer, hosts);
  gather_part(writer, hosts);
  return writer.take();
}

}  // namespace rondo
