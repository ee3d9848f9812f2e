// SPDX-License-Identifier: Apache-2.0
// This file has the hierarchical broadcast and reduce. The vector leaves each host once, in one part for each owner.
//
//     2 hosts of 2 ranks, root 0; chunk i for each owner i (as many owners as the smallest host has ranks)
//     broadcast  root ---> owner i of its host ===> owner i of the next host ===> ...; each ---> the ranks of its host
//     reduce     backwards: in each host, chunk i travels around a ring to owner i, which adds the previous host's sum;
//                hosts after the root's host ===> ... ===> the root's host, whose owner i sends the whole sum to root
//                ---> inside of a host   ===> network
//
// Hosts form an open chain, and tiles follow each other along it. Each owner has its own connection to the next host,
// so hosts with several network ports use all of them.
//
// Slots: slot_count > slots of a chunk. A link in a host has one chunk of a tile, or in a reduce, one for each hop.
#include "src/plan/hierarchical/layout.h"

namespace rondo {
namespace {

/// The place of the root, in whose host the chain begins or ends, and whether this rank is on that host.
struct Chain {
  Chain(const HostLayout &hosts, const ScheduleArgs &args)
      : root_place(place_of(hosts, args.root)), in_root_host(hosts.own_host == root_place.host) {}

  HostPlace root_place;
  bool in_root_host;
};

/// Receives the chunks that the other owners of this host send.
void receive_from_owners(ScheduleWriter &writer, const HostLayout &hosts) {
  for (uint32_t behind = 1; behind < hosts.own_size(); ++behind) {
    const uint32_t index = (hosts.own_index + hosts.own_size() - behind) % hosts.own_size();
    if (index < hosts.owner_count) writer.step(index, step_dst, hosts.own_ranks()[index], {});
  }
}

/// Sends the root's chunks. Each other owner gets its chunk. If the root is an owner, it forwards its own chunk, too.
void send_from_root(ScheduleWriter &writer, const HostLayout &hosts, bool in_place,
                    const std::vector<uint32_t> &takers) {
  const unsigned flags = step_src | flag_if(!in_place, step_dst);
  for (uint32_t owner = 0; owner < hosts.owner_count; ++owner)
    if (owner != hosts.own_index) writer.step(owner, flags, {}, hosts.own_ranks()[owner]);
  if (!hosts.owns()) return;
  if (!in_place) writer.step(hosts.own_index, step_src | step_dst, {}, {});
  writer.send_to_all(hosts.own_index, step_src, takers);
}

/// Reduces by a ring inside of a host. Each owner's last step adds the sum from the previous host of the chain.
void reduce_inside(ScheduleWriter &writer, const HostLayout &hosts, const Chain &chain, const ScheduleArgs &args) {
  const uint32_t size = hosts.own_size();
  uint32_t before = 0, summed_before = 0;  // number of earlier hosts in the chain, and of their ranks
  for (uint32_t host = hosts.own_host; before + 1 < hosts.host_count; ++before) {
    host = (host + hosts.host_count - 1) % hosts.host_count;
    if (host == chain.root_place.host) break;
    summed_before += hosts.size(host);
  }
  for (uint32_t hop = 0; hop < size; ++hop) {
    const uint32_t chunk = (hosts.own_index + 2 * size - 1 - hop) % size;
    if (chunk >= hosts.owner_count) continue;
    Peers recv = hop > 0 ? Peers::with_sum(hosts.rank_after(size - 1), hop) : Peers();
    if (hop + 1 < size) {
      writer.step(chunk, step_src, recv, hosts.rank_after(1));
      continue;
    }
    if (before > 0) recv.add(hosts.counterpart(hosts.host_after(hosts.host_count - 1), chunk), summed_before);
    if (!chain.in_root_host) {
      writer.step(chunk, step_src, recv, hosts.counterpart(hosts.host_after(1), chunk));
    } else if (args.rank == args.root) {
      writer.step(chunk, step_src | step_dst | step_finish, recv, {});
    } else {
      writer.step(chunk, step_src | step_finish, recv, args.root);
    }
  }
}

}  // namespace

Schedule build_hierarchical_broadcast(const ScheduleArgs &args, const HostLayout &hosts) {
  const Chain chain(hosts, args);
  ScheduleWriter writer(hosts.owner_count);
  std::vector<uint32_t> takers;
  if (hosts.owns() && hosts.host_after(1) != chain.root_place.host)
    takers.push_back(hosts.counterpart(hosts.host_after(1), hosts.own_index));
  for (const uint32_t neighbour : hosts.neighbours())
    if (neighbour != args.root) takers.push_back(neighbour);
  if (args.rank == args.root) {
    send_from_root(writer, hosts, args.in_place, takers);
    return writer.take();
  }
  if (hosts.owns()) {
    const uint32_t before = hosts.host_after(hosts.host_count - 1);
    writer.relay(hosts.own_index, chain.in_root_host ? args.root : hosts.counterpart(before, hosts.own_index), takers);
  }
  receive_from_owners(writer, hosts);
  return writer.take();
}

Schedule build_hierarchical_reduce(const ScheduleArgs &args, const HostLayout &hosts) {
  const Chain chain(hosts, args);
  ScheduleWriter writer(hosts.owner_count);
  reduce_inside(writer, hosts, chain, args);
  if (args.rank == args.root) receive_from_owners(writer, hosts);
  return writer.take();
}

}  // namespace rondo
