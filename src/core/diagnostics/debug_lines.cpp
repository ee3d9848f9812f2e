// SPDX-License-Identifier: Apache-2.0
#include "src/core/diagnostics/debug_lines.h"

#include "src/base/log.h"
#include "src/base/names.h"
#include "src/base/parse.h"
#include "src/core/registry.h"
#include "src/proto/connection.h"

namespace rondo::debug_lines {
namespace {

using log::Subsystem;

constexpr uint32_t listed_rank_count_max = 32;

bool wanted(Subsystem subsystem) { return log::enabled(log::Level::debug, subsystem); }

std::string listed(std::span<const uint32_t> ranks) {
  std::string list;
  for (size_t at = 0; at < ranks.size() && at < listed_rank_count_max; ++at)
    list += (at == 0 ? "" : ", ") + std::to_string(ranks[at]);
  return list + (ranks.size() > listed_rank_count_max ? ", ..." : "");
}

/// Describes how a peer on this node may read this rank's buffers.
const char *reach(uint32_t kinds) {
  const bool mapped = (kinds & kind_bit(PayloadKind::mapped)) != 0;
  const bool across = (kinds & kind_bit(PayloadKind::process)) != 0;
  if ((kinds & kind_bit(PayloadKind::address)) != 0) return "at their addresses, in this process";
  if (mapped && across) return "mapped or by process_vm_readv";
  if (mapped) return "mapped";
  return across ? "by process_vm_readv" : "copied through slots";
}

const char *place_of_result(const Plan &plan) {
  if (plan.widened) return ", by wider integers";
  return plan.key.in_place ? ", in place" : "";
}

}  // namespace

void settings(uint32_t rank, const Settings &settings) {
  if (!wanted(Subsystem::config) || settings.given.empty()) return;
  std::string list;
  for (const ConfigVariable &variable : config_variables())
    for (const std::string &given : settings.given)
      if (given == variable.name) list += (list.empty() ? "" : " ") + given + "=" + variable.show(settings);
  log::debug({Subsystem::config, rank}, "in force from the environment: " + list);
}

void topology(uint32_t rank, const Topology &topology) {
  if (!wanted(Subsystem::topology)) return;
  log::debug({Subsystem::topology, rank},
             counted(topology.package_count, "socket") + ", " + counted(topology.numa_nodes.size(), "NUMA node") +
                 ", " + counted(topology.cores.size(), "core") + " with " + counted(topology.pus.size(), "thread") +
                 ", " + show_bytes(topology.memory_bytes >> 20 << 20) + " of memory" +
                 (topology.processor_limit == 0
                      ? ""
                      : ", of which the cgroup grants " + counted(topology.processor_limit, "processor")) +
                 (topology.injected ? " (of RONDO_TOPOLOGY_FILE)" : ""));
}

void group(uint32_t rank, const GroupInfo &group) {
  if (!wanted(Subsystem::bootstrap)) return;
  for (uint32_t node = 0; node < group.node_count(); ++node)
    log::debug({Subsystem::bootstrap, rank},
               "found on host " + std::to_string(node + 1) + " of " + std::to_string(group.node_count()) + ": " +
                   (group.ranks_of(node).size() == 1 ? "rank " : "ranks ") + listed(group.ranks_of(node)) +
                   (node == group.node_of(rank)
                        ? "; this host, with " + counted(group.core_count, "core") + " for them" +
                              (group.oversubscribed ? ", so that waiting ranks hand over their cores" : "")
                        : "; it is " + group.apart[node] + ", so a network joins it"));
}

void links(uint32_t rank, const Settings &settings, const GroupInfo &group, const Links &links) {
  if (!wanted(Subsystem::transport)) return;
  const ConnectionGeometry geometry = links.geometry();
  log::debug({Subsystem::transport, rank},
             "shared memory of " + show_bytes(links.shared_bytes() >> 10 << 10) + ": " +
                 counted(links.channel_count(), "channel") + ", " + std::to_string(geometry.slot_count) +
                 " slots of " + show_bytes(geometry.slot_bytes) + " a connection");
  for (const uint32_t peer : group.ranks_of(group.node_of(rank)))
    if (peer != rank)
      log::debug({Subsystem::transport, rank},
                 "to rank " + std::to_string(peer) + " by shared memory; registered buffers " +
                     reach(links.readable_kinds(peer)));
  for (uint32_t node = 0; node < group.node_count(); ++node)
    if (node != group.node_of(rank))
      log::debug({Subsystem::transport, rank},
                 "to host " + std::to_string(node + 1) + " (ranks " + listed(group.ranks_of(node)) + ") by " +
                     network_name(settings));
}

void plan(uint32_t rank, const Plan &plan, const std::string &place) {
  if (!wanted(Subsystem::plan)) return;
  log::debug({Subsystem::plan, rank}, describe(plan.called) + place_of_result(plan) + ": " +
                                          rondo_algorithm_string(plan.choice.algorithm) + ", " + plan.choice.way() +
                                          ", " + counted(plan.choice.channels, "channel") + ", chunks of " +
                                          show_bytes(plan.choice.chunk_bytes) + ", on " + place);
}

void made(uint32_t rank, const Settings &settings, const GroupInfo &group, const std::string &place) {
  if (rank != 0 || !log::enabled(log::Level::info, Subsystem::bootstrap)) return;
  const bool shares = group.rank_count() > group.node_count();
  const std::string network = group.one_node() ? "" : network_name(settings);
  const std::string between = !shares ? network : "shared memory" + (network.empty() ? "" : " and " + network);
  log::info({Subsystem::bootstrap, rank},
            "rondo " + version_text() + ": a communicator of " + counted(group.rank_count(), "rank") + " on " +
                counted(group.node_count(), "host") + (between.empty() ? "" : ", joined by " + between) + "; runs on " +
                place + "; tuning table: " +
                (settings.tuning_file.empty() ? "built in" : settings.tuning_file));
}

}  // namespace rondo::debug_lines
