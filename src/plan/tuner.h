// SPDX-License-Identifier: Apache-2.0
// The tuner chooses algorithm, kernel, protocol, channels and chunk size of an operation. It does no I/O. It uses a
// measured table if there is one, the built-in tables (tuner.cpp), and the limits of the connections' slots. The
// reasons for the built-in tables are in docs/lab/tuner.md. Every rank gets the same answer from the same input. That
// is why the input must be equal on all ranks.
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
  uint64_t ll_slot_bytes = 0;   ///< payload of a slot with `ll`, at least 64; 0 without `ll`
  uint64_t post_bytes = 0;      ///< load_store: the most that a one_shot takes, or 0 without load_store
  uint64_t exchange_chunk_bytes = 0;  ///< load_store: the largest chunk, except of one_shots
  uint32_t exchange_channels = 0;     ///< load_store by kernels of a device: the most channels, or 0 on hosts
  BufferPlace buffers = BufferPlace::host;
  /// The most channels of the interpreter by kernels of a device on one host; 0 if it runs on the host or by copies.
  uint32_t connection_channels = 0;
  uint64_t default_chunk_bytes = 0;   ///< in place of the built-in tables' chunks, unless 0
  PlanChoice overrides;
  const TuningTable *table = nullptr;  ///< measured, asked before the built-in ones; null if there is none

  [[nodiscard]] bool several_hosts() const { return host_count > 1; }
  /// Returns whether there are several hosts, of which at least one has several ranks.
  [[nodiscard]] bool shares_hosts() const { return several_hosts() && host_count < rank_count; }
};

/// Chooses a plan. Overrides win. Next is a row of the measured table that is for this number of ranks and this size,
/// fits the overrides, and is possible here. Then the built-in tables follow. RONDO_ERROR_UNSUPPORTED: an override is
/// impossible, e.g. the algorithm does not do this collective with this number of ranks. The message lists the possible
/// ones. chunk_bytes is a multiple of 64, at least 64, and at most the content of slot_count - 1 slots. So a rank can
/// always send a whole chunk while its peer still keeps one slot. Thus cutting a chunk into slots adds no deadlock to
/// the schedule. An override of chunk_bytes is rounded down to that.
[[nodiscard]] Result<PlanChoice> choose_plan(const TunerInput &input, std::span<const Algorithm> registry);

/// Chooses among all algorithms that were built.
[[nodiscard]] inline Result<PlanChoice> choose_plan(const TunerInput &input) {
  return choose_plan(input, algorithms());
}

/// A choice for the kernel load_store in an all-reduce among up to this many ranks. The first row that fits counts.
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
