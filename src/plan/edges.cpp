// SPDX-License-Identifier: Apache-2.0
#include "src/plan/tuner.h"

#include <algorithm>
#include <set>
#include <utility>

#include "src/plan/hierarchical/layout.h"
#include "src/plan/schedule.h"

namespace rondo {
namespace {

constexpr uint32_t bits_of_bytes = 40;  // all rows of the built-in tables begin below 2^40 bytes
constexpr uint64_t barrier_bytes_max = 64;

/// Returns every size at which the tuner's answer can change. Rows of the built-in tables begin after powers of two.
std::set<uint64_t> sizes_to_ask(const EdgeRequest &request, rondo_collective_t collective) {
  std::set<uint64_t> sizes{0};
  for (uint32_t bit = 0; bit < bits_of_bytes; ++bit) sizes.insert({uint64_t{1} << bit, (uint64_t{1} << bit) + 1});
  if (request.table != nullptr)
    for (const TuningRow &row : request.table->rows())
      if (row.bytes_max != TuningRow::any_bytes) sizes.insert({row.bytes_max, row.bytes_max + 1});
  if (collective == RONDO_BARRIER) sizes.erase(sizes.upper_bound(barrier_bytes_max), sizes.end());
  return sizes;
}

/// Returns the algorithms that the tuner can choose for the collective, at all sizes and for all buffer places.
std::set<rondo_algorithm_t> possible_algorithms(const EdgeRequest &request, rondo_collective_t collective) {
  const auto rank_count = static_cast<uint32_t>(request.node_of.size());
  const std::set<uint32_t> nodes(request.node_of.begin(), request.node_of.end());
  TunerInput input;
  input.collective = collective;
  input.rank_count = rank_count;
  input.oversubscribed = request.oversubscribed;
  input.host_count = static_cast<uint32_t>(nodes.size());
  // The choice depends on whether ll has slots, but not on the size of the slots. Between hosts, ll has no slots.
  // Within a host, some executors give it slots. If the protocol of a table's row has no slots, the row is skipped.
  input.slot_bytes = 1024;
  input.table = request.table;
  if (collective != RONDO_BARRIER) input.overrides = request.overrides;
  const std::set<uint64_t> sizes = sizes_to_ask(request, collective);
  std::set<rondo_algorithm_t> found;
  for (const uint32_t ll_slot_bytes : {0u, 1024u}) {
    if (ll_slot_bytes != 0 && input.several_hosts()) continue;
    input.ll_slot_bytes = ll_slot_bytes;
    for (const BufferPlace place : {BufferPlace::host, BufferPlace::device, BufferPlace::shared_device,
                                    BufferPlace::peer_devices}) {
      input.buffers = place;
      for (const uint32_t connection_channels : {0u, request.channel_count}) {  // 0 for the executor by copies
        if (connection_channels != 0 && place == BufferPlace::host) continue;
        input.connection_channels = connection_channels;
        for (const uint64_t bytes : sizes) {
          input.bytes = bytes;
          // An algorithm that cannot be chosen has no schedule. A call that requests it will fail with the reason.
          if (const auto choice = choose_plan(input); choice.ok()) found.insert(choice.value().algorithm);
        }
      }
    }
  }
  return found;
}

/// Adds the peers in one algorithm's schedules, over all channels and roots. Ends early once all ranks are peers.
void add_peers(const EdgeRequest &request, ScheduleArgs args, rondo_algorithm_t algorithm,
               std::vector<bool> &permitted) {
  const uint32_t root_count = has_root(args.collective) ? args.rank_count : 1;
  for (args.channel = 0; args.channel < request.channel_count; ++args.channel)
    for (args.root = 0; args.root < root_count; ++args.root) {
      const auto schedule = build_schedule(algorithm, args);
      if (!schedule.ok()) return;  // the algorithm does not have this collective on any channel
      for (const uint32_t peer : schedule.value().peers) permitted[peer] = true;
      if (std::ranges::find(permitted, false) == permitted.end()) return;
    }
}

using Algorithms = std::vector<std::pair<rondo_collective_t, rondo_algorithm_t>>;

Algorithms all_possible_algorithms(const EdgeRequest &request) {
  Algorithms all;
  for (const Collective &each : collective_table) {
    if (!has_schedule(each.id)) continue;
    for (const rondo_algorithm_t algorithm : possible_algorithms(request, each.id))
      all.emplace_back(each.id, algorithm);
  }
  return all;
}

/// Returns, for each rank, whether it is a peer of `rank` in some schedule of the algorithms.
std::vector<bool> peers_in(const EdgeRequest &request, const Algorithms &algorithms, uint32_t rank) {
  std::vector<bool> permitted(request.node_of.size());
  permitted[rank] = true;
  ScheduleArgs args;
  args.rank = rank;
  args.rank_count = static_cast<uint32_t>(request.node_of.size());
  args.node_of = request.node_of;
  const HostLayout hosts(args);  // made once for the schedules of all roots
  args.hosts = &hosts;
  for (const auto &[collective, algorithm] : algorithms) {
    args.collective = collective;
    add_peers(request, args, algorithm, permitted);
  }
  return permitted;
}

}  // namespace

std::vector<bool> permitted_peers(const EdgeRequest &request, uint32_t rank) {
  const auto rank_count = static_cast<uint32_t>(request.node_of.size());
  if (rank_count > edges_rank_count_max) return std::vector<bool>(rank_count, true);
  return peers_in(request, all_possible_algorithms(request), rank);
}

bool joins_all_nodes(const EdgeRequest &request) {
  const auto rank_count = static_cast<uint32_t>(request.node_of.size());
  if (rank_count > edges_rank_count_max) return true;
  return std::ranges::any_of(all_possible_algorithms(request), [](const auto &each) {
    return each.second == RONDO_ALGORITHM_ONE_SHOT && !has_root(each.first);
  });
}

}  // namespace rondo
