// SPDX-License-Identifier: Apache-2.0
// The tuner chooses algorithm, kernel, protocol, channels and chunk size of an operation. It does no I/O. Its
// input is a measured table (if one exists), the built-in tables (tuner.cpp, explained in docs/lab/tuner.md),
// and the limits of the connections' slots. All ranks must give the same input, so that all get the same
// answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "src/base/result.h"
#include "src/plan/choice.h"
#include "src/plan/schedule.h"
#include "src/plan/tuning_table.h"

namespace rondo {

struct TunerInput {
  rondo_collective_t collective = RONDO_ALL_REDUCE;  ///< a barrier is planned as an all-reduce
  uint32_t rank_count = 1;
  uint64_t bytes = 0;  ///< bytes of the whole logical vector; for reduce-scatter and all-gather, of all blocks
  uint32_t element_bytes = 1;  ///< 1, 2, 4 or 8
  bool oversubscribed = false;  ///< true if some host has more ranks than cores
  uint32_t host_count = 1;      ///< above 1, a network is between some of the ranks
  bool uneven_blocks = false;   ///< true for a _v collective
  uint32_t slot_count = 8;      ///< slots of a connection, at least 2
  uint64_t slot_bytes = 0;      ///< payload of a slot with `simple`, at least 64
  uint64_t ll_slot_bytes = 0;   ///< payload of a slot with `ll`, at least 64; 0 without `ll`
  uint64_t post_bytes = 0;      ///< most bytes of a one_shot of load_store; 0 without load_store
  uint64_t exchange_chunk_bytes = 0;  ///< for load_store: largest chunk in bytes, except for one_shot
  uint32_t exchange_channels = 0;     ///< most channels of load_store if kernels of a device run it, otherwise 0
  BufferPlace buffers = BufferPlace::host;
  /// The most channels of an interpreter that kernels of a device run; 0 if it runs on the host or by copies.
  uint32_t connection_channels = 0;
  uint64_t default_chunk_bytes = 0;   ///< replaces the chunk size of the built-in tables, unless 0
  PlanChoice overrides;
  const TuningTable *table = nullptr;  ///< measured table, used before the built-in tables; may be null

  [[nodiscard]] bool several_hosts() const { return host_count > 1; }
  /// Returns whether there are several hosts, and at least one of them has several ranks.
  [[nodiscard]] bool shares_hosts() const { return several_hosts() && host_count < rank_count; }
};

/// Chooses a plan. Overrides have priority. Next comes a row of the measured table. It must be for this number of ranks
/// and this size, fit the overrides, and be possible here. The built-in tables come last.
///
/// RONDO_ERROR_UNSUPPORTED means that an override is impossible, for instance an algorithm that does not have this
/// collective for this number of ranks. The message lists the possible values.
///
/// chunk_bytes is a multiple of 64, at least 64, and at most the content of slot_count - 1 slots; an override is
/// rounded down. With one slot to spare, a rank can send a whole chunk while its peer still holds a slot. Without it,
/// schedules whose chunks have several slots could deadlock (build.h).
[[nodiscard]] Result<PlanChoice> choose_plan(const TunerInput &input, std::span<const Algorithm> registry);

/// Chooses among all algorithms of the registry.
[[nodiscard]] inline Result<PlanChoice> choose_plan(const TunerInput &input) {
  return choose_plan(input, algorithms());
}

/// A row of the table that chooses load_store's algorithm for an all-reduce. The first row applies that has the input's
/// `oversubscribed`, and whose limits on ranks and bytes fit. A row for one_shot also needs bytes <= post_bytes.
struct LoadStoreRow {
  bool oversubscribed;
  uint32_t rank_count_max;
  uint64_t bytes_max;
  rondo_algorithm_t algorithm;  ///< one_shot, two_shot or ring
  uint64_t chunk_bytes;
};
[[nodiscard]] std::span<const LoadStoreRow> load_store_rows();

/// A row of the table that chooses the interpreter's algorithm. The first row that fits applies.
struct AlgorithmRow {
  enum class Cores : uint8_t { any, enough, too_few };
  rondo_collective_t collective;
  Cores cores;              ///< too_few: oversubscribed
  uint32_t rank_count_max;
  uint64_t bytes_max;
  rondo_algorithm_t algorithm;
};
[[nodiscard]] std::span<const AlgorithmRow> algorithm_rows();

inline constexpr uint64_t chunk_align_bytes = 64;  // a whole number of elements of every type, and of cache lines

/// Returns the choice with load_store, or nothing if load_store is impossible or another kernel was requested.
/// `collective` is the planned collective, which is never a barrier.
[[nodiscard]] std::optional<PlanChoice> choose_load_store(const TunerInput &input, rondo_collective_t collective);

/// Returns the algorithm whose order of reduction load_store keeps on a device, for collectives other than all-reduce.
/// AUTO means that load_store does not have the collective.
[[nodiscard]] rondo_algorithm_t load_store_algorithm(rondo_collective_t collective);

/// Returns the error for a request that load_store cannot fulfil. The message lists the possible requests.
[[nodiscard]] Error no_load_store(const TunerInput &input);

// These functions compute the ranks with which a rank can ever exchange slots. They are its peers in any of the
// schedules that the tuner can choose. Between hosts, only these peers get links of collectives. A device opens the
// memory of only these peers.

/// The input for the choice of an algorithm, without the operation. It is equal on all ranks.
struct EdgeRequest {
  std::span<const uint32_t> node_of;  ///< node of each rank, as in ScheduleArgs
  uint32_t channel_count = 1;         ///< the most channels of a plan
  bool oversubscribed = false;
  PlanChoice overrides;
  const TuningTable *table = nullptr;  ///< may be null
};

/// The most ranks for which schedules are built in advance. With more ranks, every peer is permitted.
inline constexpr uint32_t edges_rank_count_max = 4096;

/// Returns, for each rank, whether it is a peer of `rank` in some schedule. `rank` is also a peer of itself. Both ranks
/// of a pair get the same answer.
[[nodiscard]] std::vector<bool> permitted_peers(const EdgeRequest &request, uint32_t rank);

/// Returns whether every two ranks of different nodes are peers because one_shot is possible. The result is equal on
/// all ranks. With more than edges_rank_count_max ranks, it is true.
[[nodiscard]] bool joins_all_nodes(const EdgeRequest &request);

}  // namespace rondo
