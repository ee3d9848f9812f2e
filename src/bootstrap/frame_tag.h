// SPDX-License-Identifier: Apache-2.0
// Tags of large frames of one direction of one connection, whose header and payload lie apart (RONDO_FRAME_TAGS). A
// frame that was changed, left out, repeated or reordered on its way has a wrong tag. Faster than the tags of wire.h,
// which are for the store's small messages.
//
// tag = Poly1305 over header | payload, with a key for this frame alone: the first 32 bytes of ChaCha20 with the
//       direction's key (wire.h, frame_key()) and the frame's number as its nonce. RFC 8439, section 2.6.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "src/bootstrap/bytes.h"
#include "src/bootstrap/wire.h"

namespace rondo::wire {

using FrameTag = std::array<std::byte, tag_bytes>;

class FrameTagger {
 public:
  explicit FrameTagger(const Key &key) : key_(key) {}
  FrameTagger(const FrameTagger &) = default;
  FrameTagger &operator=(const FrameTagger &) = default;
  ~FrameTagger();

  /// Returns the tag of the next frame.
  [[nodiscard]] FrameTag next(ByteView header, ByteView payload);

 private:
  Key key_;
  uint64_t number_ = 0;
};

/// Compares in constant time.
[[nodiscard]] bool equal_tags(const FrameTag &left, const FrameTag &right);

}  // namespace rondo::wire
