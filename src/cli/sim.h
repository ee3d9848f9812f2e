// SPDX-License-Identifier: Apache-2.0
// The parts of `rondo sim`.
#pragma once

#include <string>
#include <vector>

#include "src/engine/simulate.h"

namespace rondo::cli {

/// Reads a network from JSON (docs/simulator.md); what it does not name stays as `network` has it.
[[nodiscard]] Result<void> parse_network(const std::string &text, sim::Network *network);
[[nodiscard]] Result<void> read_network(const std::string &path, sim::Network *network);

/// A size at which an algorithm was simulated.
struct SimPoint {
  double x = 0;  ///< bytes or ranks
  double time_us = 0;
};
struct SimLine {
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_RING;
  std::vector<SimPoint> points;
};
struct SimComparison {
  std::vector<SimLine> lines;
  std::vector<std::string> left_out;  ///< algorithms, with the reason
};

/// From `from_bytes` on `algorithm` is the fastest, until the next.
struct Crossing {
  double from_bytes = 0;
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_RING;
};

/// Each algorithm that can do it, on `what.network`, over sizes.
[[nodiscard]] SimComparison compare_by_size(const sim::SimCase &what, sim::Simulator &simulator);
/// Over numbers of ranks, in nodes like the first of `what.network`.
[[nodiscard]] SimComparison compare_by_ranks(const sim::SimCase &what);
/// Between two sizes that were simulated a crossing is where straight lines through both, on logarithmic scales, meet.
[[nodiscard]] std::vector<Crossing> find_crossings(const SimComparison &comparison);

[[nodiscard]] std::string sim_text(const sim::SimCase &what, const sim::SimResult &result,
                                   const SimComparison &comparison);
[[nodiscard]] std::string sim_json(const sim::SimCase &what, const sim::SimResult &result,
                                   const SimComparison &comparison);
[[nodiscard]] std::string sim_svg(const sim::SimCase &what, const SimComparison &by_size,
                                  const SimComparison &by_ranks);

}  // namespace rondo::cli
