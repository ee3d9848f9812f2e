// SPDX-License-Identifier: Apache-2.0
// This file computes the tags of large frames. It is compiled for speed, whereas wire.cpp is compiled for size.
#include "src/bootstrap/wire.h"

#include <sodium.h>

#include <cstring>

namespace rondo::wire {

FrameTagger::~FrameTagger() { sodium_memzero(key_.data(), key_.size()); }

FrameTag FrameTagger::next(ByteView header, ByteView payload) {
  std::array<unsigned char, crypto_stream_chacha20_ietf_NONCEBYTES> nonce{};
  std::memcpy(nonce.data(), &number_, sizeof number_);
  ++number_;
  std::array<unsigned char, crypto_onetimeauth_KEYBYTES> key;
  crypto_stream_chacha20_ietf(key.data(), key.size(), nonce.data(), raw(key_.data()));
  crypto_onetimeauth_state state;
  crypto_onetimeauth_init(&state, key.data());
  crypto_onetimeauth_update(&state, raw(header.data()), header.size());
  if (!payload.empty()) crypto_onetimeauth_update(&state, raw(payload.data()), payload.size());
  FrameTag tag;
  crypto_onetimeauth_final(&state, raw(tag.data()));
  return tag;
}

bool equal_tags(const FrameTag &left, const FrameTag &right) {
  return sodium_memcmp(left.data(), right.data(), left.size()) == 0;
}

}  // namespace rondo::wire
