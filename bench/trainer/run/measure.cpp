// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/run/measure.h"

#include <algorithm>

namespace rondo::train {
namespace {

/// Runs one kind of step on all ranks at once. @return in `slowest` the longest of each time.
Outcome measure(Trainer &trainer, Group &group, Work work, bool overlap, StepTimes &slowest) {
  StepTimes mine;
  if (auto failure = group.barrier()) return failure;
  if (auto failure = trainer.rehearse(work, overlap, mine)) return failure;
  std::vector<StepTimes> all(group.size());
  if (auto failure = group.gather(&mine, sizeof mine, all.data())) return failure;
  for (const StepTimes &times : all) {
    slowest.step_ns = std::max(slowest.step_ns, times.step_ns);
    slowest.forward_ns = std::max(slowest.forward_ns, times.forward_ns);
    slowest.backward_ns = std::max(slowest.backward_ns, times.backward_ns);
  }
  return std::nullopt;
}

/// One rank computes, the others wait for it.
Outcome measure_alone(Trainer &trainer, Group &group, size_t rank, uint64_t &alone_ns) {
  StepTimes times;
  if (auto failure = group.barrier()) return failure;
  if (group.rank() == rank)
    if (auto failure = trainer.rehearse(Work::computation, true, times)) return failure;
  alone_ns = times.step_ns;
  return group.broadcast(&alone_ns, sizeof alone_ns, rank);
}

}  // namespace

double Round::efficiency() const {
  const auto computation = static_cast<double>(computation_ns), communication = static_cast<double>(communication_ns);
  const double least = std::min(computation, communication);
  return least > 0 ? (computation + communication - static_cast<double>(overlapped_ns)) / least : 0.0;
}

double Round::slowdown() const {
  return passes_alone_ns > 0 ? static_cast<double>(passes_beside_ns) / static_cast<double>(passes_alone_ns) : 0.0;
}

Outcome measure_rounds(Trainer &trainer, const Options &options, Ranks &ranks, std::vector<Round> &rounds) {
  Group &group = ranks.all();
  const size_t first_worker = options.mode == Mode::async_ps ? 1 : 0;
  for (uint32_t number = 0; number < options.measure_rounds; ++number) {
    StepTimes computation, communication, overlapped, plain;
    Round round;
    if (options.mode == Mode::sync) {
      if (auto failure = measure(trainer, group, Work::computation, true, computation)) return failure;
      if (auto failure = measure(trainer, group, Work::communication, true, communication)) return failure;
      if (auto failure = measure(trainer, group, Work::all, true, overlapped)) return failure;
      if (auto failure = measure(trainer, group, Work::all, false, plain)) return failure;
    }
    if (ranks.slices() == 1)
      if (auto failure = measure_alone(trainer, group, first_worker, round.alone_ns)) return failure;
    round.computation_ns = computation.step_ns;
    round.communication_ns = communication.step_ns;
    round.overlapped_ns = overlapped.step_ns;
    round.plain_ns = plain.step_ns;
    round.passes_alone_ns = computation.forward_ns + computation.backward_ns;
    round.passes_beside_ns = overlapped.forward_ns + overlapped.backward_ns;
    rounds.push_back(round);
  }
  return std::nullopt;
}

}  // namespace rondo::train
