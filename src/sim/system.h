// SPDX-License-Identifier: Apache-2.0
// The input of the simulator's engine: the schedules of all ranks, or of one rank for each class of ranks that behave
// alike. Their links are resolved to wires, and wires to the resources that they share.
//
// Steps are the builders' own. Some lanes differ only in that chunk numbers are shifted, such as all lanes of a ring.
// They share one list of steps, so a system is small even if no two ranks behave alike.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "src/sim/sim_network.h"
#include "src/plan/algorithm.h"
#include "src/plan/tuner.h"
#include "src/proto/partition.h"

namespace rondo::sim {

inline constexpr uint32_t no_index = UINT32_MAX;

/// The simulated call. Elements are bytes: parts begin at multiples of 64 of them, as with every type.
struct SimCase {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  uint32_t root = 0;
  bool in_place = false;
  uint64_t bytes = 0;    ///< of the whole logical vector
  PlanChoice overrides;  ///< AUTO and 0: the tuner's choice
  bool use_symmetry = true;  ///< false: every rank is simulated, for comparison
  bool use_period = true;    ///< false: every tile is
  uint64_t step_count_max = UINT64_MAX;  ///< of one tile of the ranks that are simulated; more is refused
  Network network;
};

/// Ranks r and image(r) behave alike. Both kinds divide ranks by their remainder, modulo `period`.
struct Symmetry {
  enum class Kind : uint8_t { none, shift, exchange };
  Kind kind = Kind::none;
  uint32_t period = 1;  ///< representatives are the ranks below it
  uint32_t rank_count = 1;

  [[nodiscard]] uint32_t representative(uint32_t rank) const { return rank % period; }
  /// Returns the image of `other` under the map that takes `rank` to its representative.
  [[nodiscard]] uint32_t seen(uint32_t other, uint32_t rank) const {
    const uint32_t to = representative(rank);
    if (kind == Kind::exchange) return other ^ rank ^ to;
    return static_cast<uint32_t>((uint64_t{other} + rank_count - rank + to) % rank_count);
  }
};

/// The steps of a lane, and the links on which it sends and receives.
struct Shape {
  Lane steps;
  std::vector<LinkIndex> send_links, recv_links;
  /// For each step, the number of the rank's two buffers in which the lane is the first to reach its chunk. It is empty
  /// if memory costs nothing.
  std::vector<uint8_t> first_touches;
};

struct SimLane {
  const Shape *shape = nullptr;
  uint32_t chunk_shift = 0;  ///< to add to the steps' chunks, modulo the chunk count
  uint32_t rank = 0, channel = 0;
  uint32_t link_base = 0;  ///< of System::out_wire, in_wire
  uint32_t pool = no_index;    ///< of cores
};

/// A directed link.
struct SimWire {
  uint32_t sender = no_index, receiver = no_index;  ///< lanes
  LinkClass link = LinkClass::self;
  LinkIndex receiver_link = 0;
  uint32_t out = no_index, in = no_index;  ///< resources that a message passes; in may be no_index
};

/// Carries one message at a time. Ordered: the order of its messages is known without comparing their times.
struct Resource {
  bool ordered = true;
};

/// The sizes of chunks: all tiles but the last are full.
struct ChannelSizes {
  uint32_t chunk_count = 1;
  uint64_t full_tile_count = 0, tile_count = 0;
  uint64_t chunk_bytes = 0;
  std::vector<uint64_t> last;  ///< of the last tile's chunks

  [[nodiscard]] uint64_t bytes(uint64_t tile, uint32_t chunk) const {
    return tile < full_tile_count ? chunk_bytes : last[chunk];
  }
  [[nodiscard]] bool even() const;
};

struct System {
  PlanChoice plan;
  uint64_t slot_bytes = 1;  ///< of the plan's protocol
  Symmetry symmetry;
  std::deque<Shape> shapes;
  std::vector<ChannelSizes> channels;
  std::vector<SimLane> lanes;
  std::vector<SimWire> wires;
  std::vector<uint32_t> out_wire, in_wire;  ///< by link_base + link
  std::vector<Resource> out_resources, in_resources;
  std::vector<uint32_t> pool_sizes;  ///< cores of each pool

  [[nodiscard]] uint32_t copies() const { return symmetry.rank_count / symmetry.period; }
};

/// Returns the plan that the tuner gives or the overrides want.
[[nodiscard]] Result<PlanChoice> plan_of(const SimCase &what);
[[nodiscard]] std::vector<ChannelSizes> channel_sizes(const SimCase &what, const PlanChoice &plan,
                                                      uint32_t chunk_count);

/// Returns the symmetry with the fewest representatives that is found to hold (sim_symmetry.cpp).
[[nodiscard]] Result<Symmetry> find_symmetry(const SimCase &what, const PlanChoice &plan, const Placement &placement);

/// Builds a system. It is refused if the algorithm cannot do it, or if the steps do not fit into `step_bytes_max`.
[[nodiscard]] Result<System> build_system(const SimCase &what);
inline constexpr uint64_t step_bytes_max = uint64_t{3} << 29;  // 1.5 GiB

}  // namespace rondo::sim
