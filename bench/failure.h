// SPDX-License-Identifier: Apache-2.0
// This file describes how a part of `rondo perf` or `rondo train` failed: the exit status of the command, and a line
// for people.
#pragma once

#include <optional>
#include <string>

namespace rondo::bench {

/// The exit statuses, on which scripts rely. Status 1 is for wrong results of perf, and for a diverged training.
enum class Exit { ok = 0, wrong_results = 1, diverged = 1, usage = 2, communication = 3 };

struct Failure {
  Exit exit = Exit::usage;
  std::string message;
};

/// The result of a step, which is empty for success. `if (auto failure = step()) return failure;` passes a failure on.
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
