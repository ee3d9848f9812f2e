// SPDX-License-Identifier: Apache-2.0
// This file asks and answers two kinds of questions over the control plane: what a rank called as an operation, and
// what time it is.
#include <algorithm>

#include "src/base/clock.h"
#include "transports/net/control.h"

namespace rondo::net {
namespace {

constexpr uint64_t ask_doublings_max = 5;  // the pause grows from ask_again_ns to 0.8 s
// With more than few_hosts_max hosts, these bound the questions that all ranks of a host ask in ask_again_ns, and the
// records in each answer. Without such bounds, the answers from a thousand hosts would keep a core busy.
constexpr uint64_t questions_max = 64, short_records_max = 4;
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
  // The longer a rank does not answer, the less often this rank asks it about any operation. The number of questions at
  // a time is limited, so longer pauses leave room for questions to other ranks.
  const uint64_t pause_ns = ask_again_ns << std::min(peer.asked_count, ask_doublings_max) >> 1;
  const bool asked = peer.asked_count != 0 && now - peer.asked_ns < pause_ns;
  // Among many hosts, reports are seldom, so the rank may have entered more operations than it has reported.
  const bool is_early = others_.size() < few_hosts_max && peer.entered < operation;
  if (peer.ended != 0 || is_early || asked) return std::nullopt;
  if (!may_ask(now)) return std::nullopt;
  if (!lines_.send(parts_.host_of[rank], Cell(CellKind::ask).put(Inquiry{rank, operation}))) return std::nullopt;
  ++header().asked_count;
  peer.asked_ns = now;
  ++peer.asked_count;
  return std::nullopt;
}

/// Returns whether this host may ask now. Waiting ranks ask about all other ranks, and an answer has many cells.
bool Control::may_ask(uint64_t now_ns) const {
  if (others_.size() < few_hosts_max) return true;
  ControlHeader &shared = header();
  if (now_ns - shared.asked_ns >= ask_again_ns) {
    shared.asked_ns = now_ns;
    shared.asked_count = 0;
  }
  return shared.asked_count < questions_max;
}

void Control::tell_entered(uint64_t operation, const OperationInfo &what) {
  const std::lock_guard own(mutex_);
  const ControlLock lock(header(), index_, tell_patience_ns, ended_);
  if (!lock.held()) return;
  const Cell cell = Cell(CellKind::record).put(Inquiry{parts_.rank, operation}).put(what);
  for (const uint32_t host : others_) lines_.send(host, cell);
}

void Control::take_question(uint32_t host, ByteReader body) {
  const auto [rank, operation] = inquiry_of(body);
  if (!is_of(host_, rank)) return;
  const auto index = static_cast<uint32_t>(std::ranges::find(local_ranks_, rank) - local_ranks_.begin());
  if (operation > parts_.local->latest_operation(index)) return;
  // The answer includes earlier operations, because ranks that disagree search for the first one that differs. The
  // requested operation comes last.
  const uint64_t most = others_.size() < few_hosts_max ? RemoteRank::record_count : short_records_max;
  for (uint64_t count = std::min(operation, most); count > 0; --count) {
    const uint64_t each = operation - count + 1;
    if (const auto what = parts_.local->entered(index, each))
      lines_.send(host, Cell(CellKind::record).put(Inquiry{rank, each}).put(*what));
  }
}

void Control::take_record(uint32_t host, ByteReader body) {
  const Inquiry answered = inquiry_of(body);
  if (!is_of(host, answered.rank)) return;
  RemoteRank &peer = remote(answered.rank);
  peer.records[answered.operation % RemoteRank::record_count] = {answered.operation, operation_of(body)};
  peer.asked_count = 0;
}

/// Handles a question or an answer about the clock. For an answer, the other host read its clock between the question
/// and now. The offset assumes the middle of that time, so its error is at most half the round trip.
void Control::take_clock(uint32_t host, ByteReader body) {
  ControlHeader &shared = header();
  const uint64_t now = now_ns();
  const auto asked = body.number<uint64_t>();
  const auto received = body.number<uint64_t>();
  const auto answered = body.number<uint64_t>();
  if (answered == 0) {
    lines_.send(host, Cell(CellKind::clock).put(asked).put(now).put(now_ns()));
    return;
  }
  if (!parts_.clock_measured || host != parts_.host_of[0] || shared.clock_asked_ns == 0 ||
      asked != shared.clock_asked_ns || answered < received)
    return;
  shared.clock_asked_ns = 0;
  const uint64_t way_ns = (now - asked) - std::min(answered - received, now - asked);
  const uint64_t measured_ns = way_ns / 2 + 1;
  if (shared.clock_measured_ns != 0 && measured_ns > aged_uncertainty(shared, now)) return;
  const auto there = static_cast<int64_t>(received - asked);
  const auto back = static_cast<int64_t>(answered - now);
  shared.clock = {there / 2 + back / 2, measured_ns};
  shared.clock_measured_ns = now;
  parts_.clock_measured(shared.clock);
}

}  // namespace rondo::net
