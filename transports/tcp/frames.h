// SPDX-License-Identifier: Apache-2.0
// This file defines frames, the units that a socket between hosts carries. A SendQueue holds frames that wait to be
// sent. Only transports/tcp includes this header.
#pragma once

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "src/bootstrap/wire.h"

namespace rondo::tcp {

static_assert(std::endian::native == std::endian::little, "frames hold the host's own byte order");

enum class FrameKind : uint16_t { slot = 0x5253, credit = 0x5243 };

struct FrameHeader {
  uint16_t kind = 0;
  uint16_t channel = 0;
  uint32_t signature = 0;
  uint32_t bytes = 0;  ///< size of the payload that follows
  uint32_t reserved = 0;
  uint64_t counter = 0;
  uint64_t consumed = 0;
};
static_assert(sizeof(FrameHeader) == 32);

/// Returns the header's bytes. The frame's tag covers them, and then the payload.
[[nodiscard]] inline ByteView bytes_of_header(const FrameHeader &header) {
  return {reinterpret_cast<const std::byte *>(&header), sizeof header};
}

inline constexpr size_t frames_per_send = 16;
inline constexpr size_t parts_per_send = 3 * frames_per_send;
inline constexpr size_t joined_bytes_max = 4096 + 64;  ///< up to this size, copying is cheaper than a vector of buffers

/// The frames that wait to be sent over one socket, in a ring that is allocated once.
class SendQueue {
 public:
  struct Frame {
    FrameHeader header;
    const std::byte *payload = nullptr;
    wire::FrameTag tag{};
  };
  /// Makes the queue. If `key` is given, each frame gets a tag after its payload.
  SendQueue(size_t capacity, const std::optional<wire::Key> &key) : frames_(std::bit_ceil(capacity)) {
    if (key) tagger_.emplace(*key);
  }

  [[nodiscard]] bool empty() const { return first_ == end_; }
  [[nodiscard]] bool push(const Frame &frame) {
    if (end_ - first_ == frames_.size()) return false;
    Frame &added = at(end_++);
    added = frame;
    if (tagger_) added.tag = tagger_->next(bytes_of_header(frame.header), {frame.payload, frame.header.bytes});
    return true;
  }
  /// Fills `parts` with what is to be sent next, up to frames_per_send frames. Returns the number of parts.
  [[nodiscard]] size_t fill(std::array<iovec, parts_per_send> &parts) {
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
      add(at(next).tag.data(), tag_bytes());
    }
    return count;
  }
  /// Copies all waiting bytes into one buffer. Returns their number, or 0 if they do not fit or some were sent.
  [[nodiscard]] size_t join(std::array<std::byte, joined_bytes_max> &joined) {
    size_t bytes = 0;
    if (sent_bytes_ != 0) return 0;
    for (uint64_t next = first_; next != end_; ++next) {
      const Frame &frame = at(next);
      if (bytes + size_of(frame) > joined.size()) return 0;
      const auto add = [&](const void *from, size_t count) {
        if (count != 0) std::memcpy(joined.data() + bytes, from, count);
        bytes += count;
      };
      add(&frame.header, sizeof frame.header);
      add(frame.payload, frame.header.bytes);
      add(frame.tag.data(), tag_bytes());
    }
    return bytes;
  }
  void sent(size_t bytes) {
    sent_bytes_ += bytes;
    while (first_ != end_ && sent_bytes_ >= size_of(at(first_))) sent_bytes_ -= size_of(at(first_++));
  }
  void clear() { first_ = end_; }

 private:
  [[nodiscard]] size_t tag_bytes() const { return tagger_ ? wire::tag_bytes : 0; }
  [[nodiscard]] size_t size_of(const Frame &frame) const {
    return sizeof frame.header + frame.header.bytes + tag_bytes();
  }
  [[nodiscard]] Frame &at(uint64_t index) { return frames_[index & (frames_.size() - 1)]; }

  std::vector<Frame> frames_;
  std::optional<wire::FrameTagger> tagger_;
  uint64_t first_ = 0;
  uint64_t end_ = 0;
  size_t sent_bytes_ = 0;  ///< bytes of the first frame that were sent
};

}  // namespace rondo::tcp
