// SPDX-License-Identifier: Apache-2.0
// These functions measure, on all ranks, what the report's figures need. A round makes the same step in four ways: only
// computation, only communication, and both, with and without overlap. The ways take turns, so that other load affects
// all of them. Beside them, it times a large product. Another measurement is the share of communication in the time of
// collectives.
#pragma once

#include <span>
#include <vector>

#include "bench/trainer/run/trainer.h"

namespace rondo::train {

/// Sets the times in `records` that follow from the traffic of these steps. All ranks of `data` call it at once.
[[nodiscard]] Outcome settle_steps(Group &data, std::span<const Traffic> traffic, std::span<StepRecord> records);

/// Returns how many steps a round makes.
[[nodiscard]] uint64_t steps_of_round(const Options &options);

/// Measures options.measure_rounds rounds. In mode `sync`, a round has steps of all ranks, but none with overlap if
/// --no-overlap is given. In every mode, unless ranks share a model, a round also has a step in which one rank
/// computes while the others wait.
/// @param product_rows  receives the rows of the large product that each round of mode `sync` measures
[[nodiscard]] Outcome measure_rounds(Trainer &trainer, const Options &options, Ranks &ranks,
                                     std::vector<Round> &rounds, size_t &product_rows);

}  // namespace rondo::train
