// SPDX-License-Identifier: Apache-2.0
// How the parts of `rondo train` fail: with the exit status of the command and one line for a person.
#pragma once

#include <optional>
#include <string>

namespace rondo::train {

/// The exit statuses of `rondo train`; scripts rely on them.
enum class Exit { ok = 0, diverged = 1, usage = 2, communication = 3 };

struct Failure {
  Exit exit = Exit::usage;
  std::string message;
};

/// Empty: done. `if (auto failure = step()) return failure;` passes one on.
using Outcome = std::optional<Failure>;

}  // namespace rondo::train
