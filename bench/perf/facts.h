// SPDX-License-Identifier: Apache-2.0
// This file collects facts about a run, so that its results can be judged and repeated. A file of results has the
// version of Rondo, the time, the command line, the variables, and the settings in force.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rondo/rondo.h"

namespace rondo::perf {

struct RunFacts {
  std::string version, commit;  ///< version of the library; commit of this command's sources
  std::string time;             ///< start of the run, UTC: 2026-11-23T03:10:06Z
  std::vector<std::string> arguments;
  /// The variables RONDO_*, without secrets and addresses, and CUDA_*: names with values, sorted.
  std::vector<std::pair<std::string, std::string>> environment;
};

[[nodiscard]] RunFacts collect_facts(std::span<const char *const> arguments);

/// Returns the library's version.
[[nodiscard]] std::string version_text();

/// The commit of the sources, or "unknown". The build writes it.
extern const char *const source_commit;

}  // namespace rondo::perf
