// SPDX-License-Identifier: Apache-2.0
// A schedule is the work of one rank on one channel, as data. Builders (src/plan/algorithm.h) are pure functions that
// return schedules. The verifier, every executor and the simulator read the same schedule. A schedule does not depend
// on the message's size: the interpreter runs it once for each tile.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rondo/rondo.h"
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

}  // namespace rondo
