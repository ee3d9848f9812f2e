// SPDX-License-Identifier: Apache-2.0
#include "src/engine/direct.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "src/base/cpu.h"
#include "src/engine/direct_job.h"
#include "src/engine/reduction/rank_order.h"

namespace rondo {
namespace {

// How many times larger chunks are where all export.
constexpr uint64_t dedicated_chunk_factor = 4;
constexpr uint64_t oversubscribed_chunk_factor = 16;
constexpr uint64_t fetch_back_bytes_max = 4096;

RunOutcome fault(Fault what, uint32_t peer) { return {RunOutcome::Kind::fault, what, peer}; }

bool rounds_every_step(rondo_type_t type) {
  return type == RONDO_FLOAT16 || type == RONDO_BFLOAT16 || type == RONDO_FLOAT8_E4M3 || type == RONDO_FLOAT8_E5M2;
}

/// Whether reducing takes no longer than memory does: conversions of 8-bit floats and integer divisions do.
bool reduces_cheaply(rondo_type_t type, rondo_op_t op) {
  if (type == RONDO_FLOAT8_E4M3 || type == RONDO_FLOAT8_E5M2) return false;
  return op != RONDO_AVG || rounds_every_step(type) || type == RONDO_FLOAT32 || type == RONDO_FLOAT64;
}

}  // namespace

using direct::stopped;
using direct::wait_until;

RunOutcome ExchangeEnd::run(const Plan &plan, const Buffers &buffers, const HostReducer &reducer, Waiter &waiter) {
  const LaneProgram &program = plan.lanes.front().program;
  const auto type = static_cast<rondo_type_t>(plan.key.signature.type);
  Job job{buffers,
          reducer,
          waiter,
          plan.key.signature.count,
          program.element_bytes,
          rank_count(),
          cache_bytes_,
          rounds_every_step(type),
          program.partition.align_elements,
          program.partition.chunk_elements};
  if (plan.choice.algorithm == RONDO_ALGORITHM_ONE_SHOT) return run_one_shot(job);
  if (job.count == 0) return {};
  if (plan.choice.algorithm == RONDO_ALGORITHM_TWO_SHOT) return run_two_shot(job);
  job.ring = &program.partition;
  job.cheap = reduces_cheaply(type, static_cast<rondo_op_t>(plan.key.signature.op));
  return run_ring(job);
}

void ExchangeEnd::publish(uint64_t &word, uint64_t value) const {
  if (!wake_) return memory::store_release(word, value);  // P2, C2, R2, G2; pairs with W1, R1, G1
  memory::store_sync(word, value);                        // the same, where a peer may sleep
  for (uint32_t peer = 0; peer < rank_count(); ++peer)
    if (peer != rank_) peers_->wake(peer);
}

RunOutcome ExchangeEnd::run_one_shot(const Job &job) {
  const uint64_t number = ++posts_;
  const uint64_t bytes = job.bytes();
  assert(bytes <= view_.geometry.post_bytes);
  std::byte *const payload = view_.post_payload(rank_, number, bytes);
  if (bytes != 0) std::memcpy(payload, job.buffers.send.data, bytes);  // P1
  publish(view_.post(rank_, number).flag, post_flag(number, job.buffers.signature));

  const uint64_t expected = post_flag(number, job.buffers.signature);
  operands_[rank_] = job.buffers.send.data;  // not the payload, whose lines the peers are taking
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    if (peer == rank_) continue;
    operands_[peer] = view_.post_payload(peer, number, bytes);
    const uint64_t &word = view_.post(peer, number).flag;
    uint64_t flag = 0;
    const bool arrived = wait_until(job.waiter, [&] {
      flag = memory::load_sync(word);  // W1, pairs with P2 in publish()
      return is_post(flag, number);
    });
    if (!arrived) return stopped;
    if (flag != expected) return fault(Fault::foreign_slot, peer);
  }
  fetch_back(number + 1, bytes);
  std::byte *const outputs[] = {job.buffers.recv.data};
  if (bytes != 0)
    reduce_in_rank_order(job.reducer, operands_, outputs, job.count, job.element_bytes, job.single_steps);  // W2
  return {};
}

/// The lines of the next post are in the peers' caches, since they read post number - 2 there. Asks for them while
/// nobody waits for it: the next post of that size can then be written without waiting for them.
void ExchangeEnd::fetch_back(uint64_t number, uint64_t bytes) const {
  prefetch_for_write(&view_.post(rank_, number));
  const std::byte *const payload = view_.post_payload(rank_, number, bytes);
  const uint64_t most = std::min(bytes, fetch_back_bytes_max);
  for (uint64_t offset = 0; offset < most; offset += cache_line_bytes) prefetch_for_write(payload + offset);
}

bool ExchangeEnd::can_lend(const Window &window, const Job &job) const {
  if (!window.handle.offered || !worth_lending(job)) return false;
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    if (peer == rank_) continue;
    const auto accepted = readable_kinds_[peer] & ~kind_bit(PayloadKind::process);  // staging is faster than that
    if (window.handle.choose(accepted, window.data, job.bytes()) == PayloadKind::in_slot) return false;
  }
  return true;
}

void ExchangeEnd::announce(const Job &job) {
  const auto describe = [&](const Window &window, bool exported) {
    LentBuffer buffer;
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
  lends_send_ = can_lend(job.buffers.send, job);
  lends_recv_ = can_lend(job.buffers.recv, job);
  ExchangeAnnouncement &own = view_.place(rank_).announcement;
  own.fingerprint = job.buffers.signature;
  own.send = describe(job.buffers.send, lends_send_);
  own.recv = describe(job.buffers.recv, lends_recv_);
}

const std::byte *ExchangeEnd::open(uint32_t peer, const LentBuffer &buffer, uint64_t bytes) const {
  SlotHeader header;
  const bool same_process = (readable_kinds_[peer] & kind_bit(PayloadKind::address)) != 0;
  header.kind = static_cast<uint32_t>(same_process ? PayloadKind::address : PayloadKind::mapped);
  header.address = same_process ? buffer.address : buffer.region_offset;
  header.bytes = bytes;
  header.inode = buffer.inode;
  header.region = buffer.region;
  header.region_bytes = buffer.region_bytes;
  header.descriptor = buffer.descriptor;
  return peers_->import_payload(peer, header, nullptr);
}

/// The lines of a recv buffer have to be taken away from the peers that read the last result there, and the exchange's
/// few lines do not, or less of them. In place the caller has paid for that, when it wrote its input; two ranks of a
/// ring do not read each other's unless the other one is in place (reduce_everything); and where ranks share cores they
/// share caches, too.
bool ExchangeEnd::worth_lending(const Job &job) const {
  if (wake_ || !job.apart() || (job.ring != nullptr && rank_count() == 2 && job.cheap)) return true;
  return job.bytes() >= dedicated_chunk_factor * view_.geometry.chunk_bytes;
}

/// Waits for every rank's announcement, and opens what they export.
RunOutcome ExchangeEnd::meet(Job &job) {
  job.all_lend = lends_send_ && lends_recv_;
  job.all_apart = job.apart();
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    operands_[peer] = results_[peer] = nullptr;
    if (peer == rank_) continue;
    const ExchangePlace &place = view_.place(peer);
    const uint64_t &contributed = place.contributed.value;
    if (!wait_until(job.waiter, [&] { return memory::load_sync(contributed) > chunks_; })) return stopped;  // R1
    const ExchangeAnnouncement &theirs = place.announcement;
    if (theirs.fingerprint != job.buffers.signature) return fault(Fault::foreign_slot, peer);
    if (theirs.send.exported != 0) operands_[peer] = open(peer, theirs.send, job.bytes());
    if (theirs.recv.exported != 0) results_[peer] = open(peer, theirs.recv, job.bytes());
    job.all_lend &= theirs.send.exported != 0 && theirs.recv.exported != 0;
    job.all_apart &= theirs.send.address != theirs.recv.address;
    const bool unreadable = (theirs.send.exported != 0 && operands_[peer] == nullptr) ||
                            (theirs.recv.exported != 0 && results_[peer] == nullptr);
    if (unreadable) return fault(Fault::unreadable, peer);
  }
  return {};
}

/// Where all export both buffers no area of the exchange bounds a chunk, and larger ones save turns of the scheduler:
/// all see the same announcements, so all come to the same size.
uint64_t ExchangeEnd::lent_chunk_factor() const { return wake_ ? oversubscribed_chunk_factor : dedicated_chunk_factor; }

/// Until everybody has gathered so many chunks, counted through the communicator's life.
RunOutcome ExchangeEnd::wait_for_gathered(const Job &job, uint64_t chunks) const {
  for (uint32_t peer = 0; peer < rank_count(); ++peer) {
    const uint64_t &gathered = view_.place(peer).gathered.value;
    if (!wait_until(job.waiter, [&] { return memory::load_sync(gathered) >= chunks; })) return stopped;  // see G2
  }
  return {};
}

}  // namespace rondo
