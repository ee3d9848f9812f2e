// SPDX-License-Identifier: Apache-2.0
// This file defines the store's protocol below its messages: handshake and frames, without I/O. Numbers are
// little-endian.
//
// Handshake  client hello  = magic "RONDO\x04cl" 8 | client challenge 32                                   40 bytes
//            server hello  = magic "RONDO\x04sv" 8 | server challenge 32 | server proof 32                 72 bytes
//            client proof  = 32 bytes                                                                      32 bytes
//            proof of a role = BLAKE2b-256 keyed with the secret over
//                              "rondo store " | protocol version | role label | client challenge | server challenge
//            The sixth byte of a magic is the protocol version. Both challenges are in both proofs, and the labels
//            differ. So a proof can neither be replayed on another connection nor reflected to its sender. The server
//            proves itself first, so a client sends a stranger only a random number. A client that knows another secret
//            sends a proof of zeros instead, and closes.
// Frame      body_bytes u32 | tag 16 | body                                           at most frame_bytes_max in all
//            tag = BLAKE2b-128 keyed with the direction's key over counter u64 | body_bytes u32 | body
//            direction key = like a proof, with a label for each direction. The counter starts at 0 and is not sent.
//            So an injected, changed, repeated, omitted or reordered frame has a wrong tag, and the connection is cut.
//            Values are authenticated, not encrypted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "src/bootstrap/bytes.h"

namespace rondo::wire {

inline constexpr uint8_t protocol_version = 4;
inline constexpr size_t magic_bytes = 8;
inline constexpr size_t challenge_bytes = 32;
inline constexpr size_t proof_bytes = 32;
inline constexpr size_t client_hello_bytes = magic_bytes + challenge_bytes;
inline constexpr size_t server_hello_bytes = magic_bytes + challenge_bytes + proof_bytes;
inline constexpr size_t tag_bytes = 16;
inline constexpr size_t frame_header_bytes = 4 + tag_bytes;
inline constexpr size_t frame_bytes_max = 1u << 20;
inline constexpr size_t body_bytes_max = frame_bytes_max - frame_header_bytes;

using Challenge = std::array<std::byte, challenge_bytes>;
using Proof = std::array<std::byte, proof_bytes>;
using Key = std::array<std::byte, 32>;

enum class Role { client, server };

[[nodiscard]] Challenge random_challenge();

[[nodiscard]] std::array<std::byte, magic_bytes> magic_of(Role role, uint8_t version = protocol_version);

enum class MagicMatch {
  partial,        ///< incomplete, but a valid beginning
  equal,          ///< of this protocol version
  other_version,  ///< of another protocol version
  garbage         ///< not this protocol, known at the first wrong byte
};
[[nodiscard]] MagicMatch match_magic(ByteView received, Role role);

[[nodiscard]] Proof prove(const Secret &secret, Role role, const Challenge &client, const Challenge &server);

/// A client sends this instead of its proof if the server knows another secret.
inline constexpr Proof other_secret{};

/// Compares the two proofs in constant time.
[[nodiscard]] bool equal_proof(const Proof &expected, ByteView received);

/// Returns the key of the frames that `sender` sends on this connection.
[[nodiscard]] Key frame_key(const Secret &secret, Role sender, const Challenge &client, const Challenge &server);

/// Makes the frames of one direction.
class FrameSealer {
 public:
  explicit FrameSealer(const Key &key) : key_(key) {}
  FrameSealer(const FrameSealer &) = default;
  FrameSealer &operator=(const FrameSealer &) = default;
  ~FrameSealer();

  /// Appends the frame of `body` (at most body_bytes_max) to `out`.
  void seal(ByteView body, Bytes &out);

 private:
  Key key_;
  uint64_t counter_ = 0;
};

/// Takes frames of one direction from a stream of bytes.
class FrameOpener {
 public:
  explicit FrameOpener(const Key &key) : key_(key) {}
  FrameOpener(const FrameOpener &) = default;
  FrameOpener &operator=(const FrameOpener &) = default;
  ~FrameOpener();

  struct Opened {
    enum class State { need_more, body, forged } state = State::need_more;
    ByteView body;           ///< within `received`
    size_t frame_bytes = 0;  ///< size of the frame in `received`
  };
  /// Opens the frame at the start of `received`. After `forged`, the connection must be cut.
  [[nodiscard]] Opened open(ByteView received);

 private:
  Key key_;
  uint64_t counter_ = 0;
};

using FrameTag = std::array<std::byte, tag_bytes>;

/// Computes the tags of large frames in one direction of a connection between ranks (RONDO_FRAME_TAGS). The header and
/// the payload of such a frame are in separate memory. A frame that was changed, omitted, repeated or reordered on its
/// way has a wrong tag. Messages of the store are small, and have the slower tags of FrameSealer.
///
/// tag = Poly1305 over header | payload, with a key for this frame alone: the first 32 bytes of ChaCha20 with the
///       direction's key (frame_key()) and the frame's number as its nonce. RFC 8439, section 2.6.
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

/// Compares the two tags in constant time.
[[nodiscard]] bool equal_tags(const FrameTag &left, const FrameTag &right);

}  // namespace rondo::wire
