// SPDX-License-Identifier: Apache-2.0
// This file makes the plans of a communicator: the tuner chooses, the plan is built, and the executor prepares it.
#include <algorithm>

#include "src/base/clock.h"
#include "src/core/communicator.h"
#include "src/core/diagnostics/debug_lines.h"
#include "src/plan/algorithm.h"
#include "src/plan/integer_mean.h"
#include "src/plan/premul.h"

namespace rondo {
namespace {

constexpr uint64_t room_patience_ns = 1'000'000'000;
constexpr uint64_t room_look_ns = 50'000;

/// The largest block, in bytes, that goes by the protocol ll if all blocks have the same size. On one host, such a
/// block and its flags fill one cache line. To pack more of them takes longer than the second line of a slot by simple.
constexpr uint64_t ll_block_bytes_max = 32, ll_block_bytes_max_between_hosts = 1024;

/// Returns the blocks of the logical vector, by rank. They are even blocks of `count`, or blocks with the given counts
/// and displacements. An empty block begins at 0, whatever its displacement is.
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

/// Checks that each peer of the plan is connected. Connections are made before the first plan, to the peers of all
/// plans that can be chosen (src/plan/edges.h).
Result<void> check_links(const Plan &plan, const Links &links, uint32_t rank, std::span<const uint32_t> node_of) {
  for (const Schedule &schedule : plan.schedules)
    for (const uint32_t peer : schedule.peers) {
      if (node_of[peer] == node_of[rank] || links.outgoing(0, peer).base != nullptr) continue;
      return Error{RONDO_ERROR_INTERNAL,
                   describe(plan.called) + " by " + rondo_algorithm_string(plan.choice.algorithm) +
                       " has a link between ranks " + std::to_string(rank) + " and " + std::to_string(peer) +
                       ", which were not connected; please report this, with RONDO_LOG=debug",
                   static_cast<int32_t>(rank), static_cast<int32_t>(peer)};
    }
  return {};
}

}  // namespace

Result<PlanChoice> Communicator::choose(rondo_collective_t collective, uint64_t vector_elements, rondo_type_t type,
                                        bool uneven_blocks) const {
  const ConnectionGeometry &geometry = capabilities_.geometry;
  if (exchanges_blocks(collective)) {
    const uint64_t block_bytes = vector_elements / rank_count_ * rondo_type_size(type);
    const bool by_ll = capabilities_.exchanges_by_ll && geometry.ll_slot_bytes != 0 &&
                       block_bytes <= (group_.one_node() ? ll_block_bytes_max : ll_block_bytes_max_between_hosts) &&
                       !uneven_blocks &&
                       settings_.protocol != RONDO_PROTOCOL_SIMPLE;
    return PlanChoice{RONDO_ALGORITHM_ONE_SHOT, by_ll ? RONDO_PROTOCOL_LL : RONDO_PROTOCOL_SIMPLE, 1,
                      by_ll ? geometry.ll_slot_bytes : geometry.slot_bytes, RONDO_KERNEL_INTERPRETER};
  }
  TunerInput input;
  input.collective = collective;
  input.rank_count = rank_count_;
  input.element_bytes = static_cast<uint32_t>(rondo_type_size(type));
  input.bytes = vector_elements * input.element_bytes;
  input.oversubscribed = capabilities_.oversubscribed;
  input.host_count = group_.node_count();
  input.uneven_blocks = uneven_blocks;
  input.slot_count = geometry.slot_count;
  input.slot_bytes = geometry.slot_bytes;
  input.ll_slot_bytes = geometry.ll_slot_bytes;
  input.post_bytes = capabilities_.post_bytes;
  input.exchange_chunk_bytes = capabilities_.exchange_chunk_bytes;
  input.exchange_channels = capabilities_.exchange_channels;
  input.buffers = capabilities_.buffers;
  input.connection_channels = capabilities_.connection_channels;
  input.overrides = {settings_.algorithm, settings_.protocol, settings_.channels, settings_.chunk_bytes,
                     settings_.kernel};
  input.table = tuning_;
  if (collective == RONDO_BARRIER) {
    input.overrides = {};  // a barrier and finalize must work, whatever plan the user requests
    // In a barrier over links, a rank polls only its own memory, and its stores arrive before a peer can leave. So all
    // memory may be freed after finalize.
    if (!capabilities_.places_stay) input.post_bytes = 0;
  }
  input.default_chunk_bytes = executor_->chunk_bytes(input.bytes);
  RONDO_TRY_ASSIGN(auto choice, choose_plan(input));
  const bool has_own_channels = choice.kernel == RONDO_KERNEL_LOAD_STORE && capabilities_.exchange_channels != 0;
  choice.channels = std::min(
      choice.channels, has_own_channels ? capabilities_.exchange_channels : capabilities_.channel_count);
  return choice;
}

Result<BoundPlan *> Communicator::plan_for(const Call &call) {
  const PlanKey key{call.signature, call.in_place};
  if (BoundPlan *const known = plans_.find(key); known != nullptr) return known;
  RONDO_TRY_ASSIGN(auto bound, bind(call));
  // Without a failure, operations are executed in order, so a plan is unused once its last operation was executed.
  // After a failure no plan may be destroyed, because operations may still run.
  return &plans_.add(key, std::move(bound), ranks_.failed() ? 0 : operations_.executed());
}

Result<std::unique_ptr<const Plan>> Communicator::build(const Call &call) const {
  const auto collective = static_cast<rondo_collective_t>(call.signature.collective);
  const bool widens = is_integer_mean(call.signature, rank_count_);
  OperationKey key{call.signature, call.in_place, blocks_of(call, rank_count_)};
  uint64_t elements = elements_of(call, rank_count_);
  if (widens) {
    RONDO_TRY_ASSIGN(key, widen(key, rank_));
    elements *= mean_words(static_cast<rondo_type_t>(call.signature.type));
  }
  const bool scales = is_premul_sum(call.signature);
  if (scales) key = sum_of_scaled(key, rank_, rank_count_);
  RONDO_TRY_ASSIGN(const auto choice, choose(collective, elements, static_cast<rondo_type_t>(key.signature.type),
                                             call.counts != nullptr || call.lists != nullptr));
  RONDO_TRY_ASSIGN(auto plan,
                   build_plan(key, choice, capabilities_.geometry, rank_, rank_count_, group_.node_of_ranks()));
  if (widens) plan->widen_from(call.signature);
  if (scales) plan->scale_from(call.signature, scaling_of(call.signature, rank_, rank_count_));
  return std::unique_ptr<const Plan>(std::move(plan));
}

Result<std::unique_ptr<BoundPlan>> Communicator::bind(const Call &call) {
  auto bound = std::make_unique<BoundPlan>();
  RONDO_TRY_ASSIGN(bound->plan, build(call));
  RONDO_TRY(check_links(*bound->plan, links_, rank_, group_.node_of_ranks()));
  debug_lines::plan(rank_, *bound->plan, executor_->describe());
  make_room(*bound->plan);
  RONDO_TRY_ASSIGN(bound->prepared, executor_->prepare(*bound->plan));
  return bound;
}

/// Evicts unused plans until the executor has room for this one. If calls use all plans, it waits a moment for a call
/// to end. If no room is found, prepare() fails later. After a failure it evicts nothing, since operations may still
/// run.
void Communicator::make_room(const Plan &plan) {
  const uint64_t deadline_ns = now_ns() + room_patience_ns;
  while (!executor_->has_room(plan) && !ranks_.failed()) {
    if (plans_.evict_one(operations_.executed())) continue;
    if (now_ns() >= deadline_ns) return;
    sleep_for_ns(room_look_ns);
  }
}

}  // namespace rondo
