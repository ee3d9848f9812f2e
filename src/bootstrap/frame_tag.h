// SPDX-License-Identifier: Apache-2.0
// This file computes the tags of large frames in one direction of a connection (RONDO_FRAME_TAGS). The header and
// payload of such a frame are in separate memory. A frame that was changed, omitted, repeated or reordered on its way
// has a wrong tag. These tags are faster than the tags of wire.h, which are for small messages of the store.
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
