// SPDX-License-Identifier: Apache-2.0
// What goes over a socket between hosts: frames, and those that wait to be sent. A header of transports/tcp alone.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace rondo::tcp {

static_assert(std::endian::native == std::endian::little, "frames hold the host's own byte order");

enum class FrameKind : uint16_t { slot = 0x5253, credit = 0x5243 };

struct FrameHeader {
  uint16_t kind = 0;
  uint16_t channel = 0;
  uint32_t signature = 0;
  uint32_t bytes = 0;  ///< of the payload that follows
  uint32_t reserved = 0;
  uint64_t counter = 0;
  uint64_t consumed = 0;
};
static_assert(sizeof(FrameHeader) == 32);

inline constexpr size_t frames_per_send = 16;
inline constexpr size_t joined_bytes_max = 4096 + 64;  ///< up to it, copying is cheaper than a vector of buffers

/// Frames on their way over one socket: a ring that is allocated once.
class SendQueue {
 public:
  struct Frame {
    FrameHeader header;
    const std::byte *payload = nullptr;
    [[nodiscard]] size_t bytes() const { return sizeof header + header.bytes; }
  };
  explicit SendQueue(size_t capacity) : frames_(std::bit_ceil(capacity)) {}

  [[nodiscard]] bool empty() const { return first_ == end_; }
  [[nodiscard]] bool push(const Frame &frame) {
    if (end_ - first_ == frames_.size()) return false;
    at(end_++) = frame;
    return true;
  }
  /// What is to be sent next, up to frames_per_send frames.
  [[nodiscard]] size_t fill(std::array<iovec, 2 * frames_per_send> &parts) {
    size_t count = 0;
    size_t skip = sent_bytes_;
    const auto add = [&](const void *from, size_t bytes) {
      const size_t skipped = std::min(skip, bytes);
      skip -= skipped;
      if (bytes > skipped)
        parts[count++] = {const_cast<std::byte *>(static_cast<const std::byte *>(from)) + skipped, bytes - skipped};
    };
    for (uint64_t next = first_; next != end_ && next - first_ < frames_per_send; ++next) {
      add(&at(next).header, sizeof(FrameHeader));
      add(at(next).payload, at(next).header.bytes);
    }
    return count;
  }
  /// All that is left, where that is little enough to be copied together; else 0.
  [[nodiscard]] size_t join(std::array<std::byte, joined_bytes_max> &joined) {
    size_t bytes = 0;
    if (sent_bytes_ != 0) return 0;
    for (uint64_t next = first_; next != end_; ++next) {
      const Frame &frame = at(next);
      if (bytes + frame.bytes() > joined.size()) return 0;
      std::memcpy(joined.data() + bytes, &frame.header, sizeof frame.header);
      if (frame.header.bytes != 0)
        std::memcpy(joined.data() + bytes + sizeof frame.header, frame.payload, frame.header.bytes);
      bytes += frame.bytes();
    }
    return bytes;
  }
  void sent(size_t bytes) {
    sent_bytes_ += bytes;
    while (first_ != end_ && sent_bytes_ >= at(first_).bytes()) sent_bytes_ -= at(first_++).bytes();
  }
  void clear() { first_ = end_; }

 private:
  [[nodiscard]] Frame &at(uint64_t index) { return frames_[index & (frames_.size() - 1)]; }

  std::vector<Frame> frames_;
  uint64_t first_ = 0;
  uint64_t end_ = 0;
  size_t sent_bytes_ = 0;  ///< of the first frame
};

}  // namespace rondo::tcp
