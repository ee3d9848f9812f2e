// SPDX-License-Identifier: Apache-2.0
// This file records when the collectives of a step were in flight, and when computation waited for them. All times are
// from one clock, now_ns(). So the time in which computation waited for communication is at most the whole time of
// communication.
//
// The rank that enters a collective last waits for no other rank. So its time is little more than communication, while
// the times of other ranks include their wait. The communication of a step is therefore the shortest time in flight on
// any rank; the rest of a rank's time is skew. Times of whole steps are compared, not of single collectives. In a
// single one, a late rank's data may be on its host already, so its time lacks that transfer. Only durations are
// compared, so the clocks of hosts need not agree.
#pragma once

#include <vector>

#include "bench/trainer/figures/timeline.h"

namespace rondo::train {

struct Interval {
  uint64_t begin_ns = 0, end_ns = 0;

  [[nodiscard]] uint64_t duration_ns() const { return end_ns - begin_ns; }
};

/// One collective on this rank, from the start of its turn on the stream to its end.
struct Flight {
  Interval time;
  bool gradients = false;  ///< a backward pass can hide this collective
};

struct Traffic {
  std::vector<Flight> flights;  ///< at most one at a time
  std::vector<Interval> waits;  ///< the waits of the computing thread, one after another

  [[nodiscard]] uint64_t in_flight_ns() const;
};

/// Sets the times of a step that follow from its traffic. In each collective, the wait for late ranks is assumed to
/// come first.
/// @param least_ns  the shortest time in flight in this step on any rank that took part
void settle(const Traffic &traffic, uint64_t least_ns, StepTimes &times);

}  // namespace rondo::train
