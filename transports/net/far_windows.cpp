// SPDX-License-Identifier: Apache-2.0
#include "transports/net/far_windows.h"

#include <algorithm>
#include <cstring>

#include "src/links/remote_memory.h"
#include "src/proto/memory.h"

namespace rondo::net {

void FarWindows::expose(uint64_t number, std::span<std::byte> buffer) {
  const std::lock_guard lock(mutex_);
  buffers_[number] = buffer;
}

void FarWindows::withdraw(uint64_t number) {
  const std::lock_guard lock(mutex_);
  buffers_.erase(number);
}

void FarWindows::close() {
  const std::lock_guard lock(mutex_);
  buffers_.clear();
  closed_ = true;
}

/// Fails the communicator and takes nothing more. The slot stays, so the sender waits until it learns of the failure.
bool FarWindows::refuse(uint32_t peer, rondo_status_t status, const std::string &message) {
  raise_(peer, status, message);
  buffers_.clear();
  closed_ = true;
  return false;
}

bool FarWindows::take(uint32_t peer, std::span<const std::byte> slot) {
  const std::lock_guard lock(mutex_);
  if (closed_) return false;
  PutFrame frame;
  if (slot.size() < sizeof frame) return refuse(peer, RONDO_ERROR_INTERNAL, "has sent a put without a frame");
  std::memcpy(&frame, slot.data(), sizeof frame);
  const std::span<const std::byte> data = slot.subspan(sizeof frame);
  if (!data.empty()) {
    const auto what = [&] {
      return "has put " + std::to_string(data.size()) + " bytes at offset " + std::to_string(frame.offset) +
             " of window " + std::to_string(frame.window);
    };
    const auto found = buffers_.find(frame.window);
    if (found == buffers_.end())
      return refuse(peer, RONDO_ERROR_SYSTEM,
                    what() + ", which has ended here; let all puts be complete before rondo_window_deregister");
    const std::span<std::byte> buffer = found->second;
    if (frame.offset > buffer.size() || data.size() > buffer.size() - frame.offset)
      return refuse(peer, RONDO_ERROR_INTERNAL,
                    what() + ", which has " + std::to_string(buffer.size()) + " bytes here");
    std::memcpy(buffer.data() + frame.offset, data.data(), data.size());
  }
  if (frame.signal >= signal_count) return true;
  uint64_t &signal = signals_[peer][frame.signal];
  memory::store_sync(signal, std::max(signal, frame.total));  // pairs with load_flag() in HostOneSided::wait()
  return true;
}

}  // namespace rondo::net
