// SPDX-License-Identifier: Apache-2.0
// What /proc tells of processes: to name the one that launched us, and to see whether another one still lives.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "src/base/process_stat.h"

namespace rondo {

/// A digest of the kernel's boot id and the namespace of processes: two processes with the same one number processes
/// alike. Containers of one machine share the boot id, and each has its own process 17.
[[nodiscard]] std::array<std::byte, 16> boot_digest();

/// "PID-STARTTICKS" of the launcher's process on this host: the nearest ancestor that is MPICH's proxy (there may be a
/// shell between), else the parent.
[[nodiscard]] std::string launcher_process();

/// "HOST:PORT" at which MPICH's mpiexec listens for its proxies, from the nearest proxy's command line: the one name of
/// a job that its hosts share and that costs nothing to ask for. (A question over PMI_FD makes the asker a process of
/// MPI for Hydra: as soon as it ends without PMI's finalize, its neighbours are killed.) Empty: no proxy is seen.
[[nodiscard]] std::string launcher_address();

/// Pure: from the text of /proc/PID/cmdline, whose arguments each end with a zero byte.
[[nodiscard]] std::string parse_control_port(std::string_view command_line);

}  // namespace rondo
