// SPDX-License-Identifier: Apache-2.0
// These functions measure what the report's figures need of all ranks. A round makes the same step with computation
// alone, communication alone, and both with and without overlap. The kinds take turns, so that other load meets all of
// them. The share of communication in the collectives' time is measured, too.
#pragma once

#include <span>
#include <vector>

#include "bench/trainer/run/trainer.h"

namespace rondo::train {

/// Fills in the times of some steps that follow from their traffic, which all ranks of `data` do at once.
[[nodiscard]] Outcome settle_steps(Group &data, std::span<const Traffic> traffic, std::span<StepRecord> records);

/// Returns how many steps a round makes.
[[nodiscard]] uint64_t steps_of_round(const Options &options);

/// Measures options.measure_rounds rounds. If ranks take no sums in a step, it only measures one rank alone. If they
/// share a model, it measures all except that. With --no-overlap, it measures all except steps with overlap.
[[nodiscard]] Outcome measure_rounds(Trainer &trainer, const Options &options, Ranks &ranks,
                                     std::vector<Round> &rounds);

}  // namespace rondo::train
