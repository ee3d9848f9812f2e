// SPDX-License-Identifier: Apache-2.0
// The options of `rondo perf` that choose a plan, and the collectives that have no such choice.
#pragma once

#include <string>

#include "bench/perf/options.h"
#include "src/console/command_line.h"

namespace rondo::perf {

/// The options as they stand on the command line, before their words are understood.
struct PlanWords {
  std::string algorithm = "auto", protocol = "auto", kernel = "auto", chunk_bytes;
};

void add_plan_options(console::CommandLine &app, Options &options, PlanWords &words);

/// Refuses options that the collective would ignore. The words are understood.
[[nodiscard]] Outcome check_plan_options(const CLI::App &app, const Options &options);

}  // namespace rondo::perf
