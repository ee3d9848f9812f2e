// SPDX-License-Identifier: Apache-2.0
// How the parts of `rondo perf` fail: with the exit status of the command and one line for a person.
#pragma once

#include <optional>
#include <string>

namespace rondo::perf {

/// The exit statuses of `rondo perf`; scripts rely on them.
enum class Exit { ok = 0, wrong_results = 1, usage = 2, communication = 3 };

struct Failure {
  Exit exit = Exit::usage;
  std::string message;
};

/// Empty: done. `if (auto failure = step()) return failure;` passes one on.
using Outcome = std::optional<Failure>;

}  // namespace rondo::perf
