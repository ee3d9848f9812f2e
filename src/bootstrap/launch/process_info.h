// SPDX-License-Identifier: Apache-2.0
// This file reads /proc: to name the process that launched us, and to see whether another process still lives.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "src/base/process_stat.h"

namespace rondo {

/// Returns a digest of the kernel's boot id and the namespace of processes. Two processes with the same digest number
/// processes alike. Containers of one machine share the boot id, and each has its own process 17.
[[nodiscard]] std::array<std::byte, 16> boot_digest();

/// Returns "PID-STARTTICKS" of the launcher's process on this host. That is the nearest ancestor that is MPICH's proxy
/// (there may be a shell between), or the parent if there is none.
[[nodiscard]] std::string launcher_process();

/// Returns the "HOST:PORT" at which MPICH's mpiexec listens for its proxies, from the nearest proxy's command line. It
/// is the one name of a job that its hosts share and that costs nothing to ask for. A question over PMI_FD would make
/// the asker a process of MPI for Hydra: its end without PMI's finalize kills its neighbours. Empty if no proxy is
/// seen.
[[nodiscard]] std::string launcher_address();

/// Parses the text of /proc/PID/cmdline, whose arguments each end with a zero byte. Pure.
[[nodiscard]] std::string parse_control_port(std::string_view command_line);

}  // namespace rondo
