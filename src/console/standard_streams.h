// SPDX-License-Identifier: Apache-2.0
// This file handles the standard streams of a command, from its start to its exit status.
#pragma once

namespace rondo::console {

/// Opens /dev/null for each closed stream among standard input, output and error. Otherwise a file of the command would
/// get the stream's number, and receive the command's prints. It also makes a write beyond `ulimit -f` fail, instead of
/// ending the command by SIGXFSZ. SIGXFSZ still ends programs that the command starts. Call it before anything else.
void begin_standard_streams();

/// Flushes standard output and returns `status`. If output was lost, reports the loss on standard error, and returns 1
/// instead of 0. `name` is the command's name.
[[nodiscard]] int end_standard_streams(const char *name, int status);

}  // namespace rondo::console
