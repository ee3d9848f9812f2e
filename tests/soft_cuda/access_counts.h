// SPDX-License-Identifier: Apache-2.0
// This file declares the counts of memory accesses that one rank's kernels make on emulated blocks (docs/tests.md). The
// driver in software fills the counts in, and tests compare them with budgets.
//
// Accesses through src/proto/memory.h and the operands of reducers are counted. Two kinds are not counted:
// - constants of a plan and ends of links, which lie in the rank's own device memory and stay in caches
// - shared memory
#pragma once

#include <cstdint>

namespace soft_cuda {

/// The owner of accessed memory, as the accessing rank sees it.
enum MemoryKind : uint32_t { own_device_memory, other_device_memory, host_memory, memory_kind_count };

struct AccessCounts {
  uint64_t operations = 0;  ///< number of kernels of this rank, all of which are summed here
  uint64_t blocks = 0;      ///< number of blocks of these kernels
  uint64_t read_bytes[memory_kind_count] = {};  ///< without reads of flags, because the number of polls depends on time
  uint64_t written_bytes[memory_kind_count] = {};
  uint64_t flag_loads[memory_kind_count] = {};
  uint64_t flag_acquires = 0;  ///< the acquires among flag_loads
  /// A count of batches that had data loaded from other devices: the maximum over the rank's threads.
  uint64_t remote_turns = 0;
};

}  // namespace soft_cuda
