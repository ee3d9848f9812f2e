// SPDX-License-Identifier: Apache-2.0
// This file runs a training from its first step to its last, with the work between steps and the records.
#pragma once

#include "bench/trainer/figures/records.h"
#include "bench/trainer/run/checkpoint.h"
#include "bench/trainer/run/trainer.h"

namespace rondo::train {

class Session {
 public:
  Session(const Options &options, Ranks &ranks, Trainer &trainer, const Checkpoint &checkpoint)
      : options_(options), ranks_(ranks), group_(ranks.all()), trainer_(trainer), checkpoint_(checkpoint) {}

  [[nodiscard]] Outcome run(Run &result);

 private:
  [[nodiscard]] Outcome step(Run &result);
  [[nodiscard]] Outcome after_step(uint64_t step, Run &result);
  [[nodiscard]] Outcome validate(Run &result);
  [[nodiscard]] Outcome measure_memory(Run &result);
  [[nodiscard]] Outcome gather_spans(Run &result);
  [[nodiscard]] Outcome gather_idle_shares(Run &result);
  [[nodiscard]] Outcome settle_pending(Run &result);

  const Options &options_;
  Ranks &ranks_;
  Group &group_;
  Trainer &trainer_;
  const Checkpoint &checkpoint_;
  std::vector<Span> spans_;
  std::vector<Traffic> pending_;  ///< traffic of the last steps, whose times are not settled yet
};

/// Prints a line for each tenth of the run. On a terminal, it overwrites one line.
void show_progress(const Options &options, const StepRecord &record, size_t ranks);

}  // namespace rondo::train
