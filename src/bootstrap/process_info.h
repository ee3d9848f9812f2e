// SPDX-License-Identifier: Apache-2.0
// What /proc tells of processes: to name the one that launched us, and to see whether another one still lives.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rondo {

struct ProcessStat {
  std::string name;  ///< at most 15 characters, as the kernel keeps it
  pid_t parent = 0;
  uint64_t start_ticks = 0;  ///< since boot; with the pid, names a process for good until the next boot
};

/// Pure: from the text of /proc/PID/stat.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);

/// Nothing where there is no such process.
[[nodiscard]] std::optional<ProcessStat> process_stat(pid_t pid);

/// A digest of the kernel's boot id: two processes with the same one see the same /proc (containers aside).
[[nodiscard]] std::array<std::byte, 16> boot_digest();

/// "PID-STARTTICKS" of the launcher's process on this host: the nearest ancestor that is MPICH's proxy (there may be a
/// shell between), else the parent.
[[nodiscard]] std::string launcher_process();

}  // namespace rondo
