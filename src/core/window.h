// SPDX-License-Identifier: Apache-2.0
// A window is a buffer on every rank of a communicator to which all other ranks can write. The ranks register it
// together: each rank publishes where its buffer is, opens the buffers of the other ranks, and publishes the outcome.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "src/base/result.h"
#include "src/links/remote_memory.h"

namespace rondo {

class Communicator;

/// One rank's view of a window. The object is constant.
class PeerWindow {
 public:
  struct Buffer {
    uint64_t bytes = 0;
    std::shared_ptr<const RemoteMemory> memory;  ///< null if the buffer has 0 bytes, or is on another host
  };
  /// `comm` is only compared. `number` is the number of the registration. `buffers` has the buffer of each rank.
  PeerWindow(const Communicator &comm, uint64_t number, std::vector<Buffer> buffers)
      : comm_(&comm), number_(number), buffers_(std::move(buffers)) {}

  [[nodiscard]] bool belongs_to(const Communicator &comm) const { return comm_ == &comm; }
  [[nodiscard]] uint64_t number() const { return number_; }
  [[nodiscard]] const std::vector<Buffer> &buffers() const { return buffers_; }

  void *handle = nullptr;  ///< handle that the user holds

 private:
  const Communicator *const comm_;
  const uint64_t number_;
  const std::vector<Buffer> buffers_;
};

/// The windows of one communicator. Any thread may use this object.
class WindowTable {
 public:
  struct Turn {
    uint64_t number = 0;  ///< number of the registration on this rank, from 1
    bool begun = false;   ///< false if an earlier registration still runs. Otherwise the caller must call end() later
  };
  /// Begins a registration, and returns the number of this call of rondo_window_register().
  [[nodiscard]] Turn begin() {
    const std::lock_guard lock(mutex_);
    return {++registration_count_, !std::exchange(registers_, true)};
  }
  void end() {
    const std::lock_guard lock(mutex_);
    registers_ = false;
  }
  /// Returns whether a registration runs.
  [[nodiscard]] bool registers() {
    const std::lock_guard lock(mutex_);
    return registers_;
  }
  /// Returns the number of the latest registration in which this rank has opened all buffers.
  [[nodiscard]] uint64_t opened_number() {
    const std::lock_guard lock(mutex_);
    return opened_number_;
  }
  void set_opened(uint64_t number) {
    const std::lock_guard lock(mutex_);
    opened_number_ = number;
  }
  /// Allocates the memory that add() needs for the running registration.
  void make_room() {
    const std::lock_guard lock(mutex_);
    if (windows_.size() == windows_.capacity()) windows_.reserve(std::max<size_t>(8, 2 * windows_.size()));
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
  uint64_t opened_number_ = 0;
  std::vector<std::shared_ptr<PeerWindow>> windows_;
};

/// The arguments of rondo_window_register() on one rank.
struct WindowRequest {
  void *pointer = nullptr;
  uint64_t bytes = 0;
  bool symmetric = false;  ///< true: all ranks must give the same size
};

/// Registers a window together with all other ranks of the communicator. Waits for them until the timeout of the
/// communicator. If the registration fails, the communicator remains usable, unless a rank has ended. `prepare` runs
/// first. If it refuses the request, the function informs the other ranks and returns the error. A refused call has a
/// number, too, so that the numbers of all ranks match.
[[nodiscard]] Result<std::shared_ptr<PeerWindow>> register_window(Communicator &comm, const WindowRequest &request,
                                                              const std::function<Result<void>()> &prepare);

}  // namespace rondo
