// SPDX-License-Identifier: Apache-2.0
// This file declares the options of `rondo train`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "bench/failure.h"
#include "bench/trainer/cuda/products.h"
#include "bench/trainer/exchange/compression.h"
#include "bench/trainer/lanes/group.h"
#include "bench/trainer/model/shape.h"
#include "rondo/rondo.h"

namespace rondo::train {

/// The way in which ranks agree on the same parameters.
enum class Mode {
  sync,       ///< every step uses the gradients of all ranks
  local_sgd,  ///< each rank makes separate steps; after some steps, ranks average their parameters
  async_ps    ///< rank 0 updates with each worker's gradients as they arrive, and the worker continues from there
};

/// Returns "sync", "local-sgd" or "async-ps".
[[nodiscard]] const char *name_of(Mode mode);

struct Options {
  Shape shape;
  size_t batch = 8;       ///< samples of a forward and backward pass
  size_t accumulate = 1;  ///< passes of one step on each rank
  uint64_t steps = 100;
  uint64_t seed = 1;
  std::vector<std::string> corpus;  ///< files and folders, or empty for the default corpus

  bool on_device = false;  ///< whether ranks compute on CUDA devices
  int ordinal = -1;        ///< ordinal of the device, or -1 if each rank of a host takes a different one
  Precision precision = Precision::float32;
  std::string product_library;  ///< for matrix products on a device; empty for the usual names

  double bucket_mb = 1.0;  ///< MiB of gradients, as floats, in one all-reduce; the default depends on the model
  bool overlap = true;
  Mode mode = Mode::sync;
  uint64_t local_steps = 8;  ///< local_sgd: steps between means
  uint64_t staleness = 4;    ///< async_ps: how many steps a worker may be ahead of the slowest
  Compression compression;  ///< form of the gradients on the wire
  bool sharded = false;     ///< ZeRO, stage 1: each rank updates a share of the parameters
  bool recompute = false;   ///< activations are computed again in the backward pass
  Parts parts;              ///< division of a model among the ranks that share it

  double learning_rate = 1e-3, weight_decay = 0.1, clip = 1.0;
  uint64_t warmup = 10;  ///< steps in which the learning rate rises

  uint64_t validate_every = 0;  ///< steps, or 0 for the end only
  size_t validation_batches = 8;
  uint64_t check_every = 100;  ///< steps between comparisons of the parameters of all ranks, or 0 for never
  std::string checkpoint;      ///< file, or empty for no checkpoints
  uint64_t checkpoint_every = 0;
  std::string resume;  ///< file, or empty for a new run

  std::string report;  ///< folder, or empty for no report
  std::string json;    ///< file for the report only, "-" for standard output, or empty
  [[nodiscard]] bool reports() const { return !report.empty() || !json.empty(); }
  /// Returns the number of samples that all ranks together use in one step.
  [[nodiscard]] size_t samples_a_step(size_t ranks) const;
  /// Returns the number of ranks that share one model, and so use the same samples.
  [[nodiscard]] size_t ranks_a_model() const { return parts.slices * parts.stages; }
  /// Returns the stream for lines that people read.
  [[nodiscard]] std::FILE *lines() const { return json == "-" ? stderr : stdout; }
  uint32_t measure_rounds = 9;
  int delay_rank = -1;  ///< for tests: this rank needs delay_ms longer for a step
  uint64_t delay_ms = 0;
  bool flip_bit = false;  ///< for tests: flips a bit on rank flip_rank, before step flip_step
  int flip_rank = 0;
  uint64_t flip_step = 0;
  rondo_config_t config = RONDO_CONFIG_INIT;
};

/// Returns "float32", "tf32" or "bfloat16".
[[nodiscard]] const char *name_of(Precision precision);

/// Returns the options, or the text of --help (with Exit::ok), or a failure that describes a wrong option.
[[nodiscard]] std::variant<Options, Failure> parse_options(std::span<const char *const> args);

}  // namespace rondo::train
