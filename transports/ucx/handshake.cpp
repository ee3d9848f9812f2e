// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/handshake.h"

#include <algorithm>
#include <bit>

#include "src/bootstrap/store/store.h"

namespace rondo::ucx {
namespace {

static_assert(std::endian::native == std::endian::little, "messages hold the host's own byte order");

uint64_t tag_of(const wire::Key &key) { return number_at<uint64_t>(key.data()); }

}  // namespace

Introduction introduce(const Secret &secret, uint32_t rank, const wire::Challenge &own, uint32_t peer,
                       const wire::Challenge &theirs) {
  const bool client = rank > peer;
  const wire::Role role = client ? wire::Role::client : wire::Role::server;
  const wire::Role other = client ? wire::Role::server : wire::Role::client;
  const wire::Challenge &of_client = client ? own : theirs;
  const wire::Challenge &of_server = client ? theirs : own;
  Introduction introduction;
  introduction.rank = peer;
  introduction.own_proof = wire::prove(secret, role, of_client, of_server);
  introduction.proof = wire::prove(secret, other, of_client, of_server);
  introduction.own_tag = tag_of(wire::frame_key(secret, role, of_client, of_server));
  introduction.tag = tag_of(wire::frame_key(secret, other, of_client, of_server));
  return introduction;
}

Result<std::vector<Introduction>> exchange_addresses(const JoinRequest &request, const Result<Bytes> &address,
                                                     bool in_device, Store &store) {
  const wire::Challenge own = wire::random_challenge();
  Result<Bytes> offer = address;
  if (offer.ok()) {
    Bytes head(own.begin(), own.end());
    append_number(head, static_cast<uint8_t>(in_device ? 1 : 0));
    offer.value().insert(offer.value().begin(), head.begin(), head.end());
  }
  RONDO_TRY_ASSIGN(const auto offers,
                   gather_outcomes(store, request.key_prefix + "/ucx", request.rank, request.rank_count, offer,
                                   request.deadline_ns, request.names));
  std::vector<Introduction> introductions;
  for (uint32_t peer = 0; peer < request.rank_count; ++peer) {
    if (!request.linked[peer]) continue;
    ByteReader reader(offers[peer]);
    wire::Challenge theirs{};
    const ByteView challenge = reader.bytes(theirs.size());
    const bool has_device_slots = reader.number<uint8_t>() != 0;
    if (reader.failed()) return Error{RONDO_ERROR_MISMATCH, "ranks run different versions of Rondo"};
    std::copy(challenge.begin(), challenge.end(), theirs.begin());
    introductions.push_back(introduce(request.secret, request.rank, own, peer, theirs));
    introductions.back().in_device = has_device_slots;
    const ByteView rest = reader.rest();
    introductions.back().address.assign(rest.begin(), rest.end());
  }
  return introductions;
}

}  // namespace rondo::ucx
