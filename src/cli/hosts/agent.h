// SPDX-License-Identifier: Apache-2.0
// The agent does the launcher's work on one of several hosts, where ssh starts it. It starts this host's ranks and
// passes on their output. When the connection to the launcher closes or stays silent, it ends everything.
#pragma once

namespace rondo::cli {

/// Runs the agent, which talks to the launcher over standard input and output. Returns the exit status.
[[nodiscard]] int run_agent();

}  // namespace rondo::cli
