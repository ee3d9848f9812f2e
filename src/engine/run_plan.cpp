// SPDX-License-Identifier: Apache-2.0
#include "src/engine/run_plan.h"

#include <array>
#include <cassert>

namespace rondo {
namespace {

/// Runs all lanes, at most `capacity` of them. It is small for few lanes, as clearing the states takes time.
template <class Protocol, size_t capacity>
RunOutcome run_lanes(const Plan &plan, const Buffers &buffers, const HostReducer &reducer, std::span<HostLinks> links,
                     Waiter &waiter) {
  const auto lane_count = static_cast<uint32_t>(plan.lanes.size());
  assert(lane_count <= capacity);
  std::array<LaneState, capacity> states{};
  uint64_t running = lane_count == 64 ? ~uint64_t{0} : (uint64_t{1} << lane_count) - 1;
  while (running != 0) {  // ends at the operation's deadline, which the waiter checks
    bool moved = false;
    for (uint64_t left = running; left != 0; left &= left - 1) {
      const auto lane = static_cast<uint32_t>(__builtin_ctzll(left));
      const PlannedLane &planned = plan.lanes[lane];
      HostLinks &channel = links[planned.channel];
      Progress progress = Progress::moved;
      do {
        progress =
            advance<SingleThread, Protocol>(SingleThread{}, states[lane], planned.program, buffers, reducer, channel);
        moved |= progress == Progress::moved;
      } while (progress == Progress::moved && lane_count == 1);
      if (progress == Progress::done) {
        running &= ~(uint64_t{1} << lane);
        moved = true;
      }
      if (progress == Progress::failed)
        return {RunOutcome::Kind::fault, states[lane].fault, channel.ends[states[lane].fault_link]->peer};
    }
    if (moved) {
      waiter.moved();
    } else if (!waiter.idle()) {
      return {RunOutcome::Kind::stopped, Fault::none, 0};
    }
  }
  return {};
}

constexpr size_t few_lanes = 4;

template <size_t capacity>
RunOutcome run_by_protocol(const Plan &plan, const Buffers &buffers, const HostReducer &reducer,
                           std::span<HostLinks> links, Waiter &waiter) {
  return plan.choice.protocol == RONDO_PROTOCOL_LL
             ? run_lanes<HostLl, capacity>(plan, buffers, reducer, links, waiter)
             : run_lanes<HostSimple, capacity>(plan, buffers, reducer, links, waiter);
}

}  // namespace

RunOutcome run_plan(const Plan &plan, const Buffers &buffers, const HostReducer &reducer, std::span<HostLinks> links,
                    Waiter &waiter) {
  if (plan.lanes.size() <= few_lanes) return run_by_protocol<few_lanes>(plan, buffers, reducer, links, waiter);
  return run_by_protocol<lane_count_max>(plan, buffers, reducer, links, waiter);
}

}  // namespace rondo
