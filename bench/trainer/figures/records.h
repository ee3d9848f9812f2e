// SPDX-License-Identifier: Apache-2.0
// This file declares the records that a run keeps.
#pragma once

#include <numbers>
#include <utility>
#include <vector>

#include "bench/trainer/figures/memory.h"
#include "bench/trainer/figures/overlap.h"
#include "bench/trainer/figures/pipeline.h"
#include "bench/trainer/figures/rate.h"
#include "bench/trainer/figures/timeline.h"

namespace rondo::train {

/// The outcome of a step. It is the same on all ranks, except for the times.
struct StepRecord {
  uint64_t step = 0;  ///< from 1
  double loss = 0;    ///< mean over the samples of all ranks, before the update; natural logarithm
  double norm = 0;    ///< norm of the gradients, before clipping
  double rate = 0;
  bool skipped = false;  ///< the update was skipped, because float16 gradients were out of range
  uint64_t expert_bytes = 0;  ///< bytes of tokens, results and gradients that this rank sent to others
  StepTimes times;
};

struct Validation {
  uint64_t step = 0;
  double loss = 0;
};

/// The staleness of a parameter server's updates.
struct Staleness {
  uint64_t updates = 0, sum = 0, max = 0;
  uint64_t lead_max = 0;  ///< most steps that a worker was ahead of the slowest when it continued
};

struct Run {
  size_t ranks = 1, parameters = 0, bucket_count = 0;
  size_t wire_bytes = 0, received_bytes = 0, plain_bytes = 0;  ///< rank 0's bytes in a step (plain: as floats)
  size_t corpus_bytes = 0, corpus_files = 0;
  std::vector<std::pair<uint64_t, double>> earlier_losses;  ///< step and loss, from the checkpoint
  std::vector<StepRecord> steps;                            ///< steps of this process, with rank 0's times
  std::vector<Validation> validations;
  std::vector<Round> rounds;
  size_t product_rows = 0;  ///< rows of the large product that the rounds measured
  Staleness staleness;
  std::vector<double> idle_shares;  ///< idle share of a pipeline's stages, for each step of this process
  MemoryBytes memory;
  size_t memory_before = 0;  ///< memory of the process before it joined the others
  std::vector<std::vector<Span>> spans;  ///< spans of each rank, from the last steps
};

inline double bits_per_byte(double loss) { return loss / std::numbers::ln2; }

}  // namespace rondo::train
