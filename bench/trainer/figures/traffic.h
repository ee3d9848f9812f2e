// SPDX-License-Identifier: Apache-2.0
// When the collectives of a step were in flight, and when computation waited for them. All times are of one clock, that
// of now_ns(), so the part of communication in which computation waited is at most the whole.
//
// A rank that comes late to its collectives finds the others waiting, and measures little more than communication. The
// ranks that wait for it measure that wait, too. So the communication of the step is the least time
// in flight of all ranks, and what a rank has beyond that is skew. Whole steps are compared, not single
// collectives, since a late rank may miss a transfer whose data are on its host already. Only durations are compared,
// so the clocks of hosts need not agree.
#pragma once

#include <vector>

#include "bench/trainer/figures/timeline.h"

namespace rondo::train {

struct Interval {
  uint64_t begin_ns = 0, end_ns = 0;

  [[nodiscard]] uint64_t duration_ns() const { return end_ns - begin_ns; }
};

/// One collective on this rank: from its turn on the stream to its end.
struct Flight {
  Interval time;
  bool gradients = false;  ///< a backward pass can hide it
};

struct Traffic {
  std::vector<Flight> flights;  ///< never two at once
  std::vector<Interval> waits;  ///< of the thread that computes, one after the other

  [[nodiscard]] uint64_t in_flight_ns() const;
};

/// Fills in the times of a step that follow from its traffic. Of each collective, the wait for late ranks comes first.
/// @param least_ns  the least time in flight in this step on any rank that took part.
void settle(const Traffic &traffic, uint64_t least_ns, StepTimes &times);

}  // namespace rondo::train
