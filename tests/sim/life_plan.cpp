// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/life_plan.h"

#include <algorithm>

#include "tests/sim/scheduler.h"

namespace rondo::sim {
namespace {

constexpr uint64_t patient_ns = 60 * second;

constexpr std::array collectives{RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER,
                                 RONDO_BROADCAST,  RONDO_REDUCE,         RONDO_BARRIER};
constexpr std::array types{RONDO_INT32, RONDO_UINT8, RONDO_INT64, RONDO_FLOAT32, RONDO_FLOAT64};
constexpr std::array ops{RONDO_SUM, RONDO_MIN, RONDO_MAX};
constexpr std::array algorithms_drawn{RONDO_ALGORITHM_AUTO, RONDO_ALGORITHM_AUTO, RONDO_ALGORITHM_RING,
                                      RONDO_ALGORITHM_TREE, RONDO_ALGORITHM_ONE_SHOT, RONDO_ALGORITHM_TWO_SHOT,
                                      RONDO_ALGORITHM_HALVING_DOUBLING};

template <class Array>
auto pick(Random &random, const Array &choices) {
  return choices[random.below(static_cast<uint32_t>(choices.size()))];
}

uint32_t rank_count_of(Random &random) {
  const uint32_t kind = random.below(100);
  if (kind < 60) return 2 + random.below(4);
  if (kind < 92) return 5 + random.below(5);
  return 10 + random.below(7);
}

PlannedCall draw_call(Random &random, const LifePlan &plan) {
  PlannedCall call;
  Signature &signature = call.signature;
  do {
    signature.collective = static_cast<uint32_t>(pick(random, collectives));
  } while (plan.settings.algorithm != RONDO_ALGORITHM_AUTO && signature.collective != RONDO_BARRIER &&
           !find_algorithm(plan.settings.algorithm)->supports(static_cast<rondo_collective_t>(signature.collective)));
  const auto collective = static_cast<rondo_collective_t>(signature.collective);
  if (collective == RONDO_BARRIER) {
    signature = {RONDO_BARRIER, RONDO_UINT8, RONDO_MAX, 0, 1, 0};
    return call;
  }
  const bool reduces =
      collective == RONDO_ALL_REDUCE || collective == RONDO_REDUCE_SCATTER || collective == RONDO_REDUCE;
  signature.type = static_cast<uint32_t>(pick(random, types));
  signature.op = static_cast<uint32_t>(reduces ? pick(random, ops) : RONDO_SUM);
  const bool rooted = collective == RONDO_BROADCAST || collective == RONDO_REDUCE;
  signature.root = rooted ? random.below(plan.rank_count) : 0;
  signature.count = random.spread(random.chance(15) ? 6'000 : 300);
  if (uses_blocks(collective)) signature.count = signature.count / plan.rank_count + random.below(2);
  call.in_place = random.chance(40);
  return call;
}

void draw_settings(Random &random, LifePlan &plan) {
  Settings &settings = plan.settings;
  settings.algorithm = pick(random, algorithms_drawn);
  settings.protocol = pick(random, std::array{RONDO_PROTOCOL_AUTO, RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL});
  settings.channels = random.chance(60) ? 0 : 1 + random.below(3);
  settings.chunk_bytes = random.chance(60) ? 0 : uint64_t{64} << random.below(6);
  settings.slot_count = random.chance(40) ? 0 : 2u << random.below(3);
  settings.slot_bytes = random.chance(30) ? 4096 : uint64_t{64} << random.below(5);
  settings.cuda_library = "/none";  // by a path, so that not every rank searches the folders of libraries
  // Ranks that never sleep cost the simulation the most time, so such ranks are rarer.
  settings.wait = pick(random, std::array{WaitMode::automatic, WaitMode::automatic, WaitMode::automatic,
                                          WaitMode::sleep, WaitMode::sleep, WaitMode::sleep, WaitMode::sleep,
                                          WaitMode::yield, WaitMode::yield, WaitMode::spin});
  plan.oversubscribed = random.chance(70);
  plan.wired = random.chance(50);
}

FaultKind draw_kind(Random &random) {
  struct Weight {
    FaultKind kind;
    uint32_t share;
  };
  static constexpr std::array weights{
      Weight{FaultKind::kill, 28},       Weight{FaultKind::exit, 6},      Weight{FaultKind::stop, 10},
      Weight{FaultKind::never_calls, 6}, Weight{FaultKind::leaves, 6},    Weight{FaultKind::finalizes, 3},
      Weight{FaultKind::disagrees, 14},  Weight{FaultKind::aborts, 12},   Weight{FaultKind::partition, 6},
      Weight{FaultKind::absent, 4},      Weight{FaultKind::other_settings, 3}, Weight{FaultKind::pause, 2}};
  uint32_t left = random.below(100);
  for (const Weight &weight : weights) {
    if (left < weight.share) return weight.kind;
    left -= weight.share;
  }
  return FaultKind::kill;
}

Fault draw_fault(Random &random, const LifePlan &plan, FaultKind kind) {
  Fault fault;
  fault.kind = kind;
  fault.rank = random.below(plan.rank_count);
  fault.call = 1 + random.below(static_cast<uint32_t>(plan.calls.size()));
  fault.after = random.spread(400);
  fault.variant = static_cast<uint32_t>(random.next() >> 33);
  const bool anywhere = kind == FaultKind::kill || kind == FaultKind::stop || kind == FaultKind::pause;
  if (anywhere && random.chance(15)) {
    fault.call = 0;
    fault.after = random.spread(60);
  }
  if (kind == FaultKind::pause) fault.duration_ns = random.between(1 * ms, 150 * ms);
  if (kind == FaultKind::partition) {
    fault.duration_ns = random.chance(40) ? never_ns : random.between(1 * ms, 900 * ms);
    fault.call = 0;
    fault.after = random.spread(40);
  }
  return fault;
}

/// Draws the deadlines. If no operation of a life may miss them, they are too long to matter.
void draw_timeouts(Random &random, LifePlan &plan) {
  const auto has = [&](std::initializer_list<FaultKind> kinds) {
    return std::any_of(plan.faults.begin(), plan.faults.end(), [&](const Fault &fault) {
      return std::find(kinds.begin(), kinds.end(), fault.kind) != kinds.end();
    });
  };
  const bool waits = has({FaultKind::stop, FaultKind::never_calls});
  // A slow machine must not miss the timeout either, so the timeout allows time for every byte, one rank after another.
  uint64_t bytes_max = 0;
  for (const PlannedCall &call : plan.calls) {
    const size_t size = rondo_type_size(static_cast<rondo_type_t>(call.signature.type));
    bytes_max = std::max(bytes_max, vector_count(call, plan.rank_count) * size);
  }
  const uint64_t needed_ns = bytes_max * plan.rank_count * 4 * us;
  plan.settings.timeout_ns = waits ? random.between(250 * ms, 600 * ms) + needed_ns : patient_ns;
  const bool init_waits = std::any_of(plan.faults.begin(), plan.faults.end(), [](const Fault &fault) {
    return fault.call == 0 || fault.kind == FaultKind::absent;
  });
  plan.settings.init_timeout_ns = init_waits ? random.between(1 * second, 3 * second) : patient_ns;
}

}  // namespace

const char *name_of(FaultKind kind) {
  static constexpr std::array<const char *, fault_kind_count> names{
      "kill", "exit", "stop", "pause", "never_calls", "leaves", "finalizes", "disagrees", "aborts", "partition",
      "other_settings", "absent"};
  return names[static_cast<size_t>(kind)];
}

const char *name_of(Defect defect) {
  static constexpr std::array<const char *, defect_count> names{
      "none", "early_flag", "lost_wake", "deaf_to_death", "frozen_clock", "hidden_disagreement", "early_completion",
      "lost_failure", "early_counter"};
  return names[static_cast<size_t>(defect)];
}

const Fault *LifePlan::fault(FaultKind kind, uint32_t rank) const {
  const auto found = std::find_if(faults.begin(), faults.end(),
                                  [&](const Fault &it) { return it.kind == kind && it.rank == rank; });
  return found == faults.end() ? nullptr : &*found;
}

uint64_t vector_count(const PlannedCall &call, uint32_t rank_count) {
  const bool blocks = uses_blocks(static_cast<rondo_collective_t>(call.signature.collective));
  return blocks ? call.signature.count * rank_count : call.signature.count;
}

bool strikes(const Fault &fault, uint32_t rank) {
  if (rank == fault.rank) return true;
  const bool together = fault.kind == FaultKind::disagrees && (fault.variant >> 8 & 3) == 0;
  return together && (fault.variant >> (10 + rank % 16) & 1) != 0;
}

bool waits_for_all(const Signature &signature) {
  switch (static_cast<rondo_collective_t>(signature.collective)) {
    case RONDO_BARRIER:
      return true;
    case RONDO_ALL_REDUCE:
    case RONDO_ALL_GATHER:
      return signature.count != 0;
    default:
      return false;
  }
}

PlannedCall altered(const PlannedCall &call, uint32_t variant, uint32_t rank_count) {
  PlannedCall other = call;
  Signature &signature = other.signature;
  const uint32_t how = variant % 7;
  if (signature.collective == RONDO_BARRIER || how == 0) {
    const bool barrier = signature.collective == RONDO_BARRIER;
    signature = barrier ? Signature{RONDO_ALL_REDUCE, RONDO_INT32, RONDO_SUM, 0, 17, 0}
                        : Signature{RONDO_BARRIER, RONDO_UINT8, RONDO_MAX, 0, 1, 0};
    return other;
  }
  const bool reduces = signature.collective == RONDO_ALL_REDUCE || signature.collective == RONDO_REDUCE_SCATTER ||
                       signature.collective == RONDO_REDUCE;
  const bool rooted = signature.collective == RONDO_BROADCAST || signature.collective == RONDO_REDUCE;
  if (how == 1 && reduces) {
    signature.op = signature.op == RONDO_MAX ? RONDO_SUM : RONDO_MAX;
  } else if (how == 2 && rooted) {
    signature.root = (signature.root + 1) % rank_count;
  } else if (how == 3) {
    signature.type = signature.type == RONDO_INT32 ? RONDO_FLOAT32 : RONDO_INT32;
  } else if (how == 4 && rooted) {  // to a root instead of from one, or the reverse
    signature.collective = signature.collective == RONDO_BROADCAST ? RONDO_REDUCE : RONDO_BROADCAST;
    signature.root = (variant >> 3) % rank_count;
  } else if (how == 5 && signature.count != 0) {
    signature.count = 0;
  } else {
    signature.count += 1 + variant % 5;
  }
  return other;
}

LifePlan draw_life(uint64_t seed, Defect defect) {
  Random random(seed ^ 0x6C69'6665u);
  LifePlan plan;
  plan.seed = seed;
  plan.defect = defect;
  plan.rank_count = rank_count_of(random);
  draw_settings(random, plan);
  const uint32_t call_count = 1 + random.below(6);
  for (uint32_t call = 0; call < call_count; ++call) plan.calls.push_back(draw_call(random, plan));
  if (!random.chance(25)) plan.faults.push_back(draw_fault(random, plan, draw_kind(random)));
  if (random.chance(12)) plan.faults.push_back(draw_fault(random, plan, draw_kind(random)));
  if (random.chance(20)) plan.faults.push_back(draw_fault(random, plan, FaultKind::pause));
  draw_timeouts(random, plan);
  plan.finalizes = random.chance(50);
  // Ranks notice different roots least of all. So a call on which ranks will disagree often becomes a broadcast.
  for (const Fault &fault : plan.faults) {
    Signature &signature = plan.calls[fault.call == 0 ? 0 : fault.call - 1].signature;
    const bool moves = signature.collective == RONDO_ALL_GATHER || signature.collective == RONDO_ALL_REDUCE;
    if (fault.kind == FaultKind::disagrees && plan.settings.algorithm == RONDO_ALGORITHM_AUTO && moves)
      signature = {RONDO_BROADCAST, signature.type, RONDO_SUM, fault.variant % plan.rank_count, signature.count, 0};
  }
  plan.death_notice_ns = random.spread(400 * ms);
  // A single thread cannot be killed or stopped. Ranks that read each other's memory directly are threads of a process.
  const bool threads = std::all_of(plan.faults.begin(), plan.faults.end(), [](const Fault &fault) {
    return fault.kind != FaultKind::kill && fault.kind != FaultKind::exit && fault.kind != FaultKind::stop;
  });
  const uint32_t kinds = random.below(3);
  plan.registers = kinds == 1;
  plan.readable_kinds = kinds == 1 ? kind_bit(PayloadKind::process) : 0;
  if (kinds == 2 && threads) plan.readable_kinds = kind_bit(PayloadKind::address);
  return plan;
}

std::string describe(const LifePlan &plan) {
  std::string text = "seed " + std::to_string(plan.seed) + ": " + std::to_string(plan.rank_count) + " ranks, " +
                     rondo_algorithm_string(plan.settings.algorithm) + ", " +
                     rondo_protocol_string(plan.settings.protocol) + ", wait " + wait_mode_string(plan.settings.wait) +
                     (plan.oversubscribed ? ", oversubscribed" : ", dedicated cores") +
                     (plan.wired ? ", late stores" : "") + ", readable kinds " +
                     std::to_string(plan.readable_kinds) + ", slots " + std::to_string(plan.settings.slot_count) +
                     " x " + std::to_string(plan.settings.slot_bytes) + ", timeout " +
                     std::to_string(plan.settings.timeout_ns / ms) + " ms, init " +
                     std::to_string(plan.settings.init_timeout_ns / ms) + " ms\n";
  for (size_t i = 0; i < plan.calls.size(); ++i)
    text += "  operation " + std::to_string(i + 1) + ": " + describe(plan.calls[i].signature) +
            (plan.calls[i].in_place ? ", in place\n" : "\n");
  for (const Fault &fault : plan.faults)
    text += std::string("  fault: ") + name_of(fault.kind) + " rank " + std::to_string(fault.rank) + " in call " +
            std::to_string(fault.call) + " after " + std::to_string(fault.after) + " turns" +
            (fault.duration_ns == 0          ? ""
             : fault.duration_ns == never_ns ? " for good"
                                             : " for " + std::to_string(fault.duration_ns / us) + " us") +
            "\n";
  return text + (plan.finalizes ? "  then finalize\n" : "");
}

}  // namespace rondo::sim
