// SPDX-License-Identifier: Apache-2.0
// This class holds the windows of one rank, and writes to them what ranks of other hosts put there. It also counts the
// signals of these ranks. The thread that serves the links gives it what arrives, so the rank need not call anything.
// The class checks each range, because the other end computes the range.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/result.h"
#include "src/links/remote_memory.h"

namespace rondo::net {

/// Any thread may call it.
class FarWindows {
 public:
  /// Raises a failure that is about rank `peer`.
  using Raise = std::function<void(uint32_t peer, rondo_status_t status, const std::string &message)>;
  FarWindows(size_t rank_count, Raise raise) : raise_(std::move(raise)), signals_(rank_count) {}

  /// Lets other hosts write to a buffer. `number` identifies its registration and is equal on all ranks.
  void expose(uint64_t number, std::span<std::byte> buffer);
  /// Ends the window. After the return nothing writes to the buffer.
  void withdraw(uint64_t number);
  /// Ends all windows, and takes nothing more.
  void close();
  /// Takes a slot from `peer`: writes the data, and then sets the signal. Returns false after close(), and once a
  /// slot was refused.
  [[nodiscard]] bool take(uint32_t peer, std::span<const std::byte> slot);
  /// Returns the counters of a rank's signals, which take() stores by memory::store_sync().
  [[nodiscard]] uint64_t *signals(uint32_t from) { return signals_[from].data(); }

 private:
  bool refuse(uint32_t peer, rondo_status_t status, const std::string &message);

  const Raise raise_;
  std::mutex mutex_;  ///< guards buffers_ and closed_, and the buffers while take() writes
  std::map<uint64_t, std::span<std::byte>> buffers_;  ///< by registration number
  bool closed_ = false;
  std::vector<std::array<uint64_t, signal_count>> signals_;  ///< by rank
};

}  // namespace rondo::net
