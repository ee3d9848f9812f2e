// SPDX-License-Identifier: Apache-2.0
// What a run leaves for its readers: report.json, report.html and timeline.json. docs/trainer.md explains the figures.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bench/trainer/options.h"
#include "bench/trainer/run/measure.h"
#include "bench/trainer/trainer.h"

namespace rondo::train {

struct Validation {
  uint64_t step = 0;
  double loss = 0;
};

/// Of a parameter server's updates.
struct Staleness {
  uint64_t updates = 0, sum = 0, max = 0;
  uint64_t lead_max = 0;  ///< steps that a worker was ahead of the slowest when it went on
};

struct Run {
  size_t ranks = 1, parameters = 0, bucket_count = 0;
  size_t wire_bytes = 0, received_bytes = 0, plain_bytes = 0;  ///< of rank 0 in a step; received as floats all-reduced
  size_t corpus_bytes = 0, corpus_files = 0;
  std::vector<std::pair<uint64_t, double>> earlier_losses;  ///< step and loss, from the checkpoint
  std::vector<StepRecord> steps;                            ///< of this process, with rank 0's times
  std::vector<Validation> validations;
  std::vector<Round> rounds;
  Staleness staleness;
  MemoryBytes memory;
  size_t memory_before = 0;  ///< what the process had before it joined the others
  std::vector<std::vector<Span>> spans;  ///< of each rank, of the last steps
};

[[nodiscard]] nlohmann::json to_json(const Options &options, const Run &run);

/// For Perfetto or chrome://tracing: a process for each rank, a lane for computation and one for communication.
[[nodiscard]] std::string to_timeline(const Run &run);

/// One page that needs no network.
[[nodiscard]] std::string to_page(const nlohmann::json &report, const Run &run);

/// Makes the folder, or says why that fails; before the run.
[[nodiscard]] Outcome make_report_folder(const std::string &folder);
[[nodiscard]] Outcome write_report(const std::string &folder, const Options &options, const Run &run);

/// The report alone, to a file or standard output ("-").
[[nodiscard]] Outcome write_json(const std::string &path, const Options &options, const Run &run);

[[nodiscard]] double bits_per_byte(double loss);
[[nodiscard]] double median(std::vector<double> values);

[[nodiscard]] size_t samples_a_step(const Options &options, size_t ranks);

/// Samples of all ranks in a second, by the median step without the first ones, which warm up.
[[nodiscard]] double samples_per_second(const Options &options, const Run &run);

}  // namespace rondo::train
