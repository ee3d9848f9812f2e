// SPDX-License-Identifier: Apache-2.0
// This class keeps what the driver said about the buffers of a call, from the check of the call until its launch. A
// query of the driver takes up to a microsecond.
#pragma once

#include <algorithm>
#include <array>
#include <mutex>
#include <optional>

#include "cuda/driver/driver.h"

namespace rondo::cuda {

/// Any thread may call the functions. If several threads call at once, answers may be lost, and are asked for again.
class CheckedBuffers {
 public:
  void keep(const void *pointer, const PointerInfo &info) {
    const std::lock_guard lock(mutex_);
    Answer &last = answers_.back();
    if (last.pointer != pointer) std::swap(answers_.front(), last);
    last = {pointer, info.legacy_ipc_capable};
  }
  /// Says whether kernels on peer devices can read and write the buffer. Peer access covers memory of cuMemAlloc, but
  /// pools and mapped memory have their own lists of devices. Returns false if the driver does not know the buffer. A
  /// context must be current.
  [[nodiscard]] bool peers_can_read(const CudaDriver &driver, const void *pointer) const {
    if (const auto kept = find(pointer)) return *kept;
    const auto info = pointer_info(driver, pointer);
    return info.ok() && info.value().legacy_ipc_capable;
  }
  /// Forgets all answers. Later calls may have other memory at the same addresses.
  void forget() {
    const std::lock_guard lock(mutex_);
    answers_ = {};
  }

 private:
  struct Answer {
    const void *pointer = nullptr;
    bool peers_can_read = false;
  };
  [[nodiscard]] std::optional<bool> find(const void *pointer) const {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find(answers_, pointer, &Answer::pointer);
    return found != answers_.end() ? std::optional(found->peers_can_read) : std::nullopt;
  }

  mutable std::mutex mutex_;          ///< guards answers_
  std::array<Answer, 2> answers_{};  ///< the latest one is the last
};

}  // namespace rondo::cuda
