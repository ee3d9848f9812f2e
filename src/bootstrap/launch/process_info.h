// SPDX-License-Identifier: Apache-2.0
// What /proc tells of processes: to name the one that launched us, and to see whether another one still lives.
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "src/base/process_stat.h"

namespace rondo {

/// A digest of the kernel's boot id and the namespace of processes: two processes with the same one number processes
/// alike. Containers of one machine share the boot id, and each has its own process 17.
[[nodiscard]] std::array<std::byte, 16> boot_digest();

/// "PID-STARTTICKS" of the launcher's process on this host: the nearest ancestor that is MPICH's proxy (there may be a
/// shell between), else the parent.
[[nodiscard]] std::string launcher_process();

}  // namespace rondo
