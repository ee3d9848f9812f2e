// SPDX-License-Identifier: Apache-2.0
// What a rank's kernels have told the host: words that they store while it looks (DeviceResult).
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/kernels/operation.h"
#include "src/engine/device_executor.h"

namespace rondo::cuda {

class ResultReader {
 public:
  /// Any thread. `waits_to_launch`: a call waits for others before it is enqueued. Where nothing else runs its time has
  /// begun; its kernel counts as the same.
  [[nodiscard]] DeviceReport read(const device::DeviceResult &result, bool waits_to_launch) const;

 private:
  mutable std::atomic<uint64_t> ended_number_ = 0, ended_calls_ = 0;  ///< as last seen: they tell more than `ended` has
};

}  // namespace rondo::cuda
