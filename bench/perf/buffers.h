// SPDX-License-Identifier: Apache-2.0
// The memory that a rank's calls work on: a send and a receive arena, each with guard bytes on both sides of the data.
// On a device an arena is memory of that device. Inputs and results are copied through chunks of host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/failure.h"
#include "bench/perf/cases.h"
#include "bench/perf/device.h"
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

  /// Allocates memory of this kind.
  /// @param device  memory of this device, which must outlive the arena; null for host memory
  [[nodiscard]] Outcome allocate(size_t bytes, Buffers kind, rondo_comm_t comm, Device *device = nullptr);
  /// Returns the memory, on the device if there is one.
  [[nodiscard]] std::byte *data() const { return base_ + guard_bytes; }

  /// Writes or checks `bytes` at `at`, an address in this arena: on a device chunk by chunk, on the host all at once.
  [[nodiscard]] Outcome fill(std::byte *at, size_t bytes, const MakeChunk &make) const;
  [[nodiscard]] Outcome look(const std::byte *at, size_t bytes, const SeeChunk &see) const;

  /// Marks the guards around the first `bytes` of data, and adds up the guard bytes that were changed since.
  [[nodiscard]] Outcome write_guards(size_t bytes) const;
  [[nodiscard]] Outcome count_changed_guards(size_t bytes, uint64_t &changed) const;

 private:
  /// Registers all of it, for buffers of a kind that is registered.
  [[nodiscard]] Outcome register_if(Buffers kind, size_t bytes, rondo_comm_t comm);

  std::byte *base_ = nullptr;
  Device *device_ = nullptr;  ///< whose memory it is
  bool of_rondo_ = false;
  rondo_comm_t comm_ = nullptr;
  rondo_registration_t registration_ = nullptr;
};

struct ArenaSizes {
  size_t send_bytes = 0, recv_bytes = 0;
};

/// Returns the sizes that a rank needs so that every size up to `max_bytes` fits, for each requested placement.
[[nodiscard]] ArenaSizes arena_sizes(const Options &options, int ranks);

/// Refuses when the arenas of the ranks on this host, in its memory, do not fit into `available_bytes` of it.
[[nodiscard]] Outcome check_memory(const ArenaSizes &sizes, int local_ranks, uint64_t available_bytes);

/// Returns the memory that the system says is available, the limit of the control group included.
[[nodiscard]] uint64_t available_memory_bytes();

/// Returns the bytes of the line `MemAvailable:  123 kB` in the text of /proc/meminfo; 0 if not there.
[[nodiscard]] uint64_t parse_meminfo(const std::string &text);

/// Returns the communicator's or this thread's last error as one line, e.g. `all_reduce: timeout: ...`.
[[nodiscard]] Failure communication_failure(rondo_comm_t comm, const char *what, rondo_status_t status);

}  // namespace rondo::perf
