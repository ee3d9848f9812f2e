// SPDX-License-Identifier: Apache-2.0
// This file asks and answers questions about messages over the control plane. An answer reports how many messages a
// rank of another host has called and completed, and describes one of them.
#include <algorithm>

#include "src/base/clock.h"
#include "transports/net/control.h"

namespace rondo::net {
namespace {

constexpr uint64_t ask_again_ns = 50'000'000;

Cell &put(Cell &cell, const PairInquiry &inquiry) {
  return cell.put(inquiry.about).put(inquiry.with).put(uint32_t{inquiry.sends}).put(inquiry.asked_ns);
}

Cell cell_of(CellKind kind, const PairInquiry &inquiry) {
  Cell cell(kind);
  put(cell, inquiry);
  return cell;
}

PairInquiry pair_inquiry_of(ByteReader &body) {
  PairInquiry inquiry;
  inquiry.about = inquiry_of(body);
  inquiry.with = body.number<uint32_t>();
  inquiry.sends = body.number<uint32_t>() != 0;
  inquiry.asked_ns = body.number<uint64_t>();
  return inquiry;
}

Cell &put(Cell &cell, const MessageReport &report) {
  const MessageInfo message = report.message.value_or(MessageInfo{});
  return cell.put(report.pair.entered)
      .put(report.pair.completed)
      .put(report.batches.entered)
      .put(report.batches.completed)
      .put(uint32_t{report.message.has_value()})
      .put(message.type)
      .put(message.bytes);
}

constexpr uint64_t question_of(uint64_t message, bool sends) { return message << 1 | (sends ? 1 : 0); }

MessageReport report_of(const RemotePair &pair, uint32_t with, bool sends, uint64_t message) {
  MessageReport report{pair.counts, pair.batches, std::nullopt};
  if (pair.is_known != 0)
    report.message = MessageInfo{with, sends, static_cast<uint32_t>(pair.type), pair.bytes, message};
  return report;
}

}  // namespace

RemotePair &Control::pair_with(uint32_t peer, uint32_t own) const {
  const auto index = static_cast<size_t>(std::ranges::find(local_ranks_, own) - local_ranks_.begin());
  return remote(peer).pairs[index % RemoteRank::pair_count];
}

std::optional<MessageReport> Control::pair(uint32_t peer, bool sends, uint64_t message, uint64_t since_ns) {
  const std::lock_guard own(mutex_);
  const ControlLock lock(header(), index_, 0, ended_);
  if (!lock.held()) return std::nullopt;
  RemotePair &known = pair_with(peer, parts_.rank);
  const uint64_t question = question_of(message, sends), now = now_ns();
  const bool is_own = known.with == uint64_t{parts_.rank} + 1 && known.question == question;
  // Several ranks of this host may share this entry. Once the question in the entry is ask_again_ns old, another rank
  // may use the entry.
  const bool is_taken = known.with != 0 && known.with != uint64_t{parts_.rank} + 1;
  if (is_taken && now - known.asked_ns < ask_again_ns) return std::nullopt;
  const bool asked = is_own && known.asked_ns >= since_ns;
  if (asked && known.answered != 0) return report_of(known, parts_.rank, sends, message);
  if (asked && now - known.asked_ns < ask_again_ns) return std::nullopt;
  if (remote(peer).ended != 0 || !may_ask(now)) return std::nullopt;
  const PairInquiry inquiry{{peer, message}, parts_.rank, sends, now};
  if (!lines_.send(parts_.host_of[peer], cell_of(CellKind::ask_pair, inquiry))) return std::nullopt;
  ++header().asked_count;
  known = {uint64_t{parts_.rank} + 1, question, now, 0, {}, {}, 0, 0, 0};
  return std::nullopt;
}

void Control::take_pair_question(uint32_t host, ByteReader body) {
  const PairInquiry asked = pair_inquiry_of(body);
  if (body.failed() || !is_of(host_, asked.about.rank) || !is_of(host, asked.with)) return;
  MessageBoards *const boards = parts_.local->messages();
  const auto index =
      static_cast<uint32_t>(std::ranges::find(local_ranks_, asked.about.rank) - local_ranks_.begin());
  std::optional<MessageReport> report = MessageReport{};
  if (boards == nullptr) return;
  if (is_block_number(asked.about.operation)) {
    report->message = boards->find(index, asked.with, true, asked.about.operation);
  } else if (boards->batches(index).entered != 0) {
    if (!boards->open().ok()) return;  // without an answer, the asker reports that it does not know
    report = boards->report(index, asked.with, asked.sends, asked.about.operation, 0);
  }
  Cell cell = cell_of(CellKind::pair, asked);
  if (report) lines_.send(host, put(cell, *report));
}

void Control::take_pair(uint32_t host, ByteReader body) {
  const PairInquiry answered = pair_inquiry_of(body);
  MessageReport report;
  report.pair.entered = body.number<uint64_t>();
  report.pair.completed = body.number<uint64_t>();
  report.batches.entered = body.number<uint64_t>();
  report.batches.completed = body.number<uint64_t>();
  MessageInfo message;
  const bool is_kept = body.number<uint32_t>() != 0;
  message.type = body.number<uint32_t>();
  message.bytes = body.number<uint64_t>();
  if (is_kept) report.message = message;
  if (body.failed() || !is_of(host, answered.about.rank) || !is_of(host_, answered.with)) return;
  RemotePair &known = pair_with(answered.about.rank, answered.with);
  if (known.with != uint64_t{answered.with} + 1 || known.asked_ns != answered.asked_ns ||
      known.question != question_of(answered.about.operation, answered.sends))
    return;
  known.counts = report.pair;
  known.batches = report.batches;
  known.is_known = is_kept ? 1 : 0;
  known.type = message.type;
  known.bytes = message.bytes;
  known.answered = 1;
}

}  // namespace rondo::net
