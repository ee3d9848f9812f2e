// SPDX-License-Identifier: Apache-2.0
// This file fits the simulator's network to this machine, without I/O. For each measured size it searches for the costs
// whose simulated times are nearest to the measured times. The search begins with the machine's measured costs.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>

#include "src/cli/tune/tune.h"
#include "src/cli/tune/tuner_input.h"
#include "src/sim/simulate.h"

namespace rondo::cli::tune {
namespace {

using sim::Network;

/// Returns the smallest time in which two ranks on different cores make an all-reduce by one_shot with `protocol`.
std::optional<double> exchange_us(std::span<const Measured> all, rondo_protocol_t protocol) {
  std::optional<double> least;
  for (const Measured &measured : all) {
    if (measured.group.collective != RONDO_ALL_REDUCE || measured.group.rank_count != 2 ||
        measured.group.oversubscribed)
      continue;
    for (const Series &series : measured.series)
      if (series.choice.algorithm == RONDO_ALGORITHM_ONE_SHOT && series.choice.protocol == protocol &&
          series.bytes <= 1024 && (!least || series.median_us < *least))
        least = series.median_us;
  }
  return least;
}

/// Returns the rates for the working set whose size is nearest to the operands of all ranks on a core.
const Rates *nearest_rates(const Costs &costs, double bytes) {
  const Rates *nearest = nullptr;
  const auto distance = [&](const Rates &rates) {
    return std::abs(std::log(static_cast<double>(rates.working_set_bytes) / bytes));
  };
  for (const Rates &rates : costs.rates)
    if (nearest == nullptr || distance(rates) < distance(*nearest)) nearest = &rates;
  return nearest;
}

/// Makes a network from the machine's measured costs: one node with the ranks of the group.
Network first_guess(const Findings &findings, const Group &group, uint64_t bytes) {
  const Costs &costs = findings.costs;
  const uint32_t core_count = usable_core_count(findings.topology);
  const double latency_us = costs.latency_us > 0 ? costs.latency_us : costs.handover_us;
  // An exchange has two steps besides the latency: one sends and one receives. The protocol simple adds the latency of
  // a counter.
  const auto ll_us = exchange_us(findings.all, RONDO_PROTOCOL_LL);
  const auto simple_us = exchange_us(findings.all, RONDO_PROTOCOL_SIMPLE);
  Network network;
  network.nodes = {{group.rank_count, 1, 0}};
  network.step_us = ll_us ? std::max(0.0, (*ll_us - latency_us) / 2) : 0;
  sim::LinkCost &link = network.links[static_cast<size_t>(sim::LinkClass::intra_node)];
  link.ll_alpha_us = latency_us;
  link.alpha_us = simple_us ? std::max(latency_us, *simple_us - 2 * network.step_us) : latency_us;
  link.sharing = sim::Sharing::pair;
  const double ranks_of_core = std::max(1.0, static_cast<double>(group.rank_count) / std::max(1u, core_count));
  if (const Rates *rates = nearest_rates(costs, 2 * static_cast<double>(bytes) * ranks_of_core)) {
    network.copy_GBps = rates->copy_GBps;
    for (const auto &[type, rate] : rates->reduce_GBps)
      if (type == RONDO_FLOAT32) network.reduce_GBps = rate;
    network.reduce_send_GBps = network.memory_GBps = rates->copy_GBps;
  }
  link.bandwidth_GBps = costs.bandwidth_GBps > 0 ? costs.bandwidth_GBps : std::max(network.copy_GBps, 1.0);
  network.core_count = core_count;
  network.switch_us = costs.handover_us;
  const TunerInput slots = tuner_input(findings.config, group.rank_count, group.oversubscribed);
  network.slot_count = slots.slot_count;
  network.slot_bytes = static_cast<uint32_t>(slots.slot_bytes);
  network.ll_slot_bytes = static_cast<uint32_t>(slots.ll_slot_bytes);
  network.post_bytes = static_cast<uint32_t>(slots.post_bytes);
  network.exchange_chunk_bytes = static_cast<uint32_t>(slots.exchange_chunk_bytes);
  return network;
}

/// The costs that the search varies.
constexpr size_t cost_count = 8;
using CostPointers = std::array<double *, cost_count>;

CostPointers costs_of(Network &network) {
  sim::LinkCost &link = network.links[static_cast<size_t>(sim::LinkClass::intra_node)];
  return {&link.alpha_us,          &link.bandwidth_GBps, &network.step_us,     &network.reduce_GBps,
          &network.reduce_send_GBps, &network.copy_GBps,   &network.memory_GBps, &network.switch_us};
}

/// Returns one plan of the kernel for each algorithm: the plan that the tuner would choose, because that plan must be
/// predicted. If it was not measured, the fastest measured plan is used. The interpreter's plans use `simple`, which
/// the simulator models step by step.
std::vector<Series> representatives(const Findings &findings, const Measured &measured, uint64_t bytes,
                                    rondo_kernel_t kernel) {
  TunerInput input = tuner_input(findings.config, measured.group.rank_count, measured.group.oversubscribed);
  input.collective = measured.group.collective;
  input.bytes = bytes;
  const auto protocol = kernel == RONDO_KERNEL_INTERPRETER ? RONDO_PROTOCOL_SIMPLE : RONDO_PROTOCOL_AUTO;
  std::map<rondo_algorithm_t, Series> found;
  for (const Series &series : measured.series) {
    if (series.bytes != bytes || series.choice.kernel != kernel || series.choice.protocol != protocol) continue;
    input.overrides = {series.choice.algorithm, protocol, 0, 0, kernel};
    const auto tuned = choose_plan(input);
    const auto is_tuned = [&](const PlanChoice &choice) { return tuned.ok() && choice == tuned.value(); };
    const auto [known, fresh] = found.try_emplace(series.choice.algorithm, series);
    if (fresh || is_tuned(known->second.choice)) continue;
    if (is_tuned(series.choice) || series.median_us < known->second.median_us) known->second = series;
  }
  std::vector<Series> list;
  for (const auto &[algorithm, series] : found) list.push_back(series);
  return list;
}

/// Returns the logarithm of the simulated time divided by the measured time, or nothing if the plan cannot be
/// simulated.
std::optional<double> log_error(const Network &network, const Group &group, const Series &series) {
  sim::SimCase what;
  what.collective = group.collective;
  what.bytes = series.bytes;
  what.overrides = series.choice;
  what.network = network;
  sim::Simulator simulator;
  const auto result = simulator.simulate(what);
  if (!result.ok() || series.median_us <= 0) return std::nullopt;
  const double time_us = static_cast<double>(result.value().outcome.time_ps) / sim::ps_per_us;
  return time_us > 0 ? std::optional(std::log(time_us / series.median_us)) : std::nullopt;
}

/// Returns the sum of squared errors over the algorithms, plus a small penalty for the distance from the first guess.
/// Without the penalty, costs that have no effect on the times would be arbitrary.
double penalty(const Network &network, const Network &guess, const Group &group, std::span<const Series> measured) {
  constexpr double weight = 0.002;
  double sum = 0;
  for (const Series &series : measured)
    if (const auto error = log_error(network, group, series)) sum += *error * *error;
  Network now = network, before = guess;
  const CostPointers costs = costs_of(now), first = costs_of(before);
  for (size_t i = 0; i < cost_count; ++i) {
    const double way = std::log(*costs[i] / *first[i]);
    sum += weight * way * way;
  }
  return sum;
}

/// Fits the network. Each cost in turn is multiplied or divided by a factor as long as that improves the fit. The
/// search is repeated with smaller factors.
Network fit(const Network &guess, const Group &group, std::span<const Series> measured) {
  constexpr double factor_first = 2, factor_last = 1.02;
  constexpr int rounds_max = 12;  // rounds with each factor
  Network best = guess;
  double best_penalty = penalty(best, guess, group, measured);
  for (double factor = factor_first; factor > factor_last; factor = std::sqrt(factor)) {
    bool better = true;
    for (int round = 0; better && round < rounds_max; ++round) {
      better = false;
      for (size_t i = 0; i < cost_count; ++i)
        for (const double by : {factor, 1 / factor}) {
          Network next = best;
          *costs_of(next)[i] *= by;
          const double next_penalty = penalty(next, guess, group, measured);
          if (next_penalty >= best_penalty) continue;
          best = next;
          best_penalty = next_penalty;
          better = true;
          break;
        }
    }
  }
  return best;
}

std::optional<Calibration> calibrate_size(const Findings &findings, const Measured &measured, uint64_t bytes,
                                          rondo_kernel_t kernel) {
  constexpr double us_min = 1e-3, GBps_min = 0.1;  // the first guess of costs that were not measured
  const auto series = representatives(findings, measured, bytes, kernel);
  if (series.empty() && kernel != RONDO_KERNEL_INTERPRETER) return std::nullopt;
  Calibration calibration{bytes, kernel, first_guess(findings, measured.group, bytes), 0};
  Network &network = calibration.network;
  const CostPointers costs = costs_of(network);
  for (double *const cost : {costs[0], costs[2], costs[7]}) *cost = std::max(*cost, us_min);
  for (double *const rate : {costs[1], costs[3], costs[4], costs[5], costs[6]}) *rate = std::max(*rate, GBps_min);
  if (!series.empty()) network = fit(network, measured.group, series);
  for (const Series &it : series)
    if (const auto error = log_error(network, measured.group, it))
      calibration.error_max = std::max(calibration.error_max, std::abs(std::exp(*error) - 1));
  return calibration;
}

}  // namespace

std::vector<Calibration> calibrate(const Findings &findings, const Measured &measured) {
  std::vector<Calibration> list;
  for (const Series &series : measured.series) {
    if (!list.empty() && list.back().bytes == series.bytes) continue;
    for (const rondo_kernel_t kernel : {RONDO_KERNEL_INTERPRETER, RONDO_KERNEL_LOAD_STORE})
      if (auto calibration = calibrate_size(findings, measured, series.bytes, kernel))
        list.push_back(std::move(*calibration));
  }
  return list;
}

}  // namespace rondo::cli::tune
