// SPDX-License-Identifier: Apache-2.0
// This file runs one_shot by load_store, chooses the form of a ring, and announces exported buffers to the other ranks.
#include "src/engine/load_store.h"

#include <cassert>

#include "src/base/cpu.h"
#include "src/engine/load_store_call.h"

namespace rondo {
namespace {

constexpr uint64_t fetch_back_bytes_max = 4096;
constexpr uint64_t chunks_worth_exporting = 4;

RunOutcome fault(Fault what, uint32_t peer) { return {RunOutcome::Kind::fault, what, peer}; }

bool is_small_float(rondo_type_t type) {
  return type == RONDO_FLOAT16 || type == RONDO_BFLOAT16 || type == RONDO_FLOAT8_E4M3 || type == RONDO_FLOAT8_E5M2;
}

bool is_large_float(rondo_type_t type) { return type == RONDO_FLOAT32 || type == RONDO_FLOAT64; }

/// Returns how a ring keeps partial sums. The scaled partial sums of a mean can be subnormal, and then they round.
Partials partials_of_ring(rondo_type_t type, rondo_op_t op) {
  const bool rounds = is_small_float(type) || (op == RONDO_AVG && is_large_float(type));
  return rounds ? Partials::rounded : Partials::native;
}

/// Returns whether the reduction is as fast as memory. Conversions of 8-bit floats and integer divisions are not.
bool reduces_cheaply(rondo_type_t type, rondo_op_t op) {
  if (type == RONDO_FLOAT8_E4M3 || type == RONDO_FLOAT8_E5M2) return false;
  return op != RONDO_AVG || is_small_float(type) || is_large_float(type);
}

}  // namespace

RunOutcome ExchangeEnd::run(const Plan &plan, const Buffers &buffers, const HostReducer &reducer, Waiter &waiter,
                            const OperandScaler *scaler) {
  return LoadStoreCall(*this, plan, buffers, reducer, waiter, scaler).run(plan.choice.algorithm);
}

// The forms that need operands_ and results_ set them.
LoadStoreCall::LoadStoreCall(ExchangeEnd &end, const Plan &plan, const Buffers &buffers, const HostReducer &reducer,
                             Waiter &waiter, const OperandScaler *scaler)
    : end_(end),
      buffers_(buffers),
      reducer_(reducer),
      waiter_(waiter),
      scaler_(scaler),
      tiles_(plan.lanes.front().program.partition),
      count_(plan.key.signature.count),
      element_bytes_(plan.lanes.front().program.element_bytes),
      small_floats_(is_small_float(static_cast<rondo_type_t>(plan.key.signature.type))),
      ring_partials_(partials_of_ring(static_cast<rondo_type_t>(plan.key.signature.type),
                                      static_cast<rondo_op_t>(plan.key.signature.op))),
      cheap_(reduces_cheaply(static_cast<rondo_type_t>(plan.key.signature.type),
                             static_cast<rondo_op_t>(plan.key.signature.op))),
      chunks_(tiles_, count_, rank_count()) {}

RunOutcome LoadStoreCall::run(rondo_algorithm_t algorithm) {
  if (algorithm == RONDO_ALGORITHM_ONE_SHOT) return run_one_shot();
  if (count_ == 0) return {};
  return algorithm == RONDO_ALGORITHM_TWO_SHOT ? run_two_shot() : run_ring();
}

void LoadStoreCall::publish(uint64_t &word, uint64_t value) const {
  if (end_.trace_ != nullptr) end_.trace_->published(word, value);
  if (!end_.wake_) return memory::store_release(word, value);  // P2, C2, R2, G2, H2; pairs with W2, R1, G1, H1
  memory::store_sync(word, value);                             // sync, because a peer may sleep
  for (uint32_t peer = 0; peer < rank_count(); ++peer)
    if (peer != end_.rank_) end_.peers_->wake(peer);
}

RunOutcome LoadStoreCall::run_one_shot() {
  const ExchangeView &view = end_.view_;
  const uint32_t rank = end_.rank_;
  const uint64_t number = ++end_.posts_;
  assert(bytes() <= view.geometry.post_bytes);
  const uint64_t flag = post_flag(number, buffers_.signature);
  const std::byte *own = buffers_.send.data;  // not the payload, whose lines the peers are taking
  if (scaler_ != nullptr) own = scaled(buffers_.recv.data, own, bytes());
  copy(view.post_payload(rank, number, bytes()), own, bytes());  // P1
  publish(view.post(rank, number).flag, flag);                   // P2

  operands_[rank] = own;
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    if (peer == rank) continue;
    operands_[peer] = view.post_payload(peer, number, bytes());
    const uint64_t &word = view.post(peer, number).flag;
    uint64_t seen = 0;
    const bool arrived = wait_until([&] {
      seen = memory::load_sync(word);  // W2, pairs with P2 in publish()
      return is_post(seen, number);
    });
    if (!arrived) return stopped;
    if (seen != flag) return fault(Fault::foreign_slot, peer);
    note_waited(word, seen);
  }
  fetch_back(number + 1, bytes());
  std::byte *const outputs[] = {buffers_.recv.data};
  if (count_ != 0) reduce(reducer_, std::span(operands_).first(rank_count()), outputs, count_);  // W1
  return {};
}

/// Requests the cache lines of post `number`, the next one, while no peer waits for this rank. Peers have read post
/// number - 2 in these lines, so their caches hold the lines. Afterwards a post of that size can be written at once.
void LoadStoreCall::fetch_back(uint64_t number, uint64_t bytes) const {
  prefetch_for_write(&end_.view_.post(end_.rank_, number));
  const std::byte *const payload = end_.view_.post_payload(end_.rank_, number, bytes);
  const uint64_t most = std::min(bytes, fetch_back_bytes_max);
  for (uint64_t offset = 0; offset < most; offset += cache_line_bytes) prefetch_for_write(payload + offset);
}

RunOutcome LoadStoreCall::run_ring() {
  is_ring_ = true;
  announce();
  publish(own_place().contributed.value, end_.chunks_ + 1);  // publishes the announcement, and no chunk
  if (const RunOutcome met = wait_for_announcements(); !done(met)) return met;
  switch (choose_ring_form()) {
    case RingForm::exported_parts:
      return run_exported_parts();
    case RingForm::exported_whole:
      return run_exported_whole();
    case RingForm::accumulators:
      break;
  }
  return run_accumulators();
}

/// Chooses the form of a ring. All ranks have seen the same announcements, so all choose the same form.
LoadStoreCall::RingForm LoadStoreCall::choose_ring_form() const {
  if (!all_export_) return RingForm::accumulators;
  const bool whole = rank_count() == 2 && all_apart_ && cheap_ && !end_.wake_ && !outgrows_caches();
  return whole ? RingForm::exported_whole : RingForm::exported_parts;
}

bool LoadStoreCall::can_export(const Window &window) const {
  if (!window.handle.exported || !worth_exporting()) return false;
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    if (peer == end_.rank_) continue;
    const auto accepted = end_.readable_kinds_[peer] & ~kind_bit(PayloadKind::process);  // a copy is faster than that
    if (window.handle.choose(accepted, window.data, bytes()) == PayloadKind::in_slot) return false;
  }
  return true;
}

/// Returns whether exporting the buffers pays. When a rank writes an exported recv buffer, it must fetch cache lines
/// from the peers that read the last result there. In the exchange, it fetches few lines or none. In place, the caller
/// has fetched the lines when it wrote its input. Two ranks of a ring do not read each other's recv, unless the other
/// rank works in place (RingForm::exported_whole). Ranks that share cores share caches, too, so the lines stay.
bool LoadStoreCall::worth_exporting() const {
  if (end_.wake_ || !apart() || (is_ring_ && rank_count() == 2 && cheap_)) return true;
  return bytes() >= chunks_worth_exporting * end_.view_.geometry.chunk_bytes;
}

void LoadStoreCall::announce() {
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

const std::byte *LoadStoreCall::open(uint32_t peer, const ExportedBuffer &buffer) const {
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
RunOutcome LoadStoreCall::wait_for_announcements() {
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
