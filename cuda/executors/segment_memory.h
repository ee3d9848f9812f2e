// SPDX-License-Identifier: Apache-2.0
// This header says what a rank with kernels has in its memory on a device, before anything is allocated.
#pragma once

#include <cstdint>

#include "cuda/driver/budget.h"
#include "cuda/executors/residency.h"
#include "cuda/transport/segment.h"

namespace rondo::cuda {

/// Returns the shape of a rank's segment for the channels on which ranks have agreed, within max_memory_bytes.
/// RONDO_ERROR_OUT_OF_RESOURCES: no shape is small enough. All ranks of a host get the same result.
[[nodiscard]] Result<SegmentShape> choose_segment(const PlacedRequest &request, const ChannelCounts &channels,
                                                  bool has_load_store);

/// Returns the shape of a rank's segment for the copy-engine executor, within max_memory_bytes.
[[nodiscard]] Result<SegmentShape> choose_copy_segment(const PlacedRequest &request);

/// The bytes of a rank's memory on its device, by what is in it.
struct SegmentMemory {
  uint64_t connections = 0;
  uint64_t places = 0;  ///< of load_store
  uint64_t messages = 0;
  uint64_t plans = 0;
  uint64_t all = 0;  ///< these and less than 1 MiB of other things
};
/// Returns the memory of a rank in a process's first communicator, for `rank_count` ranks on one host. They are threads
/// of one process on one device, or processes with a device each. All devices reach each other.
[[nodiscard]] Result<SegmentMemory> plan_segment_memory(const Settings &settings, const BlockBudget &budget,
                                                uint32_t rank_count, bool on_one_device);

}  // namespace rondo::cuda
