// SPDX-License-Identifier: Apache-2.0
// This file handles the options of `rondo perf` that choose a plan. It refuses those that a collective would ignore.
#pragma once

#include <string>

#include "bench/perf/options.h"
#include "src/console/command_line.h"

namespace rondo::perf {

/// The words of the options, as on the command line.
struct PlanWords {
  std::string algorithm = "auto", protocol = "auto", kernel = "auto", chunk_bytes;
};

void add_plan_options(console::CommandLine &app, Options &options, PlanWords &words);

/// Returns a failure if the collective would ignore an option. Call it after the options were interpreted.
[[nodiscard]] Outcome check_plan_options(const CLI::App &app, const Options &options);

}  // namespace rondo::perf
