// SPDX-License-Identifier: Apache-2.0
// This file finds out which ranks behave alike, so that one rank is simulated in place of all these ranks.
//
// A map of the ranks to themselves is a symmetry if these conditions hold:
// - (1) It maps nodes to equal nodes, a rank to a rank with the same place in its node, and racks to racks. So links
//   keep their class and their order at the resources that they share.
// - (2) It maps the schedule of a rank to the schedule of its image, with the images of the peers as its peers.
// - (3) All chunks of a tile have the same size, so it does not matter that images handle other chunks.
//
// If a map is a symmetry, a rank and its image have the same times.
//
//     shift      r -> r + period (mod n)  for rings with equal nodes
//     exchange   r -> r xor d             for exchanges among 2^k ranks, with every multiple d of the period
//
// Conditions (1) and (3) are checked for all ranks. Condition (2) is checked for all ranks if that takes at most
// checked_steps_max steps. Otherwise it is checked for ranks at regular distances. tests/unit/sim_test.cpp compares the
// times with a simulation of every rank.
#include <algorithm>
#include <bit>
#include <unordered_map>

#include "src/sim/system.h"

namespace rondo::sim {
namespace {

constexpr uint64_t checked_steps_max = 4'000'000;

/// A map of numbers (nodes, racks). It is consistent if equal numbers have equal images, and different ones different.
class Consistent {
 public:
  [[nodiscard]] bool add(uint32_t from, uint32_t to) {
    return forth_.emplace(from, to).first->second == to && back_.emplace(to, from).first->second == from;
  }

 private:
  std::unordered_map<uint32_t, uint32_t> forth_, back_;
};

uint32_t image(Symmetry::Kind kind, uint32_t rank, uint32_t distance, uint32_t rank_count) {
  return kind == Symmetry::Kind::exchange ? rank ^ distance
                                          : static_cast<uint32_t>((uint64_t{rank} + distance) % rank_count);
}

/// Checks condition (1) for one map.
bool keeps_places(Symmetry::Kind kind, uint32_t distance, const Placement &placement) {
  Consistent nodes, racks;
  for (uint32_t rank = 0; rank < placement.rank_count(); ++rank) {
    const uint32_t to = image(kind, rank, distance, placement.rank_count());
    const SimNode &here = placement.node_at(rank), &there = placement.node_at(to);
    if (placement.local_rank(rank) != placement.local_rank(to) || here.rank_count != there.rank_count ||
        here.nic_count != there.nic_count)
      return false;
    if (placement.local_rank(rank) != 0) continue;
    if (!nodes.add(placement.node(rank), placement.node(to)) || !racks.add(here.rack, there.rack)) return false;
  }
  return true;
}

class Finder {
 public:
  Finder(const SimCase &what, const PlanChoice &plan, const Placement &placement)
      : what_(what), plan_(plan), placement_(placement), rank_count_(placement.rank_count()) {}

  Result<Symmetry> find() {
    const Symmetry all{Symmetry::Kind::none, rank_count_, rank_count_};
    RONDO_TRY_ASSIGN(const Schedule first, schedule(0, 0));
    for (const ChannelSizes &sizes : channel_sizes(what_, plan_, first.chunk_count))
      if (!sizes.even()) return all;
    for (const auto kind : {Symmetry::Kind::shift, Symmetry::Kind::exchange}) {
      if (kind == Symmetry::Kind::exchange && !std::has_single_bit(rank_count_)) continue;
      const uint32_t period = place_period(kind);
      if (period == rank_count_) continue;
      const Symmetry candidate{kind, period, rank_count_};
      RONDO_TRY_ASSIGN(const bool holds, keeps_schedules(candidate));
      if (holds) return candidate;
    }
    return all;
  }

 private:
  Result<Schedule> schedule(uint32_t rank, uint32_t channel) const {
    return build_schedule(plan_.algorithm,
                          {what_.collective, rank, rank_count_, what_.root, channel, what_.in_place,
                           placement_.node_of_ranks()});
  }

  /// Returns the least period for which condition (1) holds, or the number of ranks.
  [[nodiscard]] uint32_t place_period(Symmetry::Kind kind) const {
    for (uint32_t period = 1; period < rank_count_; ++period) {
      if (rank_count_ % period != 0) continue;
      if (kind == Symmetry::Kind::shift && keeps_places(kind, period, placement_)) return period;
      if (kind == Symmetry::Kind::shift || !std::has_single_bit(period)) continue;
      bool keeps = true;
      for (uint32_t distance = period; keeps && distance < rank_count_; distance *= 2)
        keeps = keeps_places(kind, distance, placement_);
      if (keeps) return period;
    }
    return rank_count_;
  }

  /// Checks condition (2).
  Result<bool> keeps_schedules(const Symmetry &symmetry) const {
    uint64_t step_count = 0;
    for (uint32_t channel = 0; channel < plan_.channels; ++channel) {
      for (uint32_t base = 0; base < symmetry.period; ++base) {
        RONDO_TRY_ASSIGN(const Schedule known, schedule(base, channel));
        step_count = 1;
        for (const Lane &lane : known.lanes) step_count += lane.size();
        const uint64_t checks =
            std::max<uint64_t>(3, checked_steps_max / step_count / symmetry.period / plan_.channels);
        const uint32_t image_count = rank_count_ / symmetry.period;
        const auto stride = static_cast<uint32_t>(std::max<uint64_t>(1, image_count / checks));
        for (uint32_t index = 1; index < image_count; index += stride) {
          RONDO_TRY_ASSIGN(const bool same, is_image(known, base + index * symmetry.period, channel, symmetry));
          if (!same) return false;
        }
        const uint32_t last = base + (image_count - 1) * symmetry.period;
        RONDO_TRY_ASSIGN(const bool same, is_image(known, last, channel, symmetry));
        if (!same) return false;
      }
    }
    return true;
  }

  Result<bool> is_image(const Schedule &known, uint32_t rank, uint32_t channel, const Symmetry &symmetry) const {
    RONDO_TRY_ASSIGN(Schedule other, schedule(rank, channel));
    for (uint32_t &peer : other.peers) peer = symmetry.seen(peer, rank);
    if (other.chunk_count != known.chunk_count || other.peers != known.peers ||
        other.lanes.size() != known.lanes.size())
      return false;
    for (size_t lane = 0; lane < other.lanes.size(); ++lane) {
      const bool same = std::equal(other.lanes[lane].begin(), other.lanes[lane].end(), known.lanes[lane].begin(),
                                   known.lanes[lane].end(), [](Step step, const Step &wanted) {
                                     step.chunk = wanted.chunk;  // condition (3): all have the same size
                                     return step == wanted;
                                   });
      if (!same) return false;
    }
    return true;
  }

  const SimCase &what_;
  const PlanChoice &plan_;
  const Placement &placement_;
  uint32_t rank_count_;
};

}  // namespace

Result<Symmetry> find_symmetry(const SimCase &what, const PlanChoice &plan, const Placement &placement) {
  return Finder(what, plan, placement).find();
}

}  // namespace rondo::sim
