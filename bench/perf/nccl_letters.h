// SPDX-License-Identifier: Apache-2.0
// This file handles the options of nccl-tests that have one letter. Each has the same meaning here, or is refused with
// an alternative. options.cpp has the options that only Rondo has, with long names.
#pragma once

#include <string>

#include "bench/perf/options.h"

namespace CLI {
class App;
}

namespace rondo::perf {

/// The words of the options, as on the command line.
struct NcclWords {
  int threads = 1, gpus = 1;
  std::string root = "0";
  int average = 3, parallel_init = 0, blocking = 0, cpu_time = 0, timestamps = 0, run_cycles = 1, local_register = 0;
  int memory = 0, default_stream = 0, run_times = 0, unaligned = 0;
  uint32_t graph_launches = 0;
  std::string device_implementation = "0", skipped_runs = "0", device_cta_count, cta_policy;
};

void add_nccl_options(CLI::App &app, Options &options, NcclWords &words);

/// Words that other options set as well.
struct SharedWords {
  std::string &device, &buffers;
  uint32_t &iterations, &stream;
  bool &graph;
};

/// Applies the options, after parsing and before the shared words are interpreted.
[[nodiscard]] Outcome take_nccl_options(const CLI::App &app, const NcclWords &words, const SharedWords &shared,
                                        Options &options);

}  // namespace rondo::perf
