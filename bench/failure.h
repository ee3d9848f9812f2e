// SPDX-License-Identifier: Apache-2.0
// A failure of a part of `rondo perf` or `rondo train`: the exit status of the command and one line for a person.
#pragma once

#include <optional>
#include <string>

namespace rondo::bench {

/// The exit statuses; scripts rely on them. 1 is what only the command itself can find out.
enum class Exit { ok = 0, wrong_results = 1, diverged = 1, usage = 2, communication = 3 };

struct Failure {
  Exit exit = Exit::usage;
  std::string message;
};

/// Empty: done. `if (auto failure = step()) return failure;` passes one on.
using Outcome = std::optional<Failure>;

}  // namespace rondo::bench

namespace rondo::perf {
using bench::Exit;
using bench::Failure;
using bench::Outcome;
}  // namespace rondo::perf

namespace rondo::train {
using bench::Exit;
using bench::Failure;
using bench::Outcome;
}  // namespace rondo::train
