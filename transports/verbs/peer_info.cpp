// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/peer_info.h"

#include <algorithm>

#include "src/bootstrap/address.h"
#include "src/bootstrap/store/store.h"

namespace rondo::verbs {
namespace {

constexpr size_t pairs_max = 65'536;

/// Checks that all ranks have the same number of rails. Every rank gets the same result.
Result<void> check_rails(const JoinRequest &request, const std::vector<HostInfo> &offers) {
  const auto named = [&](uint32_t rank) {
    std::string text = request.names[rank] + " has " + std::to_string(offers[rank].rails.size()) + " (";
    for (const RailInfo &rail : offers[rank].rails) text += (text.ends_with("(") ? "" : ", ") + rail.description;
    return text + ")";
  };
  for (uint32_t peer = 1; peer < request.rank_count; ++peer) {
    if (offers[peer].rails.size() == offers[0].rails.size()) continue;
    Error error{RONDO_ERROR_MISMATCH, "the number of rails of verbs must be the same on all ranks, but " + named(0) +
                                          ", " + named(peer) + "; name as many devices in RONDO_IB_HCA on each"};
    error.peer = static_cast<int32_t>(peer);
    return error;
  }
  return {};
}

}  // namespace

Bytes encode(const HostInfo &offer) {
  Bytes out;
  append_number(out, static_cast<uint8_t>(offer.rails.size()));
  for (const RailInfo &rail : offer.rails) {
    append_number(out, static_cast<uint8_t>(rail.kind));
    append_number(out, rail.mtu_bytes);
    append_number(out, rail.lid);
    append_bytes(out, std::as_bytes(std::span(rail.gid)));
    append_number(out, static_cast<uint16_t>(rail.description.size()));
    append_bytes(out, bytes_of(rail.description));
  }
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
      append_number(out, link.device_address);
      append_number(out, link.device_key);
    }
  }
  return out;
}

std::optional<HostInfo> decode(ByteReader reader) {
  HostInfo offer;
  const auto rail_count = reader.number<uint8_t>();
  if (rail_count == 0 || rail_count > rails_max) return std::nullopt;
  for (uint32_t index = 0; index < rail_count && !reader.failed(); ++index) {
    RailInfo rail;
    rail.kind = static_cast<GidKind>(reader.number<uint8_t>());
    if (rail.kind > GidKind::roce_v2) return std::nullopt;
    rail.mtu_bytes = reader.number<uint32_t>();
    rail.lid = reader.number<uint16_t>();
    const ByteView gid = reader.bytes(rail.gid.size());
    std::transform(gid.begin(), gid.end(), rail.gid.begin(), [](std::byte byte) { return static_cast<uint8_t>(byte); });
    rail.description = text_of(reader.bytes(reader.number<uint16_t>()));
    offer.rails.push_back(std::move(rail));
  }
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
      link.device_address = reader.number<uint64_t>();
      link.device_key = reader.number<uint32_t>();
      pair.links.push_back(link);
    }
    offer.pairs.push_back(std::move(pair));
  }
  if (!reader.complete()) return std::nullopt;
  return offer;
}

Result<std::vector<Introduction>> exchange_offers(const JoinRequest &request, const Result<HostInfo> &offer,
                                                  Store &store) {
  const Result<Bytes> own = offer.ok() ? Result<Bytes>(encode(offer.value())) : offer.error();
  RONDO_TRY_ASSIGN(const auto parts,
                   gather_outcomes(store, request.key_prefix + "/verbs", request.rank, request.rank_count, own,
                                   request.deadline_ns, request.names));
  std::vector<HostInfo> offers;
  for (const Bytes &part : parts) {
    auto decoded = decode(ByteReader(part));
    if (!decoded) return Error{RONDO_ERROR_MISMATCH, "ranks run different versions of Rondo"};
    offers.push_back(std::move(*decoded));
  }
  RONDO_TRY(check_rails(request, offers));
  std::vector<Introduction> introductions;
  for (uint32_t peer = 0; peer < request.rank_count; ++peer) {
    if (!request.linked[peer]) continue;
    HostInfo &theirs = offers[peer];
    std::erase_if(theirs.pairs, [&](const QueuePairInfo &pair) { return pair.rank != request.rank; });
    if (theirs.pairs.size() != theirs.rails.size() * request.settings.sockets)
      return Error{RONDO_ERROR_MISMATCH, "ranks disagree about which have links to each other"};
    introductions.push_back({peer, std::move(theirs)});
  }
  return introductions;
}

Result<void> agree(const JoinRequest &request, const char *step, const Result<void> &outcome, Store &store) {
  return check_outcomes(store, request.key_prefix + "/verbs/" + step, request.rank, request.rank_count, outcome,
                        request.deadline_ns);
}

}  // namespace rondo::verbs
