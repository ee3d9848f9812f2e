// SPDX-License-Identifier: Apache-2.0
// This file declares the memory of a rank's calls: a send arena and a receive arena, each with guard bytes before and
// after the data. On a device, an arena is memory of that device. Inputs and results are copied in chunks through host
// memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "bench/failure.h"
#include "bench/perf/cases.h"
#include "bench/perf/device.h"
#include "bench/perf/options.h"

namespace rondo::perf {

inline constexpr size_t guard_bytes = 4096;  ///< before the data, so that the data begins on a page, and after it

/// The memory of some data and of its guards. The arena owns the memory and its registration. Destroy the arena before
/// the communicator of the registration.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena &) = delete;
  Arena &operator=(const Arena &) = delete;
  ~Arena();

  /// Allocates memory of this kind.
  /// @param device  memory of this device, which must outlive the arena; null for host memory
  [[nodiscard]] Outcome allocate(size_t bytes, Buffers kind, rondo_comm_t comm, Device *device = nullptr);
  /// Returns the address of the data. It is a device address if the arena is on a device.
  [[nodiscard]] std::byte *data() const { return base_ + guard_bytes; }

  /// Writes (fill) or checks (look) `bytes` bytes at `at`, an address in this arena. Both work chunk by chunk on a
  /// device, and all at once on the host.
  [[nodiscard]] Outcome fill(std::byte *at, size_t bytes, const MakeChunk &make) const;
  [[nodiscard]] Outcome look(const std::byte *at, size_t bytes, const SeeChunk &see) const;

  /// Writes the guards around the first `bytes` of data. count_changed_guards() adds up the guard bytes that changed.
  [[nodiscard]] Outcome write_guards(size_t bytes) const;
  [[nodiscard]] Outcome count_changed_guards(size_t bytes, uint64_t &changed) const;

 private:
  /// Registers the whole arena, if buffers of this kind are registered.
  [[nodiscard]] Outcome register_if(Buffers kind, size_t bytes, rondo_comm_t comm);

  std::byte *base_ = nullptr;
  Device *device_ = nullptr;  ///< the owner of the memory, or null
  bool of_rondo_ = false;
  rondo_comm_t comm_ = nullptr;
  rondo_registration_t registration_ = nullptr;
};

struct ArenaSizes {
  size_t send_bytes = 0, recv_bytes = 0;
};

/// Returns the arena sizes of a rank, so that every size up to `max_bytes` fits with each requested placement.
[[nodiscard]] ArenaSizes arena_sizes(const Options &options, int ranks);

/// Returns a failure if the arenas of this host's ranks do not fit into `available_bytes` of its memory.
[[nodiscard]] Outcome check_memory(const ArenaSizes &sizes, int local_ranks, uint64_t available_bytes);

/// Returns the memory that the system reports as available, limited by the control group.
[[nodiscard]] uint64_t available_memory_bytes();

/// Returns the bytes in the line `MemAvailable:  123 kB` of the text of /proc/meminfo. Returns 0 without such a line.
[[nodiscard]] uint64_t parse_meminfo(const std::string &text);

/// Returns the last error of the communicator or this thread as one line, such as `all_reduce: timeout: ...`.
[[nodiscard]] Failure communication_failure(rondo_comm_t comm, const char *what, rondo_status_t status);

}  // namespace rondo::perf
