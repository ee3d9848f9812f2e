// SPDX-License-Identifier: Apache-2.0
// Copies of plans to the device, on a stream of the executor's own, so that a captured call does not repeat the copy
// with each replay. If that stream shares a hardware queue with a kernel that waits for this rank, a copy ends only
// after this rank's call: so waits for it are short. A header of cuda/ alone.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/transport/handles.h"

namespace rondo::cuda {

class PlanUploads {
 public:
  /// All outlive it. `abort`: the host's abort word.
  PlanUploads(const PrimaryContext &context, const Stream &stream, const uint64_t &abort)
      : context_(context), stream_(stream), abort_(abort) {}

  /// True: the copy has ended.
  [[nodiscard]] Result<bool> begin(DevicePointer to, const void *from, uint64_t bytes);
  /// False: they have not ended within the time, or the rank was told to stop.
  [[nodiscard]] Result<bool> wait(uint64_t patience_ns) const;
  [[nodiscard]] Result<bool> have_ended() const;
  /// Of those that begin() did not see end; or the device has failed, so that nothing runs there any more.
  [[nodiscard]] bool late_ones_have_ended() const;

 private:
  const PrimaryContext &context_;
  const Stream &stream_;
  const uint64_t &abort_;
  std::atomic<bool> was_late_ = false;
};

}  // namespace rondo::cuda
