// SPDX-License-Identifier: Apache-2.0
// One rank of data-parallel training: every rank has all parameters, computes gradients on its own samples, adds them
// up with the others', and makes the same update.
#pragma once

#include <memory>
#include <vector>

#include "bench/trainer/compute.h"
#include "bench/trainer/exchange.h"
#include "bench/trainer/loader.h"
#include "bench/trainer/model.h"
#include "bench/trainer/optimizer.h"
#include "bench/trainer/options.h"

namespace rondo::train {

/// What came of a step; the same on all ranks but the times.
struct StepRecord {
  uint64_t step = 0;  ///< from 1
  double loss = 0;    ///< mean over all ranks' samples, before the update; natural logarithm
  double norm = 0;    ///< of the gradients, before clipping
  double rate = 0;
  bool skipped = false;  ///< float16 gradients that were out of range
  StepTimes times;
};

/// What a step does: both, as in training, or one part alone, to measure it.
enum class Work { all, computation, communication };

/// What continues a run, beside the parameters and moments.
struct Progress {
  uint64_t step = 0;     ///< steps done
  uint64_t updates = 0;  ///< of them, those that were not skipped
  LossScale scale;
};

struct MemoryBytes {
  size_t parameters = 0, gradients = 0, optimizer = 0, activations = 0, communication = 0;
};

class Trainer {
 public:
  Trainer(const Options &options, Group &group, Compute &compute, const Corpus &corpus, const Samples &samples);

  /// Allocates everything, and fills the parameters from the seed.
  [[nodiscard]] Outcome allocate();
  /// Gives all ranks rank 0's parameters, moments and progress, and starts to load samples.
  [[nodiscard]] Outcome begin();

  /// The next step of training. Spans of its parts are added to `spans` unless that is null.
  [[nodiscard]] Outcome step(StepRecord &record, std::vector<Span> *spans);
  /// The mean loss over the validation batches, which does not depend on the number of ranks.
  [[nodiscard]] Outcome validate(double &loss);
  /// Compares the parameters of all ranks, bit by bit. @return the failure names the ranks that differ.
  [[nodiscard]] Outcome compare_ranks();

  /// A step whose update changes nothing, on samples that are already there, to measure it. Call after the last step().
  [[nodiscard]] Outcome rehearse(Work work, bool overlap, StepTimes &times);

  [[nodiscard]] const Layout &layout() const { return model_.layout(); }
  [[nodiscard]] float *parameters() const { return parameters_.get(); }
  [[nodiscard]] const Optimizer &optimizer() const { return optimizer_; }
  [[nodiscard]] Progress &progress() { return progress_; }
  [[nodiscard]] const Exchange &exchange() const { return exchange_; }
  [[nodiscard]] MemoryBytes memory() const;

 private:
  [[nodiscard]] size_t batches_a_step() const { return group_.size() * options_.accumulate; }
  [[nodiscard]] Outcome run_passes(Work work, StepTimes &times, std::vector<Span> *spans);
  void run_pass(const Batch &batch, size_t pass, Work work, StepTimes &times, std::vector<Span> *spans);
  void gradient_ready(size_t tensor, size_t pass, Work work);
  /// Waits for the gradients of all ranks. @return the square of their norm.
  double wait_for_gradients(Work work, StepTimes &times);
  [[nodiscard]] Outcome run_step(Work work, double rate, StepRecord &record, std::vector<Span> *spans);

  const Options &options_;
  Group &group_;
  Compute &compute_;
  const Corpus &corpus_;
  const Samples &samples_;
  Model model_;
  Exchange exchange_;
  Optimizer optimizer_;
  Schedule schedule_;
  Buffer parameters_;
  Buffer pass_gradients_;  ///< of one pass, where a step has several
  std::unique_ptr<Loader> loader_;
  Batch validation_batch_;
  const Batch *batch_ = nullptr;  ///< the last one
  std::vector<double> losses_;    ///< of the step's batches; a rank fills in its own
  Progress progress_;
  bool rehearsing_ = false;
};

}  // namespace rondo::train
