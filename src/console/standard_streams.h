// SPDX-License-Identifier: Apache-2.0
// The standard streams of a command, from its first line to its exit status.
#pragma once

namespace rondo::console {

/// Opens /dev/null in place of each closed stream among standard input, output and error. Otherwise a file of the
/// command would get its number, and with it the command's prints. Makes a write beyond `ulimit -f` fail instead of
/// ending the command by SIGXFSZ; programs that it starts are not affected. Call it before anything else.
void begin_standard_streams();

/// Writes out what is left for standard output. Returns `status`; or, in place of 0 and with a word on standard error,
/// 1 where some of the output was lost. `name` is the command's.
[[nodiscard]] int end_standard_streams(const char *name, int status);

}  // namespace rondo::console
