// SPDX-License-Identifier: Apache-2.0
// The memory that a rank's calls work on: a send and a receive arena, each with guard bytes on both sides of the data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/perf/cases.h"
#include "bench/perf/failure.h"
#include "bench/perf/options.h"

namespace rondo::perf {

inline constexpr size_t guard_bytes = 4096;  ///< before the data, which thus begins on a page; and after it

/// Memory for `bytes` of data and its guards. Owns it, and its registration, which must end before the communicator.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  ~Arena();

  [[nodiscard]] Outcome allocate(size_t bytes, Buffers kind, rondo_comm_t comm);
  [[nodiscard]] std::byte *data() const { return base_ + guard_bytes; }

  /// Marks the guards around the first `bytes` of data, and counts the guard bytes that were changed since.
  void write_guards(size_t bytes);
  [[nodiscard]] uint64_t count_changed_guards(size_t bytes) const;

 private:
  std::byte *base_ = nullptr;
  bool of_rondo_ = false;
  rondo_comm_t comm_ = nullptr;
  rondo_registration_t registration_ = nullptr;
};

struct ArenaSizes {
  size_t send_bytes = 0, recv_bytes = 0;
};

/// What a rank needs so that every size up to `max_bytes` fits, for each placement that the options ask for.
[[nodiscard]] ArenaSizes arena_sizes(const Options &options, int ranks);

/// Refuses when the arenas of the ranks on this host do not fit into `available_bytes` of memory.
[[nodiscard]] Outcome check_memory(const ArenaSizes &sizes, int local_ranks, uint64_t available_bytes);

/// What the system says is available, the limit of the control group included.
[[nodiscard]] uint64_t available_memory_bytes();

/// "MemAvailable:  123 kB" in the text of /proc/meminfo, in bytes; 0: not there.
[[nodiscard]] uint64_t parse_meminfo(const std::string &text);

/// The communicator's or this thread's last error as one line: "all_reduce: timeout: ...".
[[nodiscard]] Failure communication_failure(rondo_comm_t comm, const char *what, rondo_status_t status);

}  // namespace rondo::perf
