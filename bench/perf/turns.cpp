// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/turns.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <string>

#include "bench/perf/floor.h"

namespace rondo::perf {
namespace {

uint64_t divide_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

/// Returns how many hops one part of the vector makes, one after another.
uint64_t hops_of(const Case &what, rondo_algorithm_t algorithm) {
  const auto ranks = static_cast<uint64_t>(what.ranks);
  const uint64_t there_and_back = traits_of(what.collective).shares == 2 ? 2 : 1;
  switch (algorithm) {
    case RONDO_ALGORITHM_ONE_SHOT:
      return 1;
    case RONDO_ALGORITHM_TWO_SHOT:
      return there_and_back;
    case RONDO_ALGORITHM_TREE:
    case RONDO_ALGORITHM_HALVING_DOUBLING:
      return there_and_back * static_cast<uint64_t>(std::bit_width(ranks - 1));
    default:
      return there_and_back * (ranks - 1);
  }
}

/// Returns the number of parts in flight at the same time. With load_store, a chunk has the parts of all ranks.
uint64_t chunks_of(const Case &what, const rondo_plan_info_t &plan) {
  const rondo_algorithm_t algorithm = plan.algorithm;
  if (algorithm == RONDO_ALGORITHM_TREE || plan.kernel == RONDO_KERNEL_LOAD_STORE) return 1;
  const bool shared_out = in_blocks(what.collective) ||
                          (traits_of(what.collective).shares == 2 && algorithm != RONDO_ALGORITHM_ONE_SHOT);
  return shared_out ? static_cast<uint64_t>(what.ranks) : 1;
}

/// Collects one value from every rank. A rank that has none sends 0.
class Runs {
 public:
  Runs(Group &group, size_t rank_count) : group_(group), own_(static_cast<size_t>(group.rank())), values_(rank_count) {}

  /// Exchanges the `value` of every rank.
  [[nodiscard]] Outcome exchange(double value) {
    std::fill(values_.begin(), values_.end(), 0);
    values_[own_] = value;
    return group_.max(values_);
  }
  [[nodiscard]] const std::vector<double> &values() const { return values_; }

 private:
  Group &group_;
  size_t own_;
  std::vector<double> values_;
};

/// Measures a hand-over: the median of the runs, or 0 on a rank without a relay. All ranks meet before each run.
Outcome run_relay(Group &group, Relay *relay, double &hand_over_us) {
  std::vector<double> times_ns;
  for (uint32_t run = 0; run < 1 + relay_runs; ++run) {
    if (auto failure = group.barrier()) return failure;
    double time_ns = 0;
    if (relay == nullptr) continue;
    if (auto failure = relay->run(relay_rounds, relay_timeout_ns, time_ns)) return failure;
    if (run != 0) times_ns.push_back(time_ns);
  }
  if (relay == nullptr) return std::nullopt;
  std::nth_element(times_ns.begin(), times_ns.begin() + relay_runs / 2, times_ns.end());
  hand_over_us = times_ns[relay_runs / 2] / 1e3;
  return std::nullopt;
}

/// Joins a relay. The first process makes the memory, and the others open it. All ranks must call it together.
Outcome join_relay(Runs &runs, Device &device, std::span<const Member> members, RelayPlace &place,
                   const std::vector<size_t> &sharers, bool takes_part, std::unique_ptr<Relay> &relay) {
  const bool first = takes_part && place.place == 0;
  if (first)
    if (auto failure = device.open_relay(place, relay)) return failure;
  if (auto failure = runs.exchange(first ? relay->descriptor() : 0)) return failure;
  if (!takes_part || first) return std::nullopt;
  const auto descriptor = static_cast<int>(runs.values()[sharers[0]]);
  place.path = "/proc/" + std::to_string(members[sharers[0]].process) + "/fd/" + std::to_string(descriptor);
  return device.open_relay(place, relay);
}

}  // namespace

std::vector<size_t> sharers_of(std::span<const Member> members, size_t rank) {
  std::vector<size_t> sharers;
  for (size_t other = 0; other < members.size(); ++other) {
    if (first_on_device(members, other) != first_on_device(members, rank)) continue;
    const auto same_process = [&](size_t known) { return members[known].process == members[other].process; };
    if (std::none_of(sharers.begin(), sharers.end(), same_process)) sharers.push_back(other);
  }
  return sharers;
}

Outcome measure_hand_overs(Group &group, Device &device, std::span<const Member> members,
                           std::vector<double> &hand_over_us) {
  hand_over_us.clear();
  bool shared = false;
  for (size_t rank = 0; rank < members.size(); ++rank) shared = shared || sharers_of(members, rank).size() > 1;
  if (!shared) return std::nullopt;
  Runs runs(group, members.size());
  if (auto failure = runs.exchange(device.can_relay() ? 0 : 1)) return failure;
  if (std::count(runs.values().begin(), runs.values().end(), 1.0) != 0) return std::nullopt;
  const auto own = static_cast<size_t>(group.rank());
  const std::vector<size_t> sharers = sharers_of(members, own);
  const auto found = std::find(sharers.begin(), sharers.end(), own);
  const bool takes_part = sharers.size() > 1 && found != sharers.end();
  RelayPlace place{static_cast<size_t>(found - sharers.begin()), sharers.size(), {}};
  std::unique_ptr<Relay> relay;
  if (auto failure = join_relay(runs, device, members, place, sharers, takes_part, relay)) return failure;
  double time_us = 0;
  if (auto failure = run_relay(group, relay.get(), time_us)) return failure;
  if (auto failure = runs.exchange(time_us)) return failure;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    double slowest_us = 0;
    for (const size_t sharer : sharers_of(members, rank)) slowest_us = std::max(slowest_us, runs.values()[sharer]);
    hand_over_us.push_back(slowest_us);
  }
  return std::nullopt;
}

uint64_t hand_overs_of(const Case &what, size_t bytes, const rondo_plan_info_t &plan) {
  if (what.ranks < 2 || bytes == 0 || plan.chunk_bytes == 0 || plan.channels == 0) return 0;
  const uint64_t tile_bytes = plan.chunk_bytes * plan.channels * chunks_of(what, plan);
  return divide_up(bytes, tile_bytes) * hops_of(what, plan.algorithm);
}

}  // namespace rondo::perf
