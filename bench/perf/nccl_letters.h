// SPDX-License-Identifier: Apache-2.0
// The options of nccl-tests that have one letter there: each means here what it means there, or is refused with what to
// use in its place. Options that only Rondo has are in options.cpp, with long names.
#pragma once

#include <string>

#include "bench/perf/options.h"

namespace CLI {
class App;
}

namespace rondo::perf {

/// The words of the options as they stand on the command line.
struct NcclWords {
  int threads = 1, gpus = 1;
  std::string root = "0";
  int average = 3, parallel_init = 0, blocking = 0, cpu_time = 0, timestamps = 0, run_cycles = 1, local_register = 0;
  int memory = 0, default_stream = 0, run_times = 0, unaligned = 0;
  uint32_t graph_launches = 0;
  std::string device_implementation = "0", skipped_runs = "0", device_cta_count, cta_policy;
};

void add_nccl_options(CLI::App &app, Options &options, NcclWords &words);

/// Words that other options set, too.
struct SharedWords {
  std::string &device, &buffers;
  uint32_t &iterations, &stream;
  bool &graph;
};

/// Takes the options, after the parsing and before the shared words are understood.
[[nodiscard]] Outcome take_nccl_options(const CLI::App &app, const NcclWords &words, const SharedWords &shared,
                                        Options &options);

}  // namespace rondo::perf
