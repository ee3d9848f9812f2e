// SPDX-License-Identifier: Apache-2.0
// This file delays stores in the exchange (src/proto/exchange.h), to test the order of its accesses. Each rank has its
// own exchange. There, another rank's areas appear first, and only then its flags and counters.
#include <algorithm>
#include <cstring>

#include "src/base/names.h"
#include "src/proto/memory.h"
#include "tests/sim/wire.h"

namespace rondo::sim {
namespace {

constexpr PaddedCounter ExchangePlace::*counters[] = {&ExchangePlace::contributed, &ExchangePlace::reduced,
                                                      &ExchangePlace::gathered, &ExchangePlace::hops_done};

uint64_t bytes_of(const OperationInfo &what) {
  return what.signature.count * rondo_type_size(static_cast<rondo_type_t>(what.signature.type));
}

}  // namespace

ExchangeView Wire::exchange_end(uint32_t rank, const ExchangeGeometry &geometry) {
  for (std::unique_ptr<Own> &own : exchanges_) {
    if (own != nullptr) continue;
    own = std::make_unique<Own>();
    own->view = {allocate(own->memory, geometry.bytes()), geometry};
    own->last_ns.resize(geometry.rank_count);
  }
  return exchanges_[rank]->view;
}

void Wire::enter(uint32_t rank, const OperationInfo &what) {
  if (exchanges_[rank] != nullptr) exchanges_[rank]->what = what;
}

/// Returns the data that the rank has stored before its new flags and counters.
std::vector<Wire::Piece> Wire::new_pieces(const Own &own, uint32_t rank) {
  const ExchangeView &view = own.view;
  const ExchangePlace &now = view.place(rank);
  const uint32_t all = view.geometry.rank_count;
  const uint64_t bytes = bytes_of(own.what);
  std::vector<Piece> pieces;
  const auto add = [&](const void *from, uint64_t most_bytes, uint32_t to) {
    const auto *const first = static_cast<const std::byte *>(from);
    pieces.push_back({static_cast<size_t>(first - view.base), {first, first + std::min(most_bytes, bytes)}, to});
  };
  for (const uint64_t area : {0, 1})
    if (now.posts[area].flag != own.sent.posts[area].flag)
      add(view.post_payload(rank, area, bytes), view.geometry.post_bytes, all);
  const auto oldest = [&](uint64_t sent, uint64_t latest) {
    return std::max(sent, latest - std::min<uint64_t>(latest, view.geometry.area_count));
  };
  const uint64_t contributed = now.contributed.value, reduced = now.reduced.value, hops_done = now.hops_done.value;
  if (contributed != own.sent.contributed.value) {
    const auto *const first = reinterpret_cast<const std::byte *>(&now.announcement);
    pieces.push_back({static_cast<size_t>(first - view.base), {first, first + sizeof(ExchangeAnnouncement)}, all});
    // A ring uses this counter only for announcements.
    if (own.what.choice.algorithm == RONDO_ALGORITHM_TWO_SHOT)
      for (uint64_t chunk = oldest(own.sent.contributed.value, contributed); chunk < contributed; ++chunk)
        add(view.contribution(rank, chunk), view.geometry.chunk_bytes, all);
  }
  for (uint64_t chunk = oldest(own.sent.reduced.value, reduced); chunk < reduced; ++chunk)
    add(view.result(rank, chunk), view.geometry.result_bytes(), all);
  // An accumulator is sent to the next rank, and a sum to all. Only chunks of a ring have hops.
  if (hops_done != own.sent.hops_done.value)
    for (uint64_t hops = std::max(own.sent.hops_done.value, (contributed - 1) * all); hops < hops_done; ++hops) {
      const uint64_t chunk = hops / all;
      const auto hop = static_cast<uint32_t>(hops % all);
      const uint32_t owner = (rank + 2 * all - 1 - hop) % all;
      add(view.accumulator(owner, chunk), view.geometry.chunk_bytes, hop + 1 == all ? all : (rank + 1) % all);
    }
  return pieces;
}

void Wire::carry_exchange(uint32_t rank) {
  Own &own = *exchanges_[rank];
  const ExchangePlace &now = own.view.place(rank);
  bool fresh = now.posts[0].flag != own.sent.posts[0].flag || now.posts[1].flag != own.sent.posts[1].flag;
  for (const auto counter : counters) fresh |= (now.*counter).value != (own.sent.*counter).value;
  if (!fresh) return;
  const auto pieces = std::make_shared<const std::vector<Piece>>(new_pieces(own, rank));
  own.sent = now;
  for (uint32_t to = 0; to < exchanges_.size(); ++to) {
    if (to == rank) continue;
    const ExchangeView &far = exchanges_[to]->view;
    const auto store_pieces = [far, pieces, to] {
      for (const Piece &piece : *pieces)
        if (piece.to == to || piece.to == far.geometry.rank_count)
          std::copy(piece.bytes.begin(), piece.bytes.end(), far.base + piece.offset);
    };
    const auto store_words = [far, rank, sent = own.sent] {
      ExchangePlace &place = far.place(rank);
      for (const size_t area : {0, 1}) memory::store_release(place.posts[area].flag, sent.posts[area].flag);
      for (const auto counter : counters) memory::store_release((place.*counter).value, (sent.*counter).value);
    };
    const bool early = defect_ == Defect::early_counter;
    if (early) deliver(own.last_ns[to], to, store_words);
    deliver(own.last_ns[to], to, store_pieces);
    if (!early) deliver(own.last_ns[to], to, store_words);
  }
}

}  // namespace rondo::sim
