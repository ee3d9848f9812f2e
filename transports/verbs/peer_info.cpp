// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/peer_info.h"

#include <algorithm>

#include "src/base/clock.h"

namespace rondo::verbs {
namespace {

constexpr uint64_t farewell_ns = 2'000'000'000;
constexpr size_t pairs_max = 65'536;

Bytes with_outcome(const Error &error) {
  Bytes bytes{std::byte{1}};
  append_number(bytes, static_cast<uint32_t>(error.status));
  append_bytes(bytes, bytes_of(error.message));
  return bytes;
}

/// The first rank's reason for which it cannot go on, if there is one. Every rank sees the same.
Result<void> find_refusal(const JoinRequest &request, const std::string &key, const std::vector<Bytes> &parts,
                          Store &store) {
  for (uint32_t peer = 0; peer < request.rank_count; ++peer) {
    ByteReader reader(parts[peer]);
    if (reader.number<uint8_t>() == 0) continue;
    const auto status = static_cast<rondo_status_t>(reader.number<uint32_t>());
    Error error{status, text_of(reader.rest())};
    if (!error.message.starts_with(request.names[peer])) error.message = request.names[peer] + ": " + error.message;
    error.peer = static_cast<int32_t>(peer);
    // The rank that runs the store must not leave before all have the reason.
    static_cast<void>(store.gather(key + "/refused", request.rank, request.rank_count, {},
                                   std::min(request.deadline_ns, now_ns() + farewell_ns)));
    return error;
  }
  return {};
}

}  // namespace

Bytes encode(const HostInfo &offer) {
  Bytes out{std::byte{0}};
  append_number(out, static_cast<uint8_t>(offer.kind));
  append_number(out, offer.mtu_bytes);
  append_number(out, offer.lid);
  append_bytes(out, std::as_bytes(std::span(offer.gid)));
  append_number(out, static_cast<uint16_t>(offer.description.size()));
  append_bytes(out, bytes_of(offer.description));
  append_number(out, static_cast<uint32_t>(offer.pairs.size()));
  for (const QueuePairInfo &pair : offer.pairs) {
    append_number(out, pair.rank);
    append_number(out, pair.queue_pair);
    append_number(out, pair.first_packet);
    append_number(out, static_cast<uint16_t>(pair.links.size()));
    for (const LinkTarget &link : pair.links) {
      append_number(out, link.slots_address);
      append_number(out, link.slots_key);
      append_number(out, link.cells_address);
      append_number(out, link.cells_key);
    }
  }
  return out;
}

std::optional<HostInfo> decode(ByteReader reader) {
  HostInfo offer;
  if (reader.number<uint8_t>() != 0) return std::nullopt;
  offer.kind = static_cast<GidKind>(reader.number<uint8_t>());
  offer.mtu_bytes = reader.number<uint32_t>();
  offer.lid = reader.number<uint16_t>();
  const ByteView gid = reader.bytes(offer.gid.size());
  std::transform(gid.begin(), gid.end(), offer.gid.begin(), [](std::byte byte) { return static_cast<uint8_t>(byte); });
  offer.description = text_of(reader.bytes(reader.number<uint16_t>()));
  const auto pair_count = reader.number<uint32_t>();
  if (pair_count > pairs_max) return std::nullopt;
  for (uint32_t index = 0; index < pair_count && !reader.failed(); ++index) {
    QueuePairInfo pair;
    pair.rank = reader.number<uint32_t>();
    pair.queue_pair = reader.number<uint32_t>();
    pair.first_packet = reader.number<uint32_t>();
    const auto link_count = reader.number<uint16_t>();
    for (uint32_t channel = 0; channel < link_count && !reader.failed(); ++channel) {
      LinkTarget link;
      link.slots_address = reader.number<uint64_t>();
      link.slots_key = reader.number<uint32_t>();
      link.cells_address = reader.number<uint64_t>();
      link.cells_key = reader.number<uint32_t>();
      pair.links.push_back(link);
    }
    offer.pairs.push_back(std::move(pair));
  }
  if (!reader.complete() || offer.kind > GidKind::roce_v2) return std::nullopt;
  return offer;
}

Result<std::vector<Introduction>> exchange_offers(const JoinRequest &request, const Result<HostInfo> &offer,
                                                  Store &store) {
  const Bytes own = offer.ok() ? encode(offer.value()) : with_outcome(offer.error());
  const std::string key = request.key_prefix + "/verbs";
  RONDO_TRY_ASSIGN(const auto parts, store.gather(key, request.rank, request.rank_count, own, request.deadline_ns));
  RONDO_TRY(find_refusal(request, key, parts, store));
  std::vector<Introduction> introductions;
  for (uint32_t peer = 0; peer < request.rank_count; ++peer) {
    if (!request.remote[peer]) continue;
    auto theirs = decode(ByteReader(parts[peer]));
    if (!theirs) return Error{RONDO_ERROR_MISMATCH, "ranks run different versions of Rondo"};
    std::erase_if(theirs->pairs, [&](const QueuePairInfo &pair) { return pair.rank != request.rank; });
    if (theirs->pairs.size() != 1) return Error{RONDO_ERROR_MISMATCH, "ranks disagree about which are on one host"};
    introductions.push_back({peer, std::move(*theirs)});
  }
  return introductions;
}

Result<void> agree(const JoinRequest &request, const char *step, const Result<void> &outcome, Store &store) {
  const Bytes own = outcome.ok() ? Bytes{std::byte{0}} : with_outcome(outcome.error());
  const std::string key = request.key_prefix + "/verbs/" + step;
  RONDO_TRY_ASSIGN(const auto parts, store.gather(key, request.rank, request.rank_count, own, request.deadline_ns));
  return find_refusal(request, key, parts, store);
}

}  // namespace rondo::verbs
