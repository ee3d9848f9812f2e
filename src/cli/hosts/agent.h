// SPDX-License-Identifier: Apache-2.0
// The agent is the launcher's part on one of several hosts, started there by ssh. It starts this host's ranks and
// passes their output on. It ends everything when the launcher's end of the connection closes or falls silent.
#pragma once

namespace rondo::cli {

/// Speaks through standard input and output. Returns the exit status.
[[nodiscard]] int run_agent();

}  // namespace rondo::cli
