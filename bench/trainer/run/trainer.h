// SPDX-License-Identifier: Apache-2.0
// This class is one rank of data-parallel training. Every rank has all parameters, and computes gradients on its own
// samples. The ranks add up their gradients, and all make the same update. Ranks that share a model (--tensor-parallel)
// have a slice of each layer instead, use the same samples, and add up their parts of activations. Ranks that have the
// same slice then train data-parallel. In a pipeline (--pipeline-parallel), each rank has some of the layers. With
// --zero 1 each rank updates its share of the parameters and gets the shares of the others.
#pragma once

#include <memory>
#include <vector>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/data/loader.h"
#include "bench/trainer/exchange/exchange.h"
#include "bench/trainer/exchange/state.h"
#include "bench/trainer/figures/records.h"
#include "bench/trainer/model/model.h"
#include "bench/trainer/model/optimizer.h"
#include "bench/trainer/options.h"
#include "bench/trainer/run/turns.h"

namespace rondo::train {

/// The work of a step: everything, as in training, or only one part of it, which is then measured alone.
enum class Work { all, computation, communication };

/// The state of a run that continues, besides parameters and moments.
struct Progress {
  uint64_t step = 0;     ///< steps done
  uint64_t updates = 0;  ///< steps that were not skipped
  LossScale scale;
};

class Trainer {
 public:
  Trainer(const Options &options, Ranks &ranks, Compute &compute, const Corpus &corpus, const Samples &samples);

  /// Allocates all memory, and sets the parameters from the seed.
  [[nodiscard]] Outcome allocate();
  /// Sends rank 0's parameters and progress to all ranks, and the rest of state() if the run is resumed. Starts to load
  /// samples.
  [[nodiscard]] Outcome begin();

  /// Runs the next step of training. It appends spans of its parts to `spans`, unless that is null.
  [[nodiscard]] Outcome step(StepRecord &record, std::vector<Span> *spans);
  /// Computes the mean loss over the validation batches. It does not depend on the number of ranks.
  [[nodiscard]] Outcome validate(double &loss);
  /// Compares the parameters of all ranks, bit by bit.
  /// @return a failure that names the ranks that differ
  [[nodiscard]] Outcome compare_ranks();

  /// Says whether ranks have the same parameters after this step. With local-sgd, they do at the end of a round.
  [[nodiscard]] bool agreed() const;
  /// Returns the mean losses over all ranks, for the steps since ranks last had the same parameters.
  [[nodiscard]] const std::vector<double> &round_losses() const { return round_losses_; }

  /// Computes the gradients of the next samples, on a worker.
  [[nodiscard]] Outcome find_gradients(StepRecord &record);
  /// Updates a parameter server's parameters, which are in host memory, with a worker's gradients.
  /// @return false if the gradients are not finite, and were ignored
  [[nodiscard]] bool apply(const float *gradients);
  /// Sends rank 0's parameters to all ranks.
  [[nodiscard]] Outcome spread_parameters() { return state_.deal_out(false); }
  [[nodiscard]] float *parameters() const { return parameters_.get(); }

  /// Measures a step that changes nothing, on samples that are loaded already. Call it after the last
  /// step().
  [[nodiscard]] Outcome rehearse(Work work, bool overlap, StepTimes &times);

  /// Returns the collectives and waits of the last step. settle_steps() computes times from all ranks' traffic.
  [[nodiscard]] const Traffic &traffic() const { return traffic_; }

  [[nodiscard]] const Layout &layout() const { return model_.layout(); }
  /// Returns the layout of the whole model. layout() may be a slice of it.
  [[nodiscard]] const Layout &whole_layout() const { return whole_; }
  [[nodiscard]] State &state() { return state_; }
  [[nodiscard]] Progress &progress() { return progress_; }
  [[nodiscard]] const Exchange &exchange() const { return exchange_; }
  [[nodiscard]] MemoryBytes memory() const;
  [[nodiscard]] bool on_host() const { return compute_.on_host(); }
  [[nodiscard]] Compute &compute() const { return compute_; }

 private:
  /// Returns the number of ranks that compute gradients. worker() is this rank's number among them.
  [[nodiscard]] size_t worker_count() const;
  [[nodiscard]] size_t worker() const;
  [[nodiscard]] size_t batches_a_step() const { return worker_count() * options_.accumulate; }
  /// Ends a round, in which all ranks take the mean of their parameters and moments.
  [[nodiscard]] Outcome take_mean(StepRecord &record, std::vector<Span> *spans);
  [[nodiscard]] Joint make_joint();
  /// Returns why a pass failed: ranks that share a model could not communicate, or memory ran out.
  [[nodiscard]] Outcome joint_failure() const;
  [[nodiscard]] Outcome run_passes(Work work, StepTimes &times, std::vector<Span> *spans);
  [[nodiscard]] Outcome run_pass(const Batch &batch, size_t pass, Work work, StepTimes &times,
                                 std::vector<Span> *spans);
  /// Says whether gradients are complete after this pass, so that collectives of them begin in it.
  [[nodiscard]] bool sends_gradients(Work work, size_t pass) const {
    return work == Work::all && pass + 1 == options_.accumulate;
  }
  void gradient_ready(size_t tensor, size_t pass, Work work);
  /// Runs the passes of a step on a stage of a pipeline.
  [[nodiscard]] Outcome run_pipeline(Work work, StepTimes &times, std::vector<Span> *spans);
  [[nodiscard]] Outcome run_turn(const Turn &turn, Work work, StepTimes &times, std::vector<Span> *spans);
  /// Exchanges messages with the neighbouring stages, where there are any.
  [[nodiscard]] Outcome exchange_stages(const Turn &turn);
  /// Adds the last stage's part of the token embedding's gradient to the first stage's part.
  [[nodiscard]] Outcome join_tokens();
  /// Sends floats of the token embedding from one end of the pipeline, and receives them at the other end.
  [[nodiscard]] Outcome pass_tokens(float *values, bool to_first);
  /// Finds the mean loss of a batch, on the last stage.
  [[nodiscard]] Outcome validate_batch(size_t batch, double &loss);
  [[nodiscard]] float *pass_gradients() const {
    return options_.accumulate > 1 ? pass_gradients_.get() : exchange_.gradients();
  }
  /// Waits for the gradients of all ranks, and sums up their squares.
  [[nodiscard]] Outcome wait_for_gradients(Work work);
  /// Computes the norm of all gradients. Other ranks may have some of the gradients.
  [[nodiscard]] Outcome find_norm(Work work, StepRecord &record);
  void update(Work work, double norm, double rate, const float *gradients);
  [[nodiscard]] Outcome run_step(Work work, StepRecord &record, std::vector<Span> *spans);

  const Options &options_;
  Ranks &ranks_;
  Group &data_;
  Compute &compute_;
  const Corpus &corpus_;
  const Samples &samples_;
  uint64_t joint_ns_ = 0;  ///< time of sums over the ranks that share a model
  Outcome joint_failure_;  ///< the first failure of these sums
  const Stage stage_;
  Model model_;
  const Layout whole_;
  Exchange exchange_;
  Optimizer optimizer_;
  Schedule schedule_;
  Buffer parameters_;
  Buffer pass_gradients_;  ///< gradients of one pass, if a step has several passes
  State state_;
  std::unique_ptr<Loader> loader_;
  Batch validation_batch_;
  std::vector<Batch> slots_;      ///< in a pipeline: samples of passes that wait for their backward passes
  Buffer peer_tokens_;            ///< on a pipeline's first stage: what join_tokens() receives
  std::vector<double> squares_;  ///< sum of squares of each piece of the gradients, in their order
  const Batch *batch_ = nullptr;  ///< the loader's latest batch
  std::vector<double> losses_;    ///< losses of the step's batches; a rank fills in its own
  /// Sums of squares of this rank's gradients: for tensors that a model's ranks divide, and for tensors that each has.
  double split_squares_ = 0, common_squares_ = 0;
  std::vector<double> round_losses_;
  Progress progress_;
  Traffic traffic_;
  bool rehearsing_ = false;
};

}  // namespace rondo::train
