// SPDX-License-Identifier: Apache-2.0
// A schedule is the work of one rank on one channel, as data. Builders are pure functions that return schedules; the
// registry lists them. The verifier, every executor and the simulator read the same schedule. A schedule does not
// depend on the message's size: the interpreter runs it once for each tile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rondo/rondo.h"
#include "src/base/result.h"
#include "src/plan/collective.h"
#include "src/proto/step.h"

namespace rondo {

/// Steps that run strictly in order. The lanes of a channel run concurrently, and only the links between them order
/// their steps. On a directed link only one lane sends, and only one lane receives.
using Lane = std::vector<Step>;

struct Schedule {
  uint32_t chunk_count = 1;     ///< chunks of a tile
  std::vector<uint32_t> peers;  ///< peer of each link; it may be the rank itself (a loop-back link)
  std::vector<Lane> lanes;

  bool operator==(const Schedule &) const = default;
};

struct HostLayout;  // src/plan/hierarchical/layout.h

/// The input of a builder.
struct ScheduleArgs {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  uint32_t root = 0;      ///< for collectives with a root
  uint32_t channel = 0;   ///< schedules may differ by channel: odd channels use the second of two trees
  bool in_place = false;  ///< this rank's send and recv buffers coincide, so dst overwrites src
  std::span<const uint32_t> node_of{};  ///< node of each rank; empty if all ranks are on one host
  /// HostLayout(*this), from a caller that builds many schedules of one rank. If null, a builder makes its own layout.
  const HostLayout *hosts = nullptr;
};

/// A line of the registry. CONTRIBUTING.md says what else a new algorithm needs.
struct Algorithm {
  rondo_algorithm_t id;
  uint32_t rank_count_max;  ///< build_schedule() refuses more ranks
  bool (*supports)(rondo_collective_t);
  Schedule (*build)(const ScheduleArgs &);  ///< pure; the arguments are valid for this algorithm
  /// Returns true if payloads may be sent by reference with these arguments: a peer reads them in the sender's own
  /// buffer when it consumes the slot. If true, the verifier proves that no later step overwrites a payload before the
  /// peer has read it. An operation ends only after the peers have consumed all such slots.
  bool (*reference_safe)(const ScheduleArgs &);
};

[[nodiscard]] std::span<const Algorithm> algorithms();

/// Returns the entry of `id`, or null for RONDO_ALGORITHM_AUTO and unknown values.
[[nodiscard]] const Algorithm *find_algorithm(rondo_algorithm_t id);

/// Builds the schedule, or fails with the reason: unsupported collective, too many ranks, bad rank or root.
[[nodiscard]] Result<Schedule> build_schedule(rondo_algorithm_t id, const ScheduleArgs &args);

}  // namespace rondo
