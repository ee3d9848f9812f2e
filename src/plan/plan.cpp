// SPDX-License-Identifier: Apache-2.0
#include "src/plan/plan.h"

#include <algorithm>

#include "src/plan/premul.h"
#include "src/plan/schedule.h"
#include "src/plan/split_call.h"

namespace rondo {
namespace {

/// Returns the number of elements in a cache line. Each part of a vector begins at a multiple of that number.
uint32_t align_elements(uint32_t element_bytes) { return static_cast<uint32_t>(cache_line_bytes) / element_bytes; }

uint64_t slot_elements(const PlanChoice &choice, const ConnectionGeometry &geometry, uint32_t element_bytes) {
  uint32_t bytes = geometry.slot_bytes;
  if (choice.protocol == RONDO_PROTOCOL_LL) bytes = geometry.ll_slot_bytes;
  return bytes / element_bytes;  // exact, because bytes is a multiple of 8
}

Partition partition_of(const Plan &plan, uint32_t channel, uint32_t element_bytes) {
  Partition partition;
  if (plan.key.blocks.empty()) {
    partition.whole = {0, plan.key.signature.count};
    partition.chunk_count = plan.schedules[channel].chunk_count;
  } else {
    partition.blocks = plan.key.blocks.data();
    partition.chunk_count = static_cast<uint32_t>(plan.key.blocks.size());
  }
  partition.channel = channel;
  partition.channel_count = plan.choice.channels;
  partition.align_elements = align_elements(element_bytes);
  // The tuner limits a chunk to slot_count - 1 slots (docs/schedules.md).
  partition.chunk_elements = plan.choice.chunk_bytes / element_bytes;
  partition.tile_count = partition.count_tiles();
  return partition;
}

constexpr uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E37'79B9'7F4A'7C15u;  // bits of the golden ratio, which spread every input bit upward
  return hash ^ (hash >> 32);
}

}  // namespace

const char *op_string(const Signature &signature) {
  const bool premul = signature.op == premul_sum_op;
  return rondo_op_string(premul ? RONDO_OP_DYNAMIC : static_cast<rondo_op_t>(signature.op));
}

uint64_t vector_elements(const OperationKey &key) {
  uint64_t end = key.blocks.empty() ? key.signature.count : 0;
  for (const Range &block : key.blocks) end = std::max(end, block.begin + block.count);
  return end;
}

std::string describe(const Signature &signature) {
  const auto collective = static_cast<rondo_collective_t>(signature.collective);
  if (is_finalize(signature)) return "rondo_comm_finalize";
  const auto split = split_call_of(signature);
  if (split && split->suspends) return "rondo_comm_suspend";
  if (split)
    return "rondo_comm_split with color " + std::to_string(split->color) + " and key " + std::to_string(split->key);
  const Collective &traits = traits_of(collective);
  std::string text = traits.name;
  if (!traits.has_data) return text;
  const bool by_pairs = exchanges_blocks(collective) && signature.counts_hash == counts_of_pairs;
  text += " of " + (by_pairs ? "" : std::to_string(signature.count) + " ") +
          rondo_type_string(static_cast<rondo_type_t>(signature.type));
  if (traits.reduces)
    text += std::string(" (") + op_string(signature) + ")";
  if (traits.root != RootRole::none)
    text += (traits.root == RootRole::sends ? " from rank " : " to rank ") + std::to_string(signature.root);
  if (signature.counts_hash != 0) text += " in uneven blocks";
  return text;
}

Result<std::unique_ptr<Plan>> build_plan(const OperationKey &key, const PlanChoice &choice,
                                         const ConnectionGeometry &geometry, uint32_t rank, uint32_t rank_count,
                                         std::span<const uint32_t> node_of) {
  const auto collective = static_cast<rondo_collective_t>(key.signature.collective);
  std::unique_ptr<Plan> plan(new Plan);
  plan->key = key;
  plan->called = key.signature;
  plan->choice = choice;
  plan->identity = identity_of(key.signature, choice);
  if (exchanges_blocks(collective)) {
    const size_t element_bytes = rondo_type_size(static_cast<rondo_type_t>(key.signature.type));
    plan->vector_bytes = key.signature.count * rank_count * element_bytes;
    return plan;
  }
  const auto element_bytes = static_cast<uint32_t>(rondo_type_size(static_cast<rondo_type_t>(key.signature.type)));
  const Algorithm *const algorithm = find_algorithm(choice.algorithm);
  for (uint32_t channel = 0; channel < choice.channels; ++channel) {
    const ScheduleArgs args{collective, rank, rank_count, key.signature.root, channel, key.in_place, node_of};
    RONDO_TRY_ASSIGN(auto schedule, build_schedule(choice.algorithm, args));
    plan->schedules.push_back(std::move(schedule));
  }
  for (uint32_t channel = 0; channel < choice.channels; ++channel) {
    const ScheduleArgs args{collective, rank, rank_count, key.signature.root, channel, key.in_place, node_of};
    LaneProgram program;
    program.element_bytes = element_bytes;
    program.reference_safe = algorithm->reference_safe(args);
    program.slot_elements = slot_elements(choice, geometry, element_bytes);
    program.partition = partition_of(*plan, channel, element_bytes);
    for (const Lane &lane : plan->schedules[channel].lanes) {
      program.steps = lane.data();
      program.step_count = static_cast<uint32_t>(lane.size());
      plan->lanes.push_back({channel, program});
    }
  }
  plan->send = plan->recv = {0, vector_elements(key)};
  const Collective &traits = traits_of(collective);
  if (traits.has_data) plan->vector_bytes = vector_elements(key) * element_bytes;
  if (traits.target == BufferLayout::own_block) plan->recv = key.blocks[rank];
  if (traits.source == BufferLayout::own_block) plan->send = key.blocks[rank];
  return plan;
}

void Plan::widen_from(const Signature &called_as) {
  const uint64_t word_bytes = rondo_type_size(static_cast<rondo_type_t>(key.signature.type));
  const auto type = static_cast<rondo_type_t>(called_as.type);
  called = called_as;
  widened = true;
  vector_bytes = vector_bytes / (word_bytes * mean_words(type)) * rondo_type_size(type);
  identity = identity_of(called, choice);
}

void Plan::scale_from(const Signature &called_as, Scaling where) {
  called = called_as;
  scaling = where;
  identity = identity_of(called, choice);
}

uint64_t identity_of(const Signature &signature, const PlanChoice &choice) {
  uint64_t hash = mix(0, signature.collective | uint64_t{signature.type} << 8 | uint64_t{signature.op} << 16 |
                                     uint64_t{signature.root} << 32);
  hash = mix(mix(hash, signature.count), signature.counts_hash);
  hash = mix(hash, static_cast<uint64_t>(choice.algorithm) | static_cast<uint64_t>(choice.protocol) << 8 |
                       static_cast<uint64_t>(choice.kernel) << 12 | uint64_t{choice.channels} << 16);
  return mix(hash, choice.chunk_bytes);
}

uint64_t extend_history(uint64_t history, uint64_t identity) { return mix(history, identity); }  // injective in each

uint32_t fingerprint(uint64_t history) { return static_cast<uint32_t>(history); }  // mix() spreads all bits to these

}  // namespace rondo
