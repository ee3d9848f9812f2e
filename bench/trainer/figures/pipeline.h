// SPDX-License-Identifier: Apache-2.0
// These figures compare how long the stages of a pipeline idle with how long the schedule makes them idle.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "bench/trainer/figures/overlap.h"

namespace rondo::train {

/// The time of one rank from the first to the last turn of a step, and the part of it that was computation.
struct StageTimes {
  uint64_t passes_ns = 0, computation_ns = 0;
};

/// Returns the share of the longest passes_ns in which a rank did not compute, as the mean over ranks. Returns 0 if all
/// times are 0.
[[nodiscard]] double idle_share(const std::vector<StageTimes> &ranks);

struct PipelineFigures {
  double ideal = 0;   ///< ideal idle share: (stages - 1) / (passes + stages - 1), if all stages take equally long
  Estimate idle;      ///< measured idle share of the passes, over steps
  bool told = false;  ///< there are enough steps, and their spread is less than the ideal share
};

[[nodiscard]] PipelineFigures pipeline_figures(size_t stages, size_t passes, const std::vector<double> &idle_shares);

/// Returns one sentence, without a full stop.
[[nodiscard]] std::string pipeline_text(const PipelineFigures &figures);

}  // namespace rondo::train
