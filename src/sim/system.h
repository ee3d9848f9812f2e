// SPDX-License-Identifier: Apache-2.0
// A System is the input of the simulator's engine: the schedules of all ranks. If ranks behave alike, it has the
// schedule of only one of them. Links are resolved to wires, and wires to the resources that they share.
//
// The steps are the steps that the builders return. Some lanes differ only in shifted chunk numbers, such as all lanes
// of a ring. Such lanes share a list of steps, so a system is small even if no two ranks behave alike.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "src/plan/schedule.h"
#include "src/plan/tuner.h"
#include "src/proto/partition.h"
#include "src/sim/sim_network.h"

namespace rondo::sim {

inline constexpr uint32_t no_index = UINT32_MAX;

/// The simulated call. An element is a byte, and parts begin at multiples of 64 bytes, as for every type.
struct SimCase {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  uint32_t root = 0;
  bool in_place = false;
  uint64_t bytes = 0;    ///< size of the whole logical vector; in an all_to_all, of a rank's send buffer
  PlanChoice overrides;  ///< AUTO and 0 leave the choice to the tuner
  bool use_symmetry = true;  ///< false to simulate every rank, for comparison
  bool use_period = true;    ///< false to simulate every tile, for comparison
  uint64_t step_count_max = UINT64_MAX;  ///< limit on the steps of one tile of the simulated ranks
  Network network;
};

/// A symmetry: ranks and their images behave alike (symmetry.cpp). Ranks equal modulo `period` form a class.
struct Symmetry {
  enum class Kind : uint8_t { none, shift, exchange };
  Kind kind = Kind::none;
  uint32_t period = 1;  ///< the representatives are the ranks below `period`
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
  /// For each step, how many of this rank's buffers (0 to 2) the step touches at a chunk that no earlier step of the
  /// lane used. The vector is empty if memory costs nothing.
  std::vector<uint8_t> first_touches;
};

struct SimLane {
  const Shape *shape = nullptr;
  uint32_t chunk_shift = 0;  ///< number to add to the steps' chunks, modulo the chunk count
  uint32_t rank = 0, channel = 0;
  uint32_t link_base = 0;  ///< first index in System::out_wire and in_wire
  uint32_t pool = no_index;    ///< index of the lane's pool of cores
};

/// A directed link.
struct SimWire {
  uint32_t sender = no_index, receiver = no_index;  ///< indices of lanes
  LinkClass link = LinkClass::self;
  LinkIndex receiver_link = 0;
  uint32_t out = no_index, in = no_index;  ///< resources that a message passes; `in` may be no_index
};

/// A resource that carries one message at a time. If it is ordered, the order of its messages is known without
/// comparing their times.
struct Resource {
  bool ordered = true;
};

/// The sizes of chunks. All tiles except the last are full.
struct ChannelSizes {
  uint32_t chunk_count = 1;
  uint64_t full_tile_count = 0, tile_count = 0;
  uint64_t chunk_bytes = 0;
  std::vector<uint64_t> last;  ///< sizes of the last tile's chunks

  [[nodiscard]] uint64_t bytes(uint64_t tile, uint32_t chunk) const {
    return tile < full_tile_count ? chunk_bytes : last[chunk];
  }
  [[nodiscard]] bool even() const;
};

struct System {
  PlanChoice plan;
  uint64_t slot_bytes = 1;  ///< slot size of the plan's protocol
  Symmetry symmetry;
  std::deque<Shape> shapes;
  std::vector<ChannelSizes> channels;
  std::vector<SimLane> lanes;
  std::vector<SimWire> wires;
  std::vector<uint32_t> out_wire, in_wire;  ///< indexed by link_base + link
  std::vector<Resource> out_resources, in_resources;
  std::vector<uint32_t> pool_sizes;  ///< number of cores in each pool

  [[nodiscard]] uint32_t copies() const { return symmetry.rank_count / symmetry.period; }
};

/// Returns the plan that the tuner chooses under the overrides.
[[nodiscard]] Result<PlanChoice> plan_of(const SimCase &what);
[[nodiscard]] std::vector<ChannelSizes> channel_sizes(const SimCase &what, const PlanChoice &plan,
                                                      uint32_t chunk_count);

/// Returns the valid symmetry that has the fewest representatives (symmetry.cpp).
[[nodiscard]] Result<Symmetry> find_symmetry(const SimCase &what, const PlanChoice &plan, const Placement &placement);

/// Builds a system. Fails if the algorithm cannot run the case, or if the steps exceed `step_bytes_max`.
[[nodiscard]] Result<System> build_system(const SimCase &what);
inline constexpr uint64_t step_bytes_max = uint64_t{3} << 29;  // 1.5 GiB

}  // namespace rondo::sim
