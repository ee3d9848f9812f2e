// SPDX-License-Identifier: Apache-2.0
// This file copies plans to the device on a stream of the executor, so that a captured call does not repeat the copy at
// each replay. That stream may share a hardware queue with a kernel that waits for this rank. Then a copy ends only
// after this rank's next call, so a wait for copies ends after a short time. Only cuda includes this header.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/driver/handles.h"

namespace rondo::cuda {

class PlanUploads {
 public:
  /// Keeps references to its arguments, which must outlive it. `abort` is the host's abort word.
  PlanUploads(const PrimaryContext &context, const Stream &stream, const uint64_t &abort)
      : context_(context), stream_(stream), abort_(abort) {}

  /// Begins a copy. Returns whether the copy has ended already.
  [[nodiscard]] Result<bool> begin(DevicePointer to, const void *from, uint64_t bytes);
  /// Waits for the copies. Returns false if they have not ended in time, or the rank must stop.
  [[nodiscard]] Result<bool> wait(uint64_t patience_ns) const;
  [[nodiscard]] Result<bool> have_ended() const;
  /// Says whether the copies that begin() left unfinished have ended. Returns true if the device failed, because
  /// nothing runs on it.
  [[nodiscard]] bool late_ones_have_ended() const;

 private:
  const PrimaryContext &context_;
  const Stream &stream_;
  const uint64_t &abort_;
  std::atomic<bool> was_late_ = false;
};

}  // namespace rondo::cuda
