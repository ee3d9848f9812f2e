// SPDX-License-Identifier: Apache-2.0
// This file runs two_shot by load_store: a rank reads the part that it reduces from the places where the other ranks
// wrote it. It also announces exported buffers to the other ranks.
#include "src/engine/load_store_call.h"

namespace rondo {

RunOutcome TwoShotCall::run() {
  if (const RunOutcome settled = settle_ring(); !done(settled)) return settled;
  announce();
  contribute(0);
  for (uint64_t step = 1; step < chunks_.count() + 2; ++step) {
    if (waiter_.stopped()) return stopped;  // a rank that never waits notices a failure only here
    if (step == 1 && exports_send_ && exports_recv_) {  // now, because the next chunk may become larger
      if (const RunOutcome met = wait_for_announcements(); !done(met)) return met;
      if (all_export_) chunks_.enlarge(load_store::Chunks::exported_factor(end_.wake_));
    }
    if (step < chunks_.count()) contribute(step);
    if (step == 1 && !(exports_send_ && exports_recv_)) {
      if (const RunOutcome met = wait_for_announcements(); !done(met)) return met;
    }
    if (step - 1 < chunks_.count()) {
      if (const RunOutcome reduced = reduce_part(step - 1); !done(reduced)) return reduced;
    }
    if (step >= 2) {
      if (const RunOutcome gathered = gather(step - 2); !done(gathered)) return gathered;
    }
  }
  return finish_gathering();
}

/// Waits until no peer can still read an exported buffer of this rank. gather() has already waited for the readers of
/// `send`. A call without gather() exports both buffers (RingCall::run_exported_whole()): here, it waits for the
/// readers of `recv`, which have also finished with `send`.
RunOutcome TwoShotCall::finish_gathering() const {
  end_.chunks_ += chunks_.count();
  publish(own_place().gathered.value, end_.chunks_);  // G2
  if (!exports_recv_) return {};
  return wait_for_gathered(end_.chunks_);
}

/// Does step C: copies the parts of this chunk that other ranks reduce, from `send` to this rank's contribution. If
/// `send` is exported, it copies nothing.
void TwoShotCall::contribute(uint64_t chunk) const {
  if (!exports_send_) {
    const Range all = chunks_.range(chunk), own = chunks_.part(chunk, end_.rank_);
    std::byte *const to = end_.view_.contribution(end_.rank_, end_.chunks_ + chunk);
    const std::byte *const from = buffers_.send.data + all.begin * element_bytes_;
    const uint64_t before = (own.begin - all.begin) * element_bytes_;
    const uint64_t after = before + own.count * element_bytes_;
    copy_operands(to, from, before);
    copy_operands(to + after, from + after, all.count * element_bytes_ - after);
  }
  publish(own_place().contributed.value, end_.chunks_ + chunk + 1);  // C2
}

/// Does step R: reduces this rank's part of the chunk.
RunOutcome TwoShotCall::reduce_part(uint64_t chunk) {
  for (uint32_t offset = 1; offset < rank_count(); ++offset) {
    const uint32_t rank = rank_after(offset);
    // An exported operand was ready when its peer announced it. So if this rank also exports recv, it need not wait.
    if (operands_[rank] == nullptr || !exports_recv_)
      if (!wait_for(place(rank).contributed, end_.chunks_ + chunk + 1)) return stopped;  // R1
  }
  reduce_range(chunk, chunks_.part(chunk, end_.rank_));
  publish(own_place().reduced.value, end_.chunks_ + chunk + 1);  // R2
  return {};
}

/// Returns the operand of `rank`, beginning at `element` of the buffer.
const std::byte *TwoShotCall::operand(uint64_t chunk, uint32_t rank, uint64_t element) const {
  if (rank == end_.rank_) return buffers_.send.data + element * element_bytes_;
  if (operands_[rank] != nullptr) return operands_[rank] + element * element_bytes_;
  return end_.view_.contribution(rank, end_.chunks_ + chunk) + (element - chunks_.range(chunk).begin) * element_bytes_;
}

/// Reduces `range` of the chunk into recv. If peers cannot read recv, also writes the sums to this rank's result area.
void TwoShotCall::reduce_range(uint64_t chunk, Range range) const {
  if (range.count == 0) return;
  const uint64_t in_buffer = range.begin * element_bytes_;
  std::byte *const recv = buffers_.recv.data + in_buffer;
  std::byte *const result = end_.view_.result(end_.rank_, end_.chunks_ + chunk);
  const bool apart_from_caches = streams() && !exports_recv_;
  for_each_order(range, [&](Range piece, uint32_t first) {
    std::array<const std::byte *, exchange_rank_count_max> operands;
    for (uint32_t index = 0; index < rank_count(); ++index)
      operands[index] = operand(chunk, (first + index) % rank_count(), piece.begin);
    const uint64_t in_range = (piece.begin - range.begin) * element_bytes_;
    const std::byte *&own = operands[(end_.rank_ + rank_count() - first) % rank_count()];
    if (scaler_ != nullptr)  // into the sum's own memory, which is then in the cache
      own = scaled((apart_from_caches ? result : recv) + in_range, own, piece.count * element_bytes_);
    std::byte *const outputs[] = {result + in_range, recv + in_range};  // reduce() gets one of them or both
    const std::span<std::byte *const> all_outputs(outputs);
    reduce(std::span(operands).first(rank_count()),
           exports_recv_       ? all_outputs.last(1)
           : apart_from_caches ? all_outputs.first(1)
                               : all_outputs,
           piece.count, sums_past_caches_);
  });
  if (apart_from_caches) copy(recv, result, range.count * element_bytes_, true);
}

/// Does step G: copies the parts of the chunk that other ranks have reduced.
RunOutcome TwoShotCall::gather(uint64_t chunk) const {
  for (uint32_t offset = 1; offset < rank_count(); ++offset) {
    const uint32_t rank = rank_after(offset);
    const Range range = chunks_.part(chunk, rank);
    if (!wait_for(place(rank).reduced, end_.chunks_ + chunk + 1)) return stopped;  // G1
    const uint64_t in_buffer = range.begin * element_bytes_;
    const std::byte *const from =
        results_[rank] != nullptr ? results_[rank] + in_buffer : end_.view_.result(rank, end_.chunks_ + chunk);
    copy(buffers_.recv.data + in_buffer, from, range.count * element_bytes_, streams());
  }
  return {};
}

RunOutcome TwoShotCall::settle_ring() const {
  if (!end_.ring_unsettled_) return {};
  end_.ring_unsettled_ = false;
  return wait_for_gathered(end_.chunks_);
}

RunOutcome TwoShotCall::wait_for_gathered(uint64_t chunks) const {
  for (uint32_t offset = 1; offset < rank_count(); ++offset)
    if (!wait_for(place(rank_after(offset)).gathered, chunks)) return stopped;  // see G2
  return {};
}

bool TwoShotCall::can_export(const Window &window) const {
  if (!window.handle.exported || !worth_exporting()) return false;
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    if (peer == end_.rank_) continue;
    const auto accepted = end_.readable_kinds_[peer] & ~kind_bit(PayloadKind::process);  // slower than a copy
    if (window.handle.choose(accepted, window.data, bytes()) == PayloadKind::in_slot) return false;
  }
  return true;
}

/// Returns whether exporting the buffers pays. Its cost: a rank that writes an exported recv must fetch cache lines
/// from the peers that read the last result there. In the exchange, it fetches few. In three cases, this costs nothing.
/// In place, the caller has fetched the lines when it wrote its input. Two ranks of a ring out of place do not read
/// each other's recv (RingCall::run_exported_whole()). Ranks that share cores also share caches, so the lines stay.
bool TwoShotCall::worth_exporting() const {
  constexpr uint64_t chunks_worth_exporting = 4;
  if (end_.wake_ || !apart() || pays_to_export_) return true;
  return bytes() >= chunks_worth_exporting * end_.view_.geometry.chunk_bytes;
}

void TwoShotCall::announce() {
  const auto describe = [](const Window &window, bool exported) {
    ExportedBuffer buffer;
    buffer.address = reinterpret_cast<uint64_t>(window.data);
    buffer.exported = exported ? 1 : 0;
    if (window.handle.kind != PayloadKind::mapped) return buffer;
    buffer.inode = window.handle.inode;
    buffer.region = window.handle.region;
    buffer.region_offset = window.handle.region_offset + static_cast<uint64_t>(window.data - window.handle.first);
    buffer.region_bytes = window.handle.region_bytes;
    buffer.descriptor = window.handle.descriptor;
    return buffer;
  };
  exports_send_ = can_export(buffers_.send);
  exports_recv_ = can_export(buffers_.recv);
  ExchangeAnnouncement &own = own_place().announcement;
  own.fingerprint = buffers_.signature;
  own.send = describe(buffers_.send, exports_send_);
  own.recv = describe(buffers_.recv, exports_recv_);
}

const std::byte *TwoShotCall::open(uint32_t peer, const ExportedBuffer &buffer) const {
  SlotHeader header;
  const bool same_process = (end_.readable_kinds_[peer] & kind_bit(PayloadKind::address)) != 0;
  header.kind = static_cast<uint32_t>(same_process ? PayloadKind::address : PayloadKind::mapped);
  header.address = same_process ? buffer.address : buffer.region_offset;
  header.bytes = bytes();
  header.inode = buffer.inode;
  header.region = buffer.region;
  header.region_bytes = buffer.region_bytes;
  header.descriptor = buffer.descriptor;
  return end_.peers_->import_payload(peer, header, nullptr);
}

/// Waits for every rank's announcement, and opens the buffers that the ranks export.
RunOutcome TwoShotCall::wait_for_announcements() {
  all_export_ = exports_send_ && exports_recv_;
  all_apart_ = apart();
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    operands_[peer] = results_[peer] = nullptr;
    if (peer == end_.rank_) continue;
    if (!wait_for(place(peer).contributed, end_.chunks_ + 1)) return stopped;  // R1
    const ExchangeAnnouncement &theirs = place(peer).announcement;
    if (theirs.fingerprint != buffers_.signature) return fault(Fault::foreign_slot, peer);
    if (theirs.send.exported != 0) operands_[peer] = open(peer, theirs.send);
    if (theirs.recv.exported != 0) results_[peer] = open(peer, theirs.recv);
    all_export_ &= theirs.send.exported != 0 && theirs.recv.exported != 0;
    all_apart_ &= theirs.send.address != theirs.recv.address;
    const bool unreadable = (theirs.send.exported != 0 && operands_[peer] == nullptr) ||
                            (theirs.recv.exported != 0 && results_[peer] == nullptr);
    if (unreadable) return fault(Fault::unreadable, peer);
  }
  return {};
}

}  // namespace rondo
