// SPDX-License-Identifier: Apache-2.0
// This file asks and answers two kinds of questions over the control plane: what a rank called as an operation, and
// what time it is.
#include <algorithm>

#include "src/base/clock.h"
#include "transports/net/control.h"

namespace rondo::net {
namespace {

constexpr uint64_t ask_again_ns = 50'000'000;
constexpr uint64_t ask_doublings_max = 5;  // of ask_again_ns: the pause grows to 0.8 s
// These bound the questions from all ranks of a host in ask_again_ns, and the records in each answer. A host on the
// path may have to pass all these records to an asker that sends nothing meanwhile.
constexpr uint64_t ring_questions_max = 16, ring_records_max = 4;
static_assert(ring_questions_max * ring_records_max <= ControlLines::unheard_max);
constexpr uint32_t hops_max = 64;                  // a shortest path has log2(hosts); hosts may know different ones
/// A bound on how fast the clocks of two hosts drift apart. The uncertainty of a measurement grows by this drift, so a
/// newer measurement can replace it.
constexpr uint64_t clock_drift_divisor = 50'000;  // divides the elapsed time: 20 parts in a million

uint64_t aged_uncertainty(const ControlHeader &shared, uint64_t now_ns) {
  return shared.clock.uncertainty_ns + (now_ns - shared.clock_measured_ns) / clock_drift_divisor;
}

}  // namespace

std::optional<OperationInfo> Control::entered(uint32_t rank, uint64_t operation) {
  if (operation == 0) return std::nullopt;
  const std::lock_guard own(mutex_);
  const ControlLock lock(header(), index_, 0, ended_);
  if (!lock.held()) return std::nullopt;
  RemoteRank &peer = remote(rank);
  const RemoteRecord &record = peer.records[operation % RemoteRank::record_count];
  if (record.operation == operation) return record.what;
  const uint64_t now = now_ns();
  // The longer a rank does not answer, the less often this rank asks it, about any operation. The number of questions
  // at a time is limited, so this leaves room for questions to other ranks.
  const uint64_t pause_ns = ask_again_ns << std::min(peer.asked_count, ask_doublings_max) >> 1;
  const bool asked = peer.asked_count != 0 && now - peer.asked_ns < pause_ns;
  if (peer.ended != 0 || peer.entered < operation || asked) return std::nullopt;
  const uint32_t next = news_.first_hop(parts_.host_of[rank]);
  if (next == Overlay::no_way || !may_ask(now)) return std::nullopt;
  if (!lines_.send(next, Cell(CellKind::ask).put(Inquiry{rank, operation, host_, hops_max}))) return std::nullopt;
  ++header().asked_count;
  peer.asked_ns = now;
  ++peer.asked_count;
  return std::nullopt;
}

/// Limits the questions, because waiting ranks ask about all other ranks. An answer has many cells, and in a ring other
/// hosts pass them on.
bool Control::may_ask(uint64_t now_ns) const {
  if (overlay_.is_mesh()) return true;
  ControlHeader &shared = header();
  if (now_ns - shared.asked_ns >= ask_again_ns) {
    shared.asked_ns = now_ns;
    shared.asked_count = 0;
  }
  return shared.asked_count < ring_questions_max;
}

void Control::tell_entered(uint64_t operation, const OperationInfo &what) {
  const std::lock_guard own(mutex_);
  const ControlLock lock(header(), index_, tell_patience_ns, ended_);
  if (!lock.held()) return;
  for (uint32_t host = 0; host < overlay_.host_count(); ++host)
    if (host != host_)
      send_towards(host, Cell(CellKind::record).put(Inquiry{parts_.rank, operation, host, hops_max}).put(what));
}

void Control::send_towards(uint32_t host, const Cell &cell) {
  if (const uint32_t next = news_.first_hop(host); next != Overlay::no_way) lines_.send(next, cell);
}

void Control::take_question(ByteReader body) {
  const Inquiry asked = inquiry_of(body);
  if (!is_known(asked) || asked.asker == host_) return;
  if (is_local(asked.rank)) return answer(asked);
  if (asked.hops != 0) send_towards(parts_.host_of[asked.rank], Cell(CellKind::ask).put(asked.passed_on()));
}

bool Control::is_known(const Inquiry &inquiry) const {
  return inquiry.rank < parts_.host_of.size() && inquiry.asker < overlay_.host_count();
}

void Control::answer(const Inquiry &asked) {
  const auto [rank, operation, asker, hops] = asked;
  const auto index = static_cast<uint32_t>(std::ranges::find(local_ranks_, rank) - local_ranks_.begin());
  // The answer includes earlier operations, because ranks that disagree search for the first one that differs. The
  // requested operation comes last.
  const uint64_t most = overlay_.is_mesh() ? RemoteRank::record_count : ring_records_max;
  const uint64_t before = std::min(operation, most) - 1;
  for (uint64_t each = operation - before; operation != 0 && each <= operation; ++each)
    if (const auto what = parts_.local->entered(index, each))
      send_towards(asker, Cell(CellKind::record).put(Inquiry{rank, each, asker, hops_max}).put(*what));
}

void Control::take_record(uint32_t neighbour, ByteReader body) {
  const Inquiry answered = inquiry_of(body);
  if (!is_known(answered) || is_local(answered.rank)) return;
  if (overlay_.is_mesh() && parts_.host_of[answered.rank] != neighbour) return;
  const OperationInfo what = operation_of(body);
  if (answered.asker == host_) {
    RemoteRank &peer = remote(answered.rank);
    peer.records[answered.operation % RemoteRank::record_count] = {answered.operation, what};
    peer.asked_count = 0;
  } else if (answered.hops != 0) {
    send_towards(answered.asker, Cell(CellKind::record).put(answered.passed_on()).put(what));
  }
}

/// Takes an answer about the clock. The neighbour read its clock at some time between the question and now. The offset
/// assumes the middle, so it may be wrong by half of the round trip.
void Control::take_clock(uint32_t neighbour, ByteReader body) {
  ControlHeader &shared = header();
  const uint64_t now = now_ns();
  const auto asked = body.number<uint64_t>();
  const auto received = body.number<uint64_t>();
  const auto answered = body.number<uint64_t>();
  if (answered == 0) return answer_clock(neighbour, asked, now);
  const auto offset = static_cast<int64_t>(body.number<uint64_t>());
  const auto uncertainty = body.number<uint64_t>();
  if (!parts_.clock_measured || neighbour != news_.first_hop(parts_.host_of[0]) || shared.clock_asked_ns == 0 ||
      asked != shared.clock_asked_ns || answered < received)
    return;
  shared.clock_asked_ns = 0;
  const uint64_t way_ns = (now - asked) - std::min(answered - received, now - asked);
  const uint64_t measured_ns = way_ns / 2 + 1 + uncertainty;
  if (shared.clock_measured_ns != 0 && measured_ns > aged_uncertainty(shared, now)) return;
  const auto there = static_cast<int64_t>(received - asked);
  const auto back = static_cast<int64_t>(answered - now);
  shared.clock = {there / 2 + back / 2 + offset, measured_ns};
  shared.clock_measured_ns = now;
  parts_.clock_measured(shared.clock);
}

/// Answers a question about the clock, if this host knows how far the clock of rank 0's host is ahead of its own clock.
void Control::answer_clock(uint32_t neighbour, uint64_t asked_ns, uint64_t received_ns) {
  const ControlHeader &shared = header();
  const bool is_reference = host_ == parts_.host_of[0];
  if (!is_reference && shared.clock_measured_ns == 0) return;
  const ClockOffset own =
      is_reference ? ClockOffset{} : ClockOffset{shared.clock.offset_ns, aged_uncertainty(shared, received_ns)};
  Cell cell(CellKind::clock);
  cell.put(asked_ns).put(received_ns).put(now_ns());
  lines_.send(neighbour, cell.put(static_cast<uint64_t>(own.offset_ns)).put(own.uncertainty_ns));
}

}  // namespace rondo::net
