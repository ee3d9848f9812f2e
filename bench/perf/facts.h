// SPDX-License-Identifier: Apache-2.0
// What a file of results says of the run itself, so that it can be judged and repeated: which Rondo, when, how it was
// called, with which variables, and what was in force.
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

/// The library's.
[[nodiscard]] std::string version_text();

/// Where the sources came from: a commit's name, or "unknown"; written by the build.
extern const char *const source_commit;

}  // namespace rondo::perf
