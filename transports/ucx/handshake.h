// SPDX-License-Identifier: Apache-2.0
// This file defines how the ranks of several hosts connect over UCX, and the format of their messages.
//
// Offer    challenge 32 | u8: 1 if slots are in memory of a device | worker's address. The job's store passes it on.
// PeerProof    rank u32 | proof 32: the header of the hello, the first message to each peer. The payload of
//              the hello is the content of an unused slot. So a failure to transfer slots is noticed before use.
// Slot     Header 40 | payload;    a credit is a header alone
// In each pair the rank with the higher number is the client. Proofs and tags are made from a secret of the
// communicator and both challenges, as in the store's handshake (src/bootstrap/wire.h). UCX does not report the sender
// of a message. The message's tag identifies the sender, because only the two ranks know it. Numbers are in the byte
// order of the host, which is little-endian.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "src/bootstrap/wire.h"
#include "transports/net/join.h"

namespace rondo::ucx {

inline constexpr unsigned hello_id = 0;
inline constexpr unsigned slot_id = 1;

enum class MessageKind : uint16_t { slot = 0x5253, credit = 0x5243 };

struct PeerProof {
  uint32_t rank = 0;
  wire::Proof proof{};
};
static_assert(sizeof(PeerProof) == 36);

struct Header {
  uint64_t tag = 0;
  uint32_t rank = 0;  ///< rank of the sender
  uint16_t kind = 0;
  uint16_t channel = 0;
  uint32_t signature = 0;
  uint32_t bytes = 0;
  uint64_t counter = 0;
  uint64_t consumed = 0;
};
static_assert(sizeof(Header) == 40);

using net::JoinRequest;

/// The facts about a peer that are known before its first message.
struct Introduction {
  uint32_t rank = 0;
  Bytes address;
  bool in_device = false;   ///< slots of its links are in memory of its device
  wire::Proof own_proof{};  ///< proof in the hello that this rank sends
  wire::Proof proof{};      ///< proof in the hello that this rank expects
  uint64_t own_tag = 0;
  uint64_t tag = 0;
};

/// Computes the introduction of a peer from both challenges.
[[nodiscard]] Introduction introduce(const Secret &secret, uint32_t rank, const wire::Challenge &own, uint32_t peer,
                                     const wire::Challenge &theirs);

/// Exchanges the addresses of all ranks, and returns an introduction for each linked rank. A rank that cannot use UCX
/// calls it, too, with the reason in `address`. Then all ranks get the reason of the first such rank, with its name.
/// `in_device` is as in Introduction.
[[nodiscard]] Result<std::vector<Introduction>> exchange_addresses(const JoinRequest &request,
                                                                   const Result<Bytes> &address, bool in_device,
                                                                   Store &store);

}  // namespace rondo::ucx
