// SPDX-License-Identifier: Apache-2.0
// This class lets one thread request that another thread gives up a wait.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <memory>

#include "src/base/result.h"
#include "src/base/unique_handle.h"

namespace rondo {

class Cancel {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Cancel>> make() {
    std::unique_ptr<Cancel> cancel(new Cancel);
    cancel->bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!cancel->bell_.valid()) return system_error("eventfd", errno);
    return cancel;
  }

  /// Requests the cancellation, which is final. Any thread may call it.
  void request() {
    requested_.store(true, std::memory_order_relaxed);  // relaxed: no other data depends on it
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(bell_.get(), &one, sizeof one);
  }
  [[nodiscard]] bool requested() const { return requested_.load(std::memory_order_relaxed); }
  /// Returns a descriptor that is readable as soon as the cancellation is requested.
  [[nodiscard]] int descriptor() const { return bell_.get(); }

 private:
  Cancel() = default;
  FileDescriptor bell_;
  std::atomic<bool> requested_{false};
};

}  // namespace rondo
