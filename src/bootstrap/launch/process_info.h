// SPDX-License-Identifier: Apache-2.0
// This file reads /proc, to find the process that launched this one, and to check whether another process lives.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "src/base/kernel_file.h"

namespace rondo {

/// Returns a digest of the kernel's boot id and the PID namespace. If two processes get the same digest, a PID means
/// the same process to both. Containers of a machine share the boot id, but each may have another process 17.
[[nodiscard]] std::array<std::byte, 16> boot_digest();

/// Returns "PID-STARTTICKS" of the launcher's process on this host. It is the nearest ancestor that is an MPICH proxy
/// (a shell may be in between), or else the parent.
[[nodiscard]] std::string launcher_process();

/// Returns the "HOST:PORT" at which MPICH's mpiexec listens for its proxies, from the command line of the nearest
/// proxy. The address names the job: no other name is equal on all hosts and can be read without side effects. If this
/// process asked mpiexec over PMI_FD, mpiexec would take it for an MPI process, and would kill the other ranks if it
/// ended without PMI's finalize. Returns "" if no proxy is visible.
[[nodiscard]] std::string launcher_address();

/// Returns the "HOST:PORT" that follows --control-port in `command_line`, the text of /proc/PID/cmdline (pure).
[[nodiscard]] std::string parse_control_port(std::string_view command_line);

}  // namespace rondo
