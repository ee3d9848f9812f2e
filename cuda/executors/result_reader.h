// SPDX-License-Identifier: Apache-2.0
// This class reads what a rank's kernels report to the host, while the kernels store it (DeviceResult).
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/kernels/operation.h"
#include "src/engine/device_executor.h"

namespace rondo::cuda {

class ResultReader {
 public:
  /// Reads the report; any thread may call it. `waits_to_launch` says that a call waits for other ranks before it is
  /// enqueued. If nothing else runs, the report counts that call's kernel as begun, so that its time runs.
  [[nodiscard]] DeviceReport read(const device::DeviceResult &result, bool waits_to_launch) const;

 private:
  mutable std::atomic<uint64_t> ended_number_ = 0, ended_calls_ = 0;  ///< as last seen, wider than in `ended`
};

}  // namespace rondo::cuda
