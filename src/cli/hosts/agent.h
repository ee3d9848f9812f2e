// SPDX-License-Identifier: Apache-2.0
// An agent does the launcher's work on one of several hosts, where ssh starts it. It starts the ranks of its host and
// passes on their output. If the connection to the launcher closes or is silent for too long, it ends all its ranks.
#pragma once

namespace rondo::cli {

/// Runs the agent, which talks to the launcher over standard input and output. Returns the exit status.
[[nodiscard]] int run_agent();

}  // namespace rondo::cli
