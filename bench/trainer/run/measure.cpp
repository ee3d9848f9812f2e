// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/run/measure.h"

#include <algorithm>

#include "bench/trainer/run/large_product.h"

namespace rondo::train {
namespace {

/// Runs one kind of step on all ranks at once.
/// @param slowest  receives the times of the step, each as the longest over all ranks
Outcome measure(Trainer &trainer, Ranks &ranks, Work work, bool overlap, StepTimes &slowest) {
  Group &group = ranks.all();
  StepRecord mine;
  if (auto failure = group.barrier()) return failure;
  if (auto failure = trainer.rehearse(work, overlap, mine.times)) return failure;
  if (auto failure = settle_steps(ranks.data(), {&trainer.traffic(), 1}, {&mine, 1})) return failure;
  std::vector<StepTimes> all(group.size());
  if (auto failure = group.gather(&mine.times, sizeof mine.times, all.data())) return failure;
  for (const StepTimes &times : all)
    for (uint64_t StepTimes::*const part :
         {&StepTimes::step_ns, &StepTimes::forward_ns, &StepTimes::backward_ns, &StepTimes::last_backward_ns,
          &StepTimes::communication_ns, &StepTimes::gradients_ns})
      slowest.*part = std::max(slowest.*part, times.*part);
  return std::nullopt;
}

/// Measures one rank that computes while the others wait.
Outcome measure_alone(Trainer &trainer, Group &group, size_t rank, uint64_t &alone_ns) {
  StepTimes times;
  if (auto failure = group.barrier()) return failure;
  if (group.rank() == rank)
    if (auto failure = trainer.rehearse(Work::computation, true, times)) return failure;
  alone_ns = times.step_ns;
  return group.broadcast(&alone_ns, sizeof alone_ns, rank);
}

/// Measures the large product on all ranks at once. Ranks that share a device share it in their steps, too.
Outcome measure_product(LargeProduct &product, Group &group, uint64_t &slowest_ns) {
  uint64_t mine_ns = 0;
  std::vector<uint64_t> all(group.size());
  if (product.rows() == 0) return std::nullopt;
  if (auto failure = group.barrier()) return failure;
  if (auto failure = product.measure(mine_ns)) return failure;
  if (auto failure = group.gather(&mine_ns, sizeof mine_ns, all.data())) return failure;
  slowest_ns = *std::max_element(all.begin(), all.end());
  return std::nullopt;
}

/// Measures the steps with and without overlap. Their order alternates between rounds, so that a machine that becomes
/// slower affects both.
Outcome measure_both(Trainer &trainer, Ranks &ranks, bool overlap_first, bool overlap, Round &round) {
  for (const bool overlapped : {overlap_first, !overlap_first}) {
    if (overlapped && !overlap) continue;
    StepTimes times;
    if (auto failure = measure(trainer, ranks, Work::all, overlapped, times)) return failure;
    (overlapped ? round.overlapped_ns : round.plain_ns) = times.step_ns;
    if (overlapped) round.passes_beside_ns = times.forward_ns + times.backward_ns;
  }
  return std::nullopt;
}

}  // namespace

Outcome settle_steps(Group &data, std::span<const Traffic> traffic, std::span<StepRecord> records) {
  std::vector<double> least;
  for (const Traffic &step : traffic) least.push_back(static_cast<double>(step.in_flight_ns()));
  if (!least.empty())
    if (auto failure = data.least(least.data(), least.size())) return failure;
  for (size_t at = 0; at < traffic.size(); ++at)
    settle(traffic[at], static_cast<uint64_t>(least[at]), records[at].times);
  return std::nullopt;
}

uint64_t steps_of_round(const Options &options) {
  if (options.mode != Mode::sync) return 1;
  return options.overlap ? 5 : 4;
}

Outcome measure_rounds(Trainer &trainer, const Options &options, Ranks &ranks, std::vector<Round> &rounds,
                       size_t &product_rows) {
  Group &group = ranks.all();
  LargeProduct product(trainer.compute());
  if (options.mode == Mode::sync && options.measure_rounds > 0)
    if (auto failure = product.open(group)) return failure;
  product_rows = product.rows();
  const size_t first_worker = options.mode == Mode::async_ps ? 1 : 0;
  for (uint32_t number = 0; number < options.measure_rounds; ++number) {
    StepTimes computation, communication;
    Round round;
    if (options.mode == Mode::sync) {
      if (auto failure = measure(trainer, ranks, Work::computation, true, computation)) return failure;
      if (auto failure = measure(trainer, ranks, Work::communication, true, communication)) return failure;
      if (auto failure = measure_both(trainer, ranks, number % 2 == 0, options.overlap, round)) return failure;
      if (auto failure = measure_product(product, group, round.product_ns)) return failure;
    }
    if (ranks.sharers() == 1)
      if (auto failure = measure_alone(trainer, group, first_worker, round.alone_ns)) return failure;
    round.computation_ns = computation.step_ns;
    round.backward_ns = computation.last_backward_ns;
    round.communication_ns = communication.communication_ns;
    round.gradients_ns = communication.gradients_ns;
    round.passes_alone_ns = computation.forward_ns + computation.backward_ns;
    rounds.push_back(round);
  }
  return std::nullopt;
}

}  // namespace rondo::train
