// SPDX-License-Identifier: Apache-2.0
// Counts what the kernels of one rank did to memory, on emulated blocks (docs/gpu-tests.md). It is plain data: the
// driver in software hands it out, `rondo perf --count` prints it, and a test compares it with budgets.
//
// Accesses through src/proto/memory.h and the operands of reducers are counted. Three kinds are not counted:
// - a plan's constants and the ends of links, which lie in the rank's own device memory and stay in caches
// - loads of a flag that was not set yet and all that follows from waiting, since their number depends on time
// - shared memory
#pragma once

#include <cstdint>

namespace rondo {

/// The owner of the memory that an access meets, as seen from the rank whose kernel accesses it.
enum MemoryKind : uint32_t { own_device_memory, other_device_memory, host_memory, memory_kind_count };

struct PhaseCounts {
  uint64_t read_bytes[memory_kind_count] = {};
  uint64_t written_bytes[memory_kind_count] = {};
  uint64_t host_loads = 0;
  uint64_t host_stores = 0;
  uint64_t early_host_stores = 0;  ///< the same thread stored a flag in device memory, or added to one, before
  uint64_t releases = 0;  ///< of system scope, as orders are but at gates of one device
  uint64_t acquires = 0;
  uint64_t read_modify_writes = 0;
  uint64_t barriers = 0;  ///< of a group
};

struct AccessCounts {
  uint64_t operations = 0;  ///< kernels of this rank, all of whose counts are added up here
  uint64_t blocks = 0;      ///< likewise
  PhaseCounts work;         ///< until a group has all that it waited for
  PhaseCounts report;       ///< the report of the operation's end
  /// The longest chain of accesses to device or host memory, each of which needs the one before it. A load needs the
  /// access that gave its address or its turn, a store the loads before it, a load of a flag the store that set it. It
  /// is over all ranks of a process and all operations since counting began, so of one operation if there was only one.
  uint64_t chain_to_result = 0;  ///< including the last load that a result was made of
  uint64_t chain = 0;            ///< including what the kernel waited for beside the result
};

}  // namespace rondo
