// SPDX-License-Identifier: Apache-2.0
// Copies of plans to the device, on a stream of the executor's own, so that a captured call does not repeat the copy
// with each replay. That stream may share a hardware queue with a kernel that waits for this rank. A copy then ends
// only after this rank's call, so waits for copies are short. Only cuda includes this header.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/driver/handles.h"

namespace rondo::cuda {

class PlanUploads {
 public:
  /// Keeps references to its arguments, which outlive it. `abort` is the host's abort word.
  PlanUploads(const PrimaryContext &context, const Stream &stream, const uint64_t &abort)
      : context_(context), stream_(stream), abort_(abort) {}

  /// Begins a copy, and returns whether it has ended already.
  [[nodiscard]] Result<bool> begin(DevicePointer to, const void *from, uint64_t bytes);
  /// Waits for the copies. Returns false if they have not ended within the time, or the rank is to stop.
  [[nodiscard]] Result<bool> wait(uint64_t patience_ns) const;
  [[nodiscard]] Result<bool> have_ended() const;
  /// Returns whether the copies that begin() left unfinished have ended. True if the device failed: nothing runs there.
  [[nodiscard]] bool late_ones_have_ended() const;

 private:
  const PrimaryContext &context_;
  const Stream &stream_;
  const uint64_t &abort_;
  std::atomic<bool> was_late_ = false;
};

}  // namespace rondo::cuda
