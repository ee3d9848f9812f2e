// SPDX-License-Identifier: Apache-2.0
// The facts that a file of results has about the run itself, so that it can be judged and repeated. They are the
// version of Rondo, the time, the command line, the environment's variables, and the settings in force.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rondo/rondo.h"

namespace rondo::perf {

struct RunFacts {
  std::string version, commit;  ///< of the library; of the sources that this command was built from
  std::string time;             ///< of the start, UTC: 2026-11-23T03:10:06Z
  std::vector<std::string> arguments;
  /// RONDO_* without secrets and addresses, and CUDA_*: names with values, sorted.
  std::vector<std::pair<std::string, std::string>> environment;
};

[[nodiscard]] RunFacts collect_facts(std::span<const char *const> arguments);

/// Returns the library's version.
[[nodiscard]] std::string version_text();

/// The origin of the sources: a commit's name, or "unknown". The build writes it.
extern const char *const source_commit;

}  // namespace rondo::perf
