// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/figures/traffic.h"

#include <algorithm>
#include <span>

namespace rondo::train {
namespace {

/// Returns how long computation waited within `time`.
uint64_t waited_during(const Interval &time, std::span<const Interval> waits) {
  uint64_t sum_ns = 0;
  for (const Interval &wait : waits) {
    const uint64_t begin_ns = std::max(time.begin_ns, wait.begin_ns), end_ns = std::min(time.end_ns, wait.end_ns);
    if (begin_ns < end_ns) sum_ns += end_ns - begin_ns;
  }
  return sum_ns;
}

}  // namespace

uint64_t Traffic::in_flight_ns() const {
  uint64_t sum_ns = 0;
  for (const Flight &flight : flights) sum_ns += flight.time.duration_ns();
  return sum_ns;
}

void settle(const Traffic &traffic, uint64_t least_ns, StepTimes &times) {
  times.in_flight_ns = traffic.in_flight_ns();
  times.communication_ns = times.gradients_ns = times.exposed_ns = 0;
  if (times.in_flight_ns == 0) return;
  const double share = std::min(1.0, static_cast<double>(least_ns) / static_cast<double>(times.in_flight_ns));
  for (const Flight &flight : traffic.flights) {
    const auto communication_ns = static_cast<uint64_t>(share * static_cast<double>(flight.time.duration_ns()));
    times.communication_ns += communication_ns;
    if (flight.gradients) times.gradients_ns += communication_ns;
    times.exposed_ns += waited_during({flight.time.end_ns - communication_ns, flight.time.end_ns}, traffic.waits);
  }
}

}  // namespace rondo::train
