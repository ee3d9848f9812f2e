// SPDX-License-Identifier: Apache-2.0
// This file asks and answers questions about messages over the control plane. An answer reports how many messages a
// rank of another host has called and completed, and describes one of them.
#include <algorithm>

#include "src/base/clock.h"
#include "transports/net/control.h"

namespace rondo::net {
namespace {

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

Cell &put(Cell &cell, const std::optional<MessageInfo> &known) {
  const MessageInfo message = known.value_or(MessageInfo{});
  cell.put(uint32_t{known.has_value()}).put(message.peer).put(uint32_t{message.sends}).put(message.type);
  return cell.put(message.bytes).put(message.message);
}

std::optional<MessageInfo> message_of(ByteReader &body) {
  const bool known = body.number<uint32_t>() != 0;
  MessageInfo message;
  message.peer = body.number<uint32_t>();
  message.sends = body.number<uint32_t>() != 0;
  message.type = body.number<uint32_t>();
  message.bytes = body.number<uint64_t>();
  message.message = body.number<uint64_t>();
  return known ? std::optional(message) : std::nullopt;
}

Cell &put(Cell &cell, const MessageReport &report) {
  const RankDoing &now = report.now;
  for (const uint64_t count :
       {report.pair.entered, report.pair.completed, now.batches.entered, now.batches.completed})
    cell.put(count);
  put(cell, report.message).put(static_cast<uint32_t>(now.device.kind)).put(now.device.number);
  return put(cell.put(uint32_t{now.has_captured}), now.message);
}

MessageReport report_of(ByteReader &body) {
  MessageReport report;
  RankDoing &now = report.now;
  for (uint64_t *const count :
       {&report.pair.entered, &report.pair.completed, &now.batches.entered, &now.batches.completed})
    *count = body.number<uint64_t>();
  report.message = message_of(body);
  const uint32_t kind = body.number<uint32_t>();
  const uint64_t number = body.number<uint64_t>();
  if (kind <= static_cast<uint32_t>(DevicePlace::Kind::messages))
    now.device = {static_cast<DevicePlace::Kind>(kind), number};
  now.has_captured = body.number<uint32_t>() != 0;
  now.message = message_of(body);
  return report;
}

constexpr uint64_t question_of(uint64_t message, bool sends) { return message << 1 | (sends ? 1 : 0); }

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
  if (asked && known.answered != 0) return known.report;
  if (asked && now - known.asked_ns < ask_again_ns) return std::nullopt;
  if (remote(peer).ended != 0 || !may_ask(now)) return std::nullopt;
  const PairInquiry inquiry{{peer, message}, parts_.rank, sends, now};
  if (!lines_.send(parts_.host_of[peer], cell_of(CellKind::ask_pair, inquiry))) return std::nullopt;
  ++header().asked_count;
  known = {uint64_t{parts_.rank} + 1, question, now, 0, {}};
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
  report->now = boards->doing(index);
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
  const MessageReport report = report_of(body);
  if (body.failed() || !is_of(host, answered.about.rank) || !is_of(host_, answered.with)) return;
  RemotePair &known = pair_with(answered.about.rank, answered.with);
  if (known.with != uint64_t{answered.with} + 1 || known.asked_ns != answered.asked_ns ||
      known.question != question_of(answered.about.operation, answered.sends))
    return;
  known.report = report;
  known.answered = 1;
}

}  // namespace rondo::net
