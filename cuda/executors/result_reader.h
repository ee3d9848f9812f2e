// SPDX-License-Identifier: Apache-2.0
// The reader of what a rank's kernels report to the host: words that they store while it reads (DeviceResult).
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/kernels/operation.h"
#include "src/engine/device_executor.h"

namespace rondo::cuda {

class ResultReader {
 public:
  /// Reads the report; any thread. `waits_to_launch`: a call waits for others before it is enqueued. If nothing else
  /// runs, its time has begun; its kernel counts as the same.
  [[nodiscard]] DeviceReport read(const device::DeviceResult &result, bool waits_to_launch) const;

 private:
  mutable std::atomic<uint64_t> ended_number_ = 0, ended_calls_ = 0;  ///< as last seen, with more bits than `ended` has
};

}  // namespace rondo::cuda
