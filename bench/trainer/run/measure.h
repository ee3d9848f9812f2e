// SPDX-License-Identifier: Apache-2.0
// How much communication hides behind computation: the same step with computation alone, communication alone and both,
// in turns, so that whatever else the machine does meets all of them.
#pragma once

#include <vector>

#include "bench/trainer/trainer.h"

namespace rondo::train {

/// One round. Each figure is that of the slowest rank.
struct Round {
  uint64_t computation_ns = 0;    ///< a step without communication
  uint64_t communication_ns = 0;  ///< all buckets' collectives, nothing else
  uint64_t overlapped_ns = 0;     ///< a step with --overlap
  uint64_t plain_ns = 0;          ///< a step with --no-overlap
  uint64_t alone_ns = 0;          ///< rank 0's step without communication, while the others wait
  uint64_t passes_alone_ns = 0;   ///< forward and backward of the step without communication
  uint64_t passes_beside_ns = 0;  ///< and of that with --overlap: slower for what communication takes from them

  /// The share of what could be hidden that was: 1 is all, 0 nothing, below 0 worse than one after the other.
  [[nodiscard]] double efficiency() const;
  [[nodiscard]] double slowdown() const;
};

/// options.measure_rounds of them. Where ranks take no sums in a step, only what one rank alone takes is measured;
/// where they share a model, all but that.
[[nodiscard]] Outcome measure_rounds(Trainer &trainer, const Options &options, Ranks &ranks,
                                     std::vector<Round> &rounds);

}  // namespace rondo::train
