// SPDX-License-Identifier: Apache-2.0
// These functions read files of /proc and /sys, among them /proc/PID/stat.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace rondo {

/// Returns the text of a file of the kernel, or "" if it cannot be read.
[[nodiscard]] std::string read_kernel_file(const std::string &path);
/// Returns the first line of the file, without the line end.
[[nodiscard]] std::string read_kernel_line(const std::string &path);

/// A process's name, its parent, its start time, and whether it has ended.
struct ProcessStat {
  std::string name;  ///< at most 15 characters, as the kernel keeps it
  pid_t parent = 0;
  uint64_t start_ticks = 0;  ///< in ticks since boot; together with the pid, it identifies a process
  char state = '\0';          ///< R, S, D, Z, T, t, X, ...
  uint64_t thread_count = 0;  ///< includes the main thread, even if it has ended

  /// Returns whether all threads of the process have ended and its parent has not reaped it yet. A main thread may end
  /// before the others.
  [[nodiscard]] bool ended() const { return (state == 'Z' || state == 'X' || state == 'x') && thread_count <= 1; }
};

/// Parses the text of /proc/PID/stat. It does no I/O.
[[nodiscard]] std::optional<ProcessStat> parse_process_stat(std::string_view text);

/// Says whether /proc has the process numbers of this process's PID namespace. After `unshare --pid`, and below another
/// root, /proc may show another namespace, in which PID is the number of an unrelated process.
[[nodiscard]] bool proc_has_own_numbers();

/// Returns the stat of a process. Returns nothing if there is no such process, or if /proc does not show it.
[[nodiscard]] std::optional<ProcessStat> process_stat(pid_t pid);

/// The name of a process on its host. It includes the start time, because the system reuses process numbers.
struct ProcessName {
  uint64_t pid = 0;
  uint64_t start_ticks = 0;  ///< since boot

  bool operator==(const ProcessName &) const = default;
};

[[nodiscard]] ProcessName own_process();

}  // namespace rondo
