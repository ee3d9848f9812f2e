// SPDX-License-Identifier: Apache-2.0
// This file declares the parts of `rondo sim`.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "src/sim/simulate.h"

namespace rondo::cli {

/// Reads a file that the user named. `what` and `advice` are parts of the message `cannot read WHAT 'x': ...; ADVICE`.
[[nodiscard]] Result<std::string> read_json_text(const std::string &path, const char *what, const char *advice);

/// Reads a network from JSON (docs/simulator.md). Whatever the text does not contain keeps its value in `network`.
[[nodiscard]] Result<void> parse_network(const std::string &text, sim::Network *network);
[[nodiscard]] Result<void> read_network(const std::string &path, sim::Network *network);

/// Returns the network in the JSON form of parse_network(). Values that are always the default are left out.
[[nodiscard]] nlohmann::ordered_json network_json(const sim::Network &network);
/// Rounds to four digits, because more would be noise. Returns 0 if the value is not a number.
[[nodiscard]] double rounded(double value);

/// The networks that `rondo tune` found for a machine, by ranks and bytes.
class TunedNetworks {
 public:
  /// Reads the networks of `collective` for plans that `kernel` runs; AUTO means the interpreter. Returns an error if
  /// the file is not a table of `rondo tune`, or has no such network.
  [[nodiscard]] static Result<TunedNetworks> read(const std::string &path, rondo_collective_t collective,
                                                  rondo_kernel_t kernel = RONDO_KERNEL_AUTO);
  /// Returns the network for a size. Between two measured sizes, the costs are interpolated by ratio. Beyond the last
  /// measured size, that size's network is used.
  [[nodiscard]] Result<sim::Network> at(uint64_t rank_count, uint64_t bytes) const;

 private:
  std::string path_;
  std::map<uint64_t, std::map<uint64_t, sim::Network>> networks_;  ///< by number of ranks, then by bytes
};

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

/// A size from which on `algorithm` is the fastest, until the next crossing.
struct Crossing {
  double from_bytes = 0;
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_RING;
};

/// Sets the sizes that load_store's exchange has on one host with as many ranks as the network. If load_store does not
/// support that number, the sizes are 0.
void set_exchange(sim::Network *network);

/// The progress of several simulations. Each has its number of ranks as a weight, because its duration is about
/// proportional to that number.
class Effort {
 public:
  /// @param reached  called with the part of `total` that is done, 0 to 1
  Effort(double total, std::function<void(double)> reached) : total_(total), reached_(std::move(reached)) {}
  /// Begins a simulation, and gives it this weight.
  void begin(sim::Simulator &simulator, double weight);
  void end(double weight);

 private:
  double total_, done_ = 0;
  std::function<void(double)> reached_;
};
[[nodiscard]] double effort_by_size(const sim::SimCase &what);
[[nodiscard]] double effort_by_ranks(const sim::SimCase &what);

/// Compares all possible algorithms over sizes, on `what.network`. If `tuned` is given, each size has its own network.
[[nodiscard]] SimComparison compare_by_size(const sim::SimCase &what, sim::Simulator &simulator,
                                            const TunedNetworks *tuned, Effort &effort);
/// Compares over numbers of ranks. All nodes are like the first node of `what.network`.
[[nodiscard]] SimComparison compare_by_ranks(const sim::SimCase &what, Effort &effort);
/// Finds crossings. Between two simulated sizes, a crossing is where the straight lines through the points meet.
[[nodiscard]] std::vector<Crossing> find_crossings(const SimComparison &comparison);

[[nodiscard]] std::string sim_text(const sim::SimCase &what, const sim::SimResult &result,
                                   const SimComparison &comparison);
[[nodiscard]] std::string sim_json(const sim::SimCase &what, const sim::SimResult &result,
                                   const SimComparison &comparison);
[[nodiscard]] std::string sim_svg(const sim::SimCase &what, const SimComparison &by_size,
                                  const SimComparison &by_ranks);

}  // namespace rondo::cli
