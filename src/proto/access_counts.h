// SPDX-License-Identifier: Apache-2.0
// These are counts of what the kernels of one rank did to memory, on emulated blocks (docs/tests.md). They are
// plain data: the driver in software fills them in, `rondo perf --count` prints them, and a test compares them with
// budgets.
//
// Accesses through src/proto/memory.h and the operands of reducers are counted. Three kinds are not counted:
// - constants of a plan and ends of links, which lie in the rank's own device memory and stay in caches
// - loads that find a flag not set yet, and all other work of waiting, because their number depends on time. Only
//   the idle_ fields have them.
// - shared memory
#pragma once

#include <cstdint>

namespace rondo {

/// The owner of the memory that is accessed, as the accessing rank sees it.
enum MemoryKind : uint32_t { own_device_memory, other_device_memory, host_memory, memory_kind_count };

struct PhaseCounts {
  uint64_t read_bytes[memory_kind_count] = {};
  uint64_t written_bytes[memory_kind_count] = {};
  uint64_t host_loads = 0;
  uint64_t host_stores = 0;
  uint64_t early_host_stores = 0;  ///< by threads that had stored or added to a flag in device memory before
  uint64_t releases = 0;  ///< releases of system scope
  uint64_t acquires = 0;
  uint64_t read_modify_writes = 0;
  uint64_t barriers = 0;  ///< barriers of a group
};

struct AccessCounts {
  uint64_t operations = 0;  ///< number of kernels of this rank, all of which are summed here
  uint64_t blocks = 0;      ///< number of blocks of these kernels
  PhaseCounts work;         ///< counts until a group has received everything
  PhaseCounts report;       ///< counts of the report of the operation's end
  /// The longest chain of dependent accesses to device or host memory. A load depends on the access that gave its
  /// address or its turn. A store depends on the loads before it, and a load of a flag on the store that set the flag.
  /// The chain covers all ranks of a process and all operations since counting began.
  uint64_t chain_to_result = 0;  ///< up to the last load that a result was made of
  uint64_t chain = 0;            ///< includes waits that no result depends on
  /// The most batches of data that one thread has loaded from other devices, each of them after the one before.
  uint64_t remote_turns = 0;
  uint64_t idle_loads = 0;     ///< of flags and words of the host, by polls that found nothing
  uint64_t idle_acquires = 0;  ///< the acquires among idle_loads
  uint64_t idle_host_loads = 0;  ///< the loads of host memory among idle_loads
};

}  // namespace rondo
