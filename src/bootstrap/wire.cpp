// SPDX-License-Identifier: Apache-2.0
// This file implements handshake proofs and authenticated frames with libsodium's keyed BLAKE2b.
#include "src/bootstrap/wire.h"

#include <sodium.h>

#include <algorithm>
#include <cassert>

namespace rondo {

Secret random_secret() {
  Secret secret;
  [[maybe_unused]] const int state = sodium_init();  // any thread may repeat this call; randombytes_buf cannot fail
  randombytes_buf(secret.bytes.data(), secret.bytes.size());
  return secret;
}

namespace wire {
namespace {

/// Returns a keyed hash of the label and both challenges. It cannot be mistaken for the tag of a frame, because frames
/// have other keys.
std::array<std::byte, 32> derive(const Secret &secret, std::string_view label, const Challenge &client,
                                 const Challenge &server) {
  Bytes input;
  append_bytes(input, bytes_of("rondo store "));
  append_number(input, protocol_version);
  append_number(input, static_cast<uint8_t>(label.size()));
  append_bytes(input, bytes_of(label));
  append_bytes(input, client);
  append_bytes(input, server);
  std::array<std::byte, 32> out;
  crypto_generichash(raw(out.data()), out.size(), raw(input.data()), input.size(), raw(secret.bytes.data()),
                     secret.bytes.size());
  return out;
}

using Tag = std::array<std::byte, tag_bytes>;

Tag tag_of(const Key &key, uint64_t counter, ByteView body) {
  Bytes prefix;
  append_number(prefix, counter);
  append_number(prefix, static_cast<uint32_t>(body.size()));
  crypto_generichash_state state;
  crypto_generichash_init(&state, raw(key.data()), key.size(), tag_bytes);
  crypto_generichash_update(&state, raw(prefix.data()), prefix.size());
  crypto_generichash_update(&state, raw(body.data()), body.size());
  Tag tag;
  crypto_generichash_final(&state, raw(tag.data()), tag.size());
  return tag;
}

}  // namespace

Challenge random_challenge() {
  Challenge challenge;
  [[maybe_unused]] const int state = sodium_init();
  randombytes_buf(challenge.data(), challenge.size());
  return challenge;
}

std::array<std::byte, magic_bytes> magic_of(Role role, uint8_t version) {
  std::array<std::byte, magic_bytes> magic;
  const std::string_view text = role == Role::client ? "RONDO?cl" : "RONDO?sv";
  std::ranges::copy(bytes_of(text), magic.begin());
  magic[5] = std::byte{version};
  return magic;
}

MagicMatch match_magic(ByteView received, Role role) {
  const auto expected = magic_of(role);
  const size_t count = std::min(received.size(), magic_bytes);
  bool other_version = false;
  for (size_t at = 0; at < count; ++at) {
    if (received[at] == expected[at]) continue;
    if (at != 5) return MagicMatch::garbage;
    other_version = true;
  }
  if (count < magic_bytes) return MagicMatch::partial;
  return other_version ? MagicMatch::other_version : MagicMatch::equal;
}

Proof prove(const Secret &secret, Role role, const Challenge &client, const Challenge &server) {
  return derive(secret, role == Role::client ? "proof of the client" : "proof of the server", client, server);
}

bool equal_proof(const Proof &expected, ByteView received) {
  return received.size() == expected.size() && sodium_memcmp(expected.data(), received.data(), expected.size()) == 0;
}

Key frame_key(const Secret &secret, Role sender, const Challenge &client, const Challenge &server) {
  return derive(secret, sender == Role::client ? "frames of the client" : "frames of the server", client, server);
}

FrameSealer::~FrameSealer() { sodium_memzero(key_.data(), key_.size()); }
FrameOpener::~FrameOpener() { sodium_memzero(key_.data(), key_.size()); }

void FrameSealer::seal(ByteView body, Bytes &out) {
  assert(body.size() <= body_bytes_max);
  const Tag tag = tag_of(key_, counter_++, body);
  append_number(out, static_cast<uint32_t>(body.size()));
  append_bytes(out, tag);
  append_bytes(out, body);
}

FrameOpener::Opened FrameOpener::open(ByteView received) {
  using State = Opened::State;
  if (received.size() < 4) return {};
  const size_t body_bytes = number_at<uint32_t>(received.data());
  if (body_bytes > body_bytes_max) return {State::forged, {}, 0};
  if (received.size() < frame_header_bytes + body_bytes) return {};
  const ByteView body = received.subspan(frame_header_bytes, body_bytes);
  const Tag tag = tag_of(key_, counter_, body);
  if (sodium_memcmp(tag.data(), received.data() + 4, tag_bytes) != 0) return {State::forged, {}, 0};
  ++counter_;
  return {State::body, body, frame_header_bytes + body_bytes};
}

}  // namespace wire
}  // namespace rondo
