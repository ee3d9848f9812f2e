// SPDX-License-Identifier: Apache-2.0
// This file compares algorithms with each other, over sizes and over numbers of ranks.
#include <algorithm>
#include <cmath>

#include "src/cli/sim/sim.h"
#include "src/cli/tune/tuner_input.h"
#include "src/plan/build.h"
#include "src/proto/exchange.h"

namespace rondo::cli {
namespace {

/// The most steps of one tile, over all simulated ranks. A comparison has many simulations, so each has to be short.
constexpr uint64_t compared_step_count_max = 4'000'000;
/// The most ranks of an algorithm with a link to every rank. Such an algorithm has a step for each pair of ranks, and
/// all these steps compete for the ports.
constexpr uint64_t compared_all_links_rank_max = 256;
/// The most ranks of a hierarchical algorithm. Each of its schedules depends on which ranks are on which node, and in a
/// tree no two ranks behave alike.
constexpr uint64_t compared_hierarchy_rank_max = 4096;
constexpr uint64_t bytes_min = 1024, bytes_max = uint64_t{16} << 30;

uint64_t ranks_of(const sim::SimCase &what) { return what.network.rank_count(); }

/// Returns sizes, each four times the one before. From the size on at which each rank has a chunk of 64 bytes, all
/// chunks have equal sizes. Ranks then behave alike, and one rank is simulated for many.
std::vector<uint64_t> sizes(const sim::SimCase &what) {
  std::vector<uint64_t> list;
  const uint64_t unit = 64 * ranks_of(what);
  uint64_t bytes = unit;
  while (bytes / 4 >= bytes_min) bytes /= 4;
  for (; bytes <= bytes_max; bytes *= 4) list.push_back(bytes);
  return list;
}

uint64_t compared_rank_max(const Algorithm &algorithm) {
  const bool all_links = algorithm.rank_count_max <= all_links_rank_count_max;
  if (algorithm.id == RONDO_ALGORITHM_HIERARCHICAL || algorithm.id == RONDO_ALGORITHM_HIERARCHICAL_TREE)
    return compared_hierarchy_rank_max;
  return all_links ? compared_all_links_rank_max : algorithm.rank_count_max;
}

/// Returns why the algorithm is left out with this many ranks, or nothing.
std::string too_many(const Algorithm &algorithm, const sim::SimCase &what) {
  if (ranks_of(what) > compared_rank_max(algorithm))
    return "compared among at most " + std::to_string(compared_rank_max(algorithm)) + " ranks";
  const bool links_inside = algorithm.id == RONDO_ALGORITHM_HIERARCHICAL;
  for (const sim::SimNode &node : what.network.nodes)
    if (links_inside && node.rank_count > compared_all_links_rank_max)
      return "compared where a node has at most " + std::to_string(compared_all_links_rank_max) + " ranks";
  return {};
}

/// Adds the simulated point to `line`. If the simulation fails, sets `reason`.
void add_point(sim::SimCase what, sim::Simulator &simulator, double x, SimLine *line, std::string *reason) {
  what.overrides.algorithm = line->algorithm;
  what.step_count_max = compared_step_count_max;
  const auto result = simulator.simulate(what);
  if (!result.ok()) {
    *reason = result.error().message;
    return;
  }
  line->points.push_back({x, static_cast<double>(result.value().outcome.time_ps) / sim::ps_per_us});
}

constexpr uint32_t rank_count_min = 2, rank_count_limit = 131'072;

void add_line(SimComparison *comparison, SimLine line, const std::string &reason) {
  const std::string name = rondo_algorithm_string(line.algorithm);
  if (!reason.empty()) comparison->left_out.push_back(name + (line.points.empty() ? ": " : ", in part: ") + reason);
  if (!line.points.empty()) comparison->lines.push_back(std::move(line));
}

double time_at(const SimLine &line, double bytes) {
  for (const SimPoint &point : line.points)
    if (point.x == bytes) return point.time_us;
  return INFINITY;
}

const SimLine *fastest_at(const SimComparison &comparison, double bytes) {
  const SimLine *best = nullptr;
  for (const SimLine &line : comparison.lines)
    if (std::isfinite(time_at(line, bytes)) && (best == nullptr || time_at(line, bytes) < time_at(*best, bytes)))
      best = &line;
  return best;
}

}  // namespace

void set_exchange(sim::Network *network) {
  network->post_bytes = network->exchange_chunk_bytes = 0;
  if (network->rank_count() > exchange_rank_count_max) return;
  const TunerInput own = tuner_input({}, static_cast<uint32_t>(network->rank_count()), false);
  network->post_bytes = static_cast<uint32_t>(own.post_bytes);
  network->exchange_chunk_bytes = static_cast<uint32_t>(own.exchange_chunk_bytes);
}

void Effort::begin(sim::Simulator &simulator, double weight) {
  simulator.watch([this, weight](double part) { reached_((done_ + weight * part) / total_); });
}

void Effort::end(double weight) {
  done_ += weight;
  reached_(done_ / total_);
}

double effort_by_size(const sim::SimCase &what) {
  double effort = 0;
  for (const Algorithm &algorithm : algorithms())
    if (algorithm.supports(what.collective) && ranks_of(what) <= compared_rank_max(algorithm))
      effort += static_cast<double>(sizes(what).size() * ranks_of(what));
  return effort;
}

double effort_by_ranks(const sim::SimCase &what) {
  double effort = 0;
  for (const Algorithm &algorithm : algorithms())
    for (uint64_t ranks = rank_count_min; ranks <= rank_count_limit; ranks *= 2)
      if (algorithm.supports(what.collective) && ranks <= compared_rank_max(algorithm))
        effort += static_cast<double>(ranks);
  return effort;
}

SimComparison compare_by_size(const sim::SimCase &what, sim::Simulator &simulator, const TunedNetworks *tuned,
                              Effort &effort) {
  const auto weight = static_cast<double>(ranks_of(what));
  SimComparison comparison;
  for (const Algorithm &algorithm : algorithms()) {
    if (!algorithm.supports(what.collective)) continue;
    SimLine line{algorithm.id, {}};
    std::string reason = too_many(algorithm, what);
    const std::vector<uint64_t> compared = reason.empty() ? sizes(what) : std::vector<uint64_t>();
    for (const uint64_t bytes : compared) {
      sim::SimCase sized = what;
      sized.bytes = bytes;
      if (tuned == nullptr) {
        effort.begin(simulator, weight);
        add_point(sized, simulator, static_cast<double>(bytes), &line, &reason);
      } else if (auto network = tuned->at(ranks_of(what), bytes); network.ok()) {
        sized.network = network.value();
        sim::Simulator own;  // a simulator serves one network
        add_point(sized, own, static_cast<double>(bytes), &line, &reason);
      }
      effort.end(weight);
    }
    add_line(&comparison, std::move(line), reason);
  }
  return comparison;
}

SimComparison compare_by_ranks(const sim::SimCase &what, Effort &effort) {
  SimComparison comparison;
  const uint32_t node_rank_count = what.network.nodes.front().rank_count;
  uint32_t rack_node_count = 0;
  while (rack_node_count < what.network.nodes.size() &&
         what.network.nodes[rack_node_count].rack == what.network.nodes.front().rack)
    ++rack_node_count;
  if (rack_node_count == what.network.nodes.size()) rack_node_count = 0;
  for (const Algorithm &algorithm : algorithms()) {
    if (!algorithm.supports(what.collective)) continue;
    SimLine line{algorithm.id, {}};
    std::string reason;
    for (uint32_t ranks = rank_count_min; ranks <= rank_count_limit; ranks *= 2) {
      sim::SimCase sized = what;
      sized.root = 0;
      sized.network.nodes = sim::even_nodes(ranks, node_rank_count, rack_node_count);
      for (sim::SimNode &node : sized.network.nodes)
        node.nic_count = std::min(node.nic_count, what.network.nodes.front().nic_count);
      set_exchange(&sized.network);
      sim::Simulator simulator;
      if (auto why = too_many(algorithm, sized); !why.empty()) {
        reason = std::move(why);
        break;
      }
      effort.begin(simulator, ranks);
      add_point(sized, simulator, ranks, &line, &reason);
      effort.end(ranks);
    }
    add_line(&comparison, std::move(line), reason);
  }
  return comparison;
}

std::vector<Crossing> find_crossings(const SimComparison &comparison) {
  std::vector<double> bytes;
  for (const SimLine &line : comparison.lines)
    for (const SimPoint &point : line.points) bytes.push_back(point.x);
  std::sort(bytes.begin(), bytes.end());
  bytes.erase(std::unique(bytes.begin(), bytes.end()), bytes.end());
  std::vector<Crossing> crossings;
  const SimLine *before = nullptr;
  double before_bytes = 0;
  for (const double at : bytes) {
    const SimLine *const now = fastest_at(comparison, at);
    if (before == nullptr) crossings.push_back({at, now->algorithm});
    if (before != nullptr && now != before) {
      const double left = time_at(*now, before_bytes) - time_at(*before, before_bytes);
      const double right = time_at(*before, at) - time_at(*now, at);
      const double part = std::isfinite(left) && std::isfinite(right) ? left / (left + right) : 0.5;
      crossings.push_back({before_bytes + (at - before_bytes) * part, now->algorithm});
    }
    before = now;
    before_bytes = at;
  }
  return crossings;
}

}  // namespace rondo::cli
