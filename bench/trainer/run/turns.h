// SPDX-License-Identifier: Apache-2.0
// This file orders what a stage of a pipeline does in a step, by the schedule 1F1B.
//
// A stage first makes the forward passes that later stages need to begin. Then it alternates between one forward pass
// and one backward pass. So at most count - index passes wait for their backward passes, whatever the number of passes.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/trainer/model/shape.h"

namespace rondo::train {

/// A pass, or the messages that travel to and from neighbouring stages at the same time.
struct Turn {
  enum class Kind { forward, backward, messages };
  Kind kind = Kind::messages;
  size_t pass = 0;  ///< the pass, or for from_previous the pass that will begin with the message
  bool to_next = false, from_next = false, to_previous = false, from_previous = false;
};

/// Returns the turns of a step of `passes` passes. If two neighbours send to each other, both messages are in one turn,
/// so that neither neighbour waits for the other to receive first.
[[nodiscard]] std::vector<Turn> turns_of(const Stage &stage, size_t passes);

/// Returns the most passes of a stage that wait for their backward passes at once. Pass n has slot n % slots.
[[nodiscard]] size_t slots_of(const Stage &stage, size_t passes);

}  // namespace rondo::train
