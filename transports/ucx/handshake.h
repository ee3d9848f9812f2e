// SPDX-License-Identifier: Apache-2.0
// How the ranks of several hosts meet over UCX, and what their messages look like.
//
// Offer    challenge 32 | slots in memory of a device u8: 1 if so | worker's address     through the job's store
// PeerProof    rank u32 | proof 32     the header of the first message to each peer, whose payload is a slot of no
//              meaning, from where slots are to where they are: what does not pass is noticed before it is used
// Slot     Header 40 | payload;    a credit is a header alone
// Of each pair the rank with the higher number is the client; proofs and tags are made as the store's handshake makes
// them (src/bootstrap/wire.h), from a secret of the communicator and both challenges. UCX does not say from whom a
// message is: its tag does, which only the two of them can know. Numbers are in the byte order of the host, which is
// little-endian.
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
  uint32_t rank = 0;  ///< of the sender
  uint16_t kind = 0;
  uint16_t channel = 0;
  uint32_t signature = 0;
  uint32_t bytes = 0;
  uint64_t counter = 0;
  uint64_t consumed = 0;
};
static_assert(sizeof(Header) == 40);

using net::JoinRequest;

/// What is known of a peer before the first message.
struct Introduction {
  uint32_t rank = 0;
  Bytes address;
  bool in_device = false;   ///< slots of its links are in memory of its device
  wire::Proof own_proof{};  ///< for the hello that is sent
  wire::Proof proof{};      ///< of the hello that is to come
  uint64_t own_tag = 0;
  uint64_t tag = 0;
};

/// From both sides' challenges.
[[nodiscard]] Introduction introduce(const Secret &secret, uint32_t rank, const wire::Challenge &own, uint32_t peer,
                                     const wire::Challenge &theirs);

/// Every rank calls it, those as well that cannot use UCX: `address` is then the reason. `in_device`: as in
/// Introduction. One introduction for each linked rank; or on all ranks alike the reason of the first rank that cannot,
/// with its name.
[[nodiscard]] Result<std::vector<Introduction>> exchange_addresses(const JoinRequest &request,
                                                                   const Result<Bytes> &address, bool in_device,
                                                                   Store &store);

}  // namespace rondo::ucx
