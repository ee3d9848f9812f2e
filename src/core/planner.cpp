// SPDX-License-Identifier: Apache-2.0
#include "src/core/planner.h"

#include <algorithm>

#include "src/base/clock.h"
#include "src/core/diagnostics/debug_lines.h"
#include "src/plan/block_lanes.h"
#include "src/plan/premul.h"
#include "src/plan/schedule.h"

namespace rondo {
namespace {

constexpr uint64_t room_patience_ns = 1'000'000'000;
constexpr uint64_t room_look_ns = 50'000;

/// Returns each rank's block of the logical vector (src/proto/partition.h). If the call has no counts, each
/// block has `count` elements. If it has no displacements, blocks follow one another. An empty block begins at 0.
std::vector<Range> blocks_of(const Call &call, uint32_t rank_count) {
  const auto collective = static_cast<rondo_collective_t>(call.signature.collective);
  if (!uses_blocks(collective)) return {};
  std::vector<Range> blocks(rank_count);
  uint64_t next = 0;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    const uint64_t count = call.counts != nullptr ? call.counts[rank] : call.signature.count;
    if (count != 0) blocks[rank] = {call.displacements != nullptr ? call.displacements[rank] : next, count};
    next += count;
  }
  return blocks;
}

uint64_t elements_of(const Call &call, uint32_t rank_count) {
  const auto collective = static_cast<rondo_collective_t>(call.signature.collective);
  return call.counts != nullptr ? call.signature.count : vector_count(collective, call.signature.count, rank_count);
}

/// Checks that each peer of the plan is connected. Only an error of Rondo can make the check fail, because each rank
/// was connected to its peers in every plan that can be chosen (src/plan/tuner.h).
Result<void> check_links(const Plan &plan, const Links &links, uint32_t rank, std::span<const uint32_t> node_of) {
  for (const Schedule &schedule : plan.schedules)
    for (const uint32_t peer : schedule.peers) {
      if (node_of[peer] == node_of[rank] || links.carries_plans(peer)) continue;
      return Error{RONDO_ERROR_INTERNAL,
                   describe(plan.called) + " by " + rondo_algorithm_string(plan.choice.algorithm) +
                       " has a link between ranks " + std::to_string(rank) + " and " + std::to_string(peer) +
                       ", which were not connected; please report this, with RONDO_LOG=debug",
                   static_cast<int32_t>(rank), static_cast<int32_t>(peer)};
    }
  return {};
}

}  // namespace

Result<PlanChoice> Planner::choose(rondo_collective_t collective, uint64_t vector_elements, rondo_type_t type,
                                   bool uneven_blocks) const {
  const ExecutorCapabilities &can = parts_.capabilities;
  const Settings &settings = parts_.settings;
  const ConnectionGeometry &geometry = can.geometry;
  if (exchanges_blocks(collective)) {
    const uint64_t block_bytes = vector_elements / parts_.rank_count * rondo_type_size(type);
    const bool may_use_ll = can.exchanges_by_ll && !uneven_blocks && settings.protocol != RONDO_PROTOCOL_SIMPLE;
    return choose_for_blocks(block_bytes, geometry.slot_bytes, may_use_ll ? geometry.ll_slot_bytes : 0);
  }
  TunerInput input;
  input.collective = collective;
  input.rank_count = parts_.rank_count;
  input.element_bytes = static_cast<uint32_t>(rondo_type_size(type));
  input.bytes = vector_elements * input.element_bytes;
  input.oversubscribed = can.oversubscribed;
  input.host_count = parts_.group.node_count();
  input.uneven_blocks = uneven_blocks;
  input.slot_count = geometry.slot_count;
  input.slot_bytes = geometry.slot_bytes;
  input.ll_slot_bytes = geometry.ll_slot_bytes;
  input.post_bytes = can.post_bytes;
  input.exchange_chunk_bytes = can.exchange_chunk_bytes;
  input.exchange_channels = can.exchange_channels;
  input.buffers = can.buffers;
  input.connection_channels = can.connection_channels;
  input.overrides = {settings.algorithm, settings.protocol, settings.channels, settings.chunk_bytes,
                     settings.kernel};
  input.table = parts_.tuning;
  if (collective == RONDO_BARRIER) {
    input.overrides = {};  // a barrier and finalize must work whatever plan the user requests
    // If places may be freed, use a barrier over links. In it, a rank polls only its own memory, and all that it stores
    // arrives before it leaves the barrier. So after finalize, all memory may be freed.
    if (!can.places_stay) input.post_bytes = 0;
  }
  input.default_chunk_bytes = parts_.executor.chunk_bytes(input.bytes);
  RONDO_TRY_ASSIGN(auto choice, choose_plan(input));
  const bool has_own_channels = choice.kernel == RONDO_KERNEL_LOAD_STORE && can.exchange_channels != 0;
  choice.channels = std::min(choice.channels, has_own_channels ? can.exchange_channels : can.channel_count);
  return choice;
}

Result<BoundPlan *> Planner::make(const PlanKey &key, const Call &call) {
  RONDO_TRY_ASSIGN(auto bound, bind(call));
  // If there was no failure, operations run in order, so a plan is unused once its last operation was executed. After a
  // failure, operations may still run. The argument 0 then keeps every plan.
  return &cache_.add(key, std::move(bound), parts_.ranks.failed() ? 0 : parts_.operations.executed());
}

Result<std::unique_ptr<const Plan>> Planner::build(const Call &call) const {
  const auto collective = static_cast<rondo_collective_t>(call.signature.collective);
  const bool widens = is_integer_mean(call.signature, parts_.rank_count);
  OperationKey key{call.signature, call.in_place, blocks_of(call, parts_.rank_count)};
  uint64_t elements = elements_of(call, parts_.rank_count);
  if (widens) {
    RONDO_TRY_ASSIGN(key, widen(key, parts_.rank));
    elements *= mean_words(static_cast<rondo_type_t>(call.signature.type));
  }
  const bool scales = is_premul_sum(call.signature);
  if (scales) key = sum_of_scaled(key, parts_.rank, parts_.rank_count);
  RONDO_TRY_ASSIGN(const auto choice, choose(collective, elements, static_cast<rondo_type_t>(key.signature.type),
                                             call.counts != nullptr || call.lists() != nullptr));
  RONDO_TRY_ASSIGN(auto plan,
                   build_plan(key, choice, parts_.capabilities.geometry, parts_.rank, parts_.rank_count,
                              parts_.group.node_of_ranks()));
  if (widens) plan->widen_from(call.signature);
  if (scales) plan->scale_from(call.signature, scaling_of(call.signature, parts_.rank, parts_.rank_count));
  return std::unique_ptr<const Plan>(std::move(plan));
}

Result<std::unique_ptr<BoundPlan>> Planner::bind(const Call &call) {
  auto bound = std::make_unique<BoundPlan>();
  RONDO_TRY_ASSIGN(bound->plan, build(call));
  RONDO_TRY(check_links(*bound->plan, parts_.links, parts_.rank, parts_.group.node_of_ranks()));
  if (exchanges_blocks(static_cast<rondo_collective_t>(call.signature.collective))) parts_.links.open_blocks();
  debug_lines::plan(parts_.rank, *bound->plan, parts_.executor.describe());
  make_room(*bound->plan);
  RONDO_TRY_ASSIGN(bound->prepared, parts_.executor.prepare(*bound->plan));
  return bound;
}

/// Evicts unused plans until the executor has room for this one. If all plans are in use, waits a moment for an
/// operation to end. If there is still no room on return, prepare() will fail. After a failure of the communicator it
/// evicts nothing, since operations may still run.
void Planner::make_room(const Plan &plan) {
  const uint64_t deadline_ns = now_ns() + room_patience_ns;
  while (!parts_.executor.has_room(plan) && !parts_.ranks.failed()) {
    if (cache_.evict_one(parts_.operations.executed())) continue;
    if (now_ns() >= deadline_ns) return;
    sleep_for_ns(room_look_ns);
  }
}

}  // namespace rondo
