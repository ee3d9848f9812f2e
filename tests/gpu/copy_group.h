// SPDX-License-Identifier: Apache-2.0
// This file has ranks that are threads, whose collectives the copy-engine executor runs.
#pragma once

#include <optional>

#include "tests/gpu/device_ranks.h"
#include "tests/gpu/settings.h"

namespace rondo_test {

inline rondo_config_t by_copies(uint32_t timeout_ms = 60'000) {
  rondo_config_t config = on_device();
  config.device_executor = RONDO_DEVICE_EXECUTOR_COPY;
  config.timeout_ms = timeout_ms;
  return config;
}

/// A group with a buffer of `count` ones for each rank.
struct CopyGroup : DeviceRanks {
  explicit CopyGroup(int rank_count, size_t elements, uint32_t timeout_ms = 60'000)
      : DeviceRanks(rank_count, by_copies(timeout_ms)), count(elements) {
    for (int rank = 0; rank < rank_count; ++rank) buffers.emplace_back(world, bytes_of(std::vector<float>(count, 1)));
  }
  rondo_status_t sum(int rank, rondo_stream_t stream, size_t elements) const {
    void *const pointer = buffers[static_cast<size_t>(rank)].pointer();
    return rondo_all_reduce(pointer, pointer, elements, RONDO_FLOAT32, RONDO_SUM, ranks[rank], stream);
  }
  rondo_status_t sum(int rank) const { return sum(rank, stream(rank), count); }
  [[nodiscard]] std::vector<float> values(int rank) const {
    return values_of<float>(buffers[static_cast<size_t>(rank)].read());
  }

  size_t count;
  std::vector<DeviceBuffer> buffers;
};

/// The number of ranks that call before a failure. After the failure, streams overwrite slots that peers still read. No
/// test uses what the peers read. ThreadSanitizer reports these reads, so under it only one rank calls.
inline constexpr int caller_count = rondo::test::under_thread_sanitizer ? 1 : 2;

}  // namespace rondo_test
