// SPDX-License-Identifier: Apache-2.0
// The tuner: algorithm, kernel, protocol, channels and chunk size of an operation. Pure: a measured table if there is
// one, three built-in ones (tuner.cpp; reasons are in docs/lab/tuner.md) and the limits of the connections' slots.
// Every rank gets the same answer from the same input, which is why the input must be equal on all ranks.
#pragma once

#include <cstdint>
#include <span>

#include "src/base/result.h"
#include "src/plan/algorithm.h"
#include "src/plan/tuning_table.h"

namespace rondo {

struct TunerInput {
  rondo_collective_t collective = RONDO_ALL_REDUCE;  ///< a barrier is planned as an all-reduce
  uint32_t rank_count = 1;
  uint64_t bytes = 0;          ///< the whole logical vector: for reduce-scatter and all-gather, all blocks
  uint32_t element_bytes = 1;  ///< 1, 2, 4 or 8
  bool oversubscribed = false;  ///< more ranks than cores on some host
  uint32_t host_count = 1;      ///< more than one: a network is between some of the ranks
  bool uneven_blocks = false;   ///< of a _v collective
  uint32_t slot_count = 8;      ///< of a connection, at least 2
  uint64_t slot_bytes = 0;      ///< payload of a slot with `simple`, at least 64
  uint64_t ll_slot_bytes = 0;   ///< payload of a slot with `ll`, at least 64; 0: no `ll` here
  uint64_t ll128_slot_bytes = 0;  ///< payload of a slot with `ll128`, at least 120; 0: no `ll128` here
  uint64_t post_bytes = 0;      ///< load_store: the most that a one_shot takes; 0: no load_store here
  uint64_t exchange_chunk_bytes = 0;  ///< load_store: the largest chunk, but of one_shots
  uint32_t exchange_channels = 0;     ///< load_store by kernels of a device: the most channels; 0: it is by the host
  BufferPlace buffers = BufferPlace::host;
  /// By kernels of a device on one host: the most channels of the interpreter; 0: by the host, or by copies.
  uint32_t connection_channels = 0;
  uint64_t default_chunk_bytes = 0;   ///< in place of the built-in tables' chunks; 0: those
  PlanChoice overrides;
  const TuningTable *table = nullptr;  ///< measured, asked before the built-in ones; null: there is none

  [[nodiscard]] bool several_hosts() const { return host_count > 1; }
  /// Several hosts, one of which at least has several ranks.
  [[nodiscard]] bool shares_hosts() const { return several_hosts() && host_count < rank_count; }
};

/// Overrides win; what the measured table says comes next, where it is for so many ranks and such a size, goes together
/// with the overrides, and can be here; then the built-in tables. An override that cannot be (the algorithm does not do
/// this collective, or not with so many ranks) is RONDO_ERROR_UNSUPPORTED with the list of those that can. chunk_bytes
/// is a multiple of 64, at least 64, and at most what slot_count - 1 slots hold: a rank can then always send a whole
/// chunk while its peer still keeps one slot, so a chunk that is cut into slots does not bring about a deadlock that
/// the schedule does not have. An override of chunk_bytes is rounded down to that.
[[nodiscard]] Result<PlanChoice> choose_plan(const TunerInput &input, std::span<const Algorithm> registry);

/// With all the algorithms that were built.
[[nodiscard]] inline Result<PlanChoice> choose_plan(const TunerInput &input) {
  return choose_plan(input, algorithms());
}

/// What the kernel load_store does for an all-reduce among so many ranks; the first row that fits counts.
struct LoadStoreRow {
  bool oversubscribed;
  uint32_t rank_count_max;
  uint64_t bytes_max;
  rondo_algorithm_t algorithm;  ///< one_shot, two_shot or ring
  uint64_t chunk_bytes;
};
[[nodiscard]] std::span<const LoadStoreRow> load_store_rows();

/// One line of the table that picks the algorithm; the first that fits counts.
struct AlgorithmRow {
  enum class Cores : uint8_t { any, enough, too_few };
  rondo_collective_t collective;
  Cores cores;              ///< too_few: oversubscribed
  uint32_t rank_count_max;
  uint64_t bytes_max;
  rondo_algorithm_t algorithm;
};
[[nodiscard]] std::span<const AlgorithmRow> algorithm_rows();

}  // namespace rondo
