// SPDX-License-Identifier: Apache-2.0
// A window is a buffer on every rank of a communicator to which all other ranks can write. The ranks register it
// together: each one publishes where its buffer is, opens the buffers of the others, and publishes whether it could.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/base/result.h"
#include "src/links/remote_memory.h"

namespace rondo {

class Communicator;

/// One rank's view of a window. It does not change.
class PeerWindow {
 public:
  struct Buffer {
    uint64_t bytes = 0;
    std::shared_ptr<const RemoteMemory> memory;  ///< null if the buffer has 0 bytes
  };
  /// `comm` is only compared. `buffers` has the buffer of each rank.
  PeerWindow(const Communicator &comm, std::vector<Buffer> buffers) : comm_(&comm), buffers_(std::move(buffers)) {}

  [[nodiscard]] bool belongs_to(const Communicator &comm) const { return comm_ == &comm; }
  [[nodiscard]] const std::vector<Buffer> &buffers() const { return buffers_; }

  void *handle = nullptr;  ///< handle that the user holds

 private:
  const Communicator *const comm_;
  const std::vector<Buffer> buffers_;
};

/// The windows of one communicator. Any thread.
class WindowTable {
 public:
  /// Begins a registration and returns its number, from 1. Returns 0 while an earlier registration runs. The caller
  /// must call end() later.
  [[nodiscard]] uint64_t begin() {
    const std::lock_guard lock(mutex_);
    if (registers_) return 0;
    registers_ = true;
    return ++registration_count_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    registers_ = false;
  }
  void add(std::shared_ptr<PeerWindow> window) {
    const std::lock_guard lock(mutex_);
    windows_.push_back(std::move(window));
  }
  void remove(const PeerWindow *window) {
    const std::lock_guard lock(mutex_);
    std::erase_if(windows_, [&](const auto &known) { return known.get() == window; });
  }
  /// Removes all windows and returns them.
  [[nodiscard]] std::vector<std::shared_ptr<PeerWindow>> clear() {
    const std::lock_guard lock(mutex_);
    return std::exchange(windows_, {});
  }

 private:
  std::mutex mutex_;
  bool registers_ = false;
  uint64_t registration_count_ = 0;
  std::vector<std::shared_ptr<PeerWindow>> windows_;
};

/// The arguments of rondo_window_register() on one rank.
struct WindowRequest {
  void *pointer = nullptr;
  uint64_t bytes = 0;
  bool symmetric = false;  ///< true: all ranks must give the same size
};

/// Registers a window together with all other ranks of the communicator. Waits for them until the timeout of the
/// communicator. If it fails, the communicator remains usable, unless a rank has ended. If `checked` is an error, the
/// request was refused on this rank. Then this function informs the other ranks, and returns the error.
[[nodiscard]] Result<std::shared_ptr<PeerWindow>> register_window(Communicator &comm, const WindowRequest &request,
                                                              const Result<void> &checked);

}  // namespace rondo
