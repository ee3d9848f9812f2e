// SPDX-License-Identifier: Apache-2.0
// This file lists the candidates that `rondo tune` tries on host memory. It does no I/O.
#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "src/base/parse.h"
#include "src/cli/tune/runs.h"
#include "src/plan/collective.h"
#include "src/plan/schedule.h"

namespace rondo::cli::tune {
namespace {

/// The chunk sizes to try. Small chunks pipeline better; large chunks cost fewer updates of counters. Buffers of ll and
/// load_store are small. With load_store, one rank reduces a chunk of a ring, and all ranks reduce one of a two_shot.
constexpr std::array<uint64_t, 3> simple_chunks{64 * KiB, 256 * KiB, 1024 * KiB};
constexpr std::array<uint64_t, 2> ll_chunks{4 * KiB, 16 * KiB};
constexpr std::array<uint64_t, 3> load_store_chunks{64 * KiB, 128 * KiB, 256 * KiB};
constexpr std::array<uint64_t, 3> load_store_ring_chunks{16 * KiB, 32 * KiB, 64 * KiB};

/// A way to run a schedule: the interpreter with a protocol, or a kernel without one.
struct Way {
  rondo_kernel_t kernel;
  rondo_protocol_t protocol;
};
constexpr std::array ways{Way{RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_SIMPLE},
                          Way{RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_LL},
                          Way{RONDO_KERNEL_LOAD_STORE, RONDO_PROTOCOL_AUTO}};

std::span<const uint64_t> chunks_of(rondo_algorithm_t algorithm, const Way &way) {
  if (way.kernel == RONDO_KERNEL_LOAD_STORE && algorithm == RONDO_ALGORITHM_RING) return load_store_ring_chunks;
  if (way.kernel == RONDO_KERNEL_LOAD_STORE) return load_store_chunks;
  return way.protocol == RONDO_PROTOCOL_LL ? std::span<const uint64_t>(ll_chunks) : simple_chunks;
}

/// Returns the number of channels to try. Two channels use both trees of a double tree, or both directions of a ring's
/// links.
uint32_t channels_of(rondo_algorithm_t algorithm) {
  return algorithm == RONDO_ALGORITHM_TREE || algorithm == RONDO_ALGORITHM_RING ? 2 : 1;
}

/// Adds a choice, unless the list has an equal one. Chunk sizes that are not smaller than the message count as equal.
bool add(std::vector<PlanChoice> &list, const PlanChoice &choice, uint64_t bytes) {
  const auto alike = [&](const PlanChoice &other) {
    PlanChoice same = other;
    if (other.chunk_bytes >= bytes && choice.chunk_bytes >= bytes) same.chunk_bytes = choice.chunk_bytes;
    return same == choice;
  };
  if (std::any_of(list.begin(), list.end(), alike)) return false;
  list.push_back(choice);
  return true;
}

/// The candidates so far, and for each size the plans to which they lead.
struct List {
  const Options &options;
  const Group &group;
  TunerInput input;
  std::vector<Candidate> candidates{};
  std::map<uint64_t, std::vector<PlanChoice>> known{};

  /// Adds a candidate. Its sizes are from the first to the last one at which no earlier candidate leads to its plan.
  void add_new(const PlanChoice &asked) {
    Candidate candidate{asked};
    candidate.bytes_min = candidate.bytes_max;
    for (const uint64_t bytes : sizes_of(options, group, {})) {
      if (asked.protocol == RONDO_PROTOCOL_LL && bytes > ll_bytes_max) continue;
      input.bytes = rounded_bytes(group, bytes);
      input.overrides = asked;
      const auto chosen = choose_plan(input);  // refuses impossible choices, and cuts chunks to the slots
      if (!chosen.ok() || !add(known[bytes], chosen.value(), input.bytes)) continue;
      if (candidate.bytes_min > bytes) candidate.bytes_min = bytes;
      candidate.bytes_max = bytes;
    }
    if (candidate.bytes_min <= candidate.bytes_max) candidates.push_back(candidate);
  }
};

}  // namespace

std::vector<Candidate> host_candidates(const Options &options, const Group &group, TunerInput input) {
  input.collective = group.collective;
  List list{options, group, input};
  list.candidates.emplace_back();
  for (const Algorithm &algorithm : algorithms()) {
    const bool hierarchical =
        algorithm.id == RONDO_ALGORITHM_HIERARCHICAL || algorithm.id == RONDO_ALGORITHM_HIERARCHICAL_TREE;
    if (!algorithm.supports(group.collective) || (hierarchical && !group.several_hosts)) continue;
    for (const Way &way : ways) {
      if (group.several_hosts && way.protocol != RONDO_PROTOCOL_SIMPLE) continue;  // a network moves whole slots
      for (uint32_t channels = 1; channels <= channels_of(algorithm.id); ++channels)
        for (const uint64_t chunk_bytes : chunks_of(algorithm.id, way))
          list.add_new({algorithm.id, way.protocol, channels, chunk_bytes, way.kernel});
    }
  }
  return std::move(list.candidates);
}

uint64_t rounded_bytes(const Group &group, uint64_t bytes) {
  constexpr uint64_t element_bytes = sizeof(float);
  const uint64_t unit = vector_count(group.collective, element_bytes, group.rank_count);
  return std::max<uint64_t>(bytes / unit, 1) * unit;
}

std::string show(const PlanChoice &choice) {
  return std::string(rondo_algorithm_string(choice.algorithm)) + "/" + choice.way() + " " +
         std::to_string(choice.channels) + "x" + show_bytes(choice.chunk_bytes);
}

}  // namespace rondo::cli::tune
