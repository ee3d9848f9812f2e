// SPDX-License-Identifier: Apache-2.0
#include "src/engine/transfer_watch.h"

#include <algorithm>

#include "src/base/arithmetic.h"
#include "src/base/clock.h"
#include "src/base/parse.h"
#include "src/engine/watch.h"
#include "src/links/message_boards.h"

namespace rondo {
namespace {

constexpr uint64_t cycle_check_interval_ns = 100'000'000;
constexpr uint64_t far_check_interval_ns = 300'000'000;
constexpr uint64_t report_look_interval_ns = 2'000'000;
constexpr uint64_t fault_look_interval_ns = 5'000'000;
constexpr uint64_t ask_ahead_max_ns = 1'000'000'000;  // a peer is asked at most this long before the deadline
constexpr uint64_t report_age_max_ns = 250'000'000;
constexpr int fault_looks_max = 100;  // counts checks, not time, because a suspended machine delays both ranks

std::string numbered(const char *what, uint64_t number) { return what + (" " + std::to_string(number)); }

std::string name_of(const MessageInfo &message) {
  const std::string peer = std::to_string(message.peer);
  return message.sends ? numbered("send", message.message) + " to rank " + peer
                       : numbered("receive", message.message) + " from rank " + peer;
}
std::string name_of(const Transfer &head) { return name_of(info_of(head)); }

std::string size_of(uint64_t bytes, uint32_t type) {
  const char *const name = rondo_type_string(static_cast<rondo_type_t>(type));
  return std::to_string(bytes) + " bytes (" + (name != nullptr ? name : "?") + ")";
}

}  // namespace

bool TransferWatch::look(uint64_t now_ns) {
  if (start_ns_ == 0) {
    start_ns_ = now_ns;
    next_cycle_check_ns_ = now_ns + cycle_check_interval_ns;
    bool near = true;
    for (uint32_t rank = 0; rank < rank_count_; ++rank) near = near && boards_.knows(rank);
    next_far_check_ns_ = near ? UINT64_MAX : next_cycle_check_ns_;
  }
  if (ranks_.failed()) return true;
  publish_blocked();
  if (check_ended_peers(now_ns) || check_cycle(now_ns) || check_far_cycle(now_ns)) return true;
  ask_late_peer(now_ns);
  if (now_ns - start_ns_ < timeout_ns_) return false;
  time_out(now_ns);
  return true;
}

/// Publishes which sends are blocked. A peer that has completed every receive that it entered frees no slot before it
/// enters another. So this function reads the peer's counts first, and then whether the send needs a free slot.
void TransferWatch::publish_blocked() {
  for (size_t index = 0; heads_.reads_slots() && index < heads_.head_count(); ++index) {
    const Transfer &head = heads_.head(index);
    if (!head.sends || !boards_.knows(head.peer)) continue;
    const PairCounts received = boards_.pair(head.peer, rank_, false);
    const bool idle = received.completed == received.entered && received.entered < head.message;
    if (idle && heads_.is_blocked(index)) boards_.block(head.peer, {head.message, received.completed + 1});
  }
}

bool TransferWatch::check_ended_peers(uint64_t now_ns) {
  if (now_ns < next_death_check_ns_) return false;
  next_death_check_ns_ = now_ns + death_check_interval_ns;
  const std::vector<uint32_t> dead = ranks_.find_dead();  // read once for all heads, because it makes system calls
  for (size_t index = 0; index < heads_.head_count(); ++index)
    if (check_ended(index, dead)) return true;
  return false;
}

bool TransferWatch::has_ended(uint32_t peer, std::span<const uint32_t> dead) const {
  const RankState state = ranks_.state(peer);
  if (has_ended_calls(state)) return true;
  return std::find(dead.begin(), dead.end(), peer) != dead.end();
}

/// Fails the communicator if the head's peer has ended. Data that the peer sent before its end is still received first.
bool TransferWatch::check_ended(size_t index, std::span<const uint32_t> dead) {
  const Transfer &head = heads_.head(index);
  if (!has_ended(head.peer, dead) || awaits(head.peer) || !heads_.is_blocked(index)) return false;
  return tell_ended(head, dead);
}

bool TransferWatch::tell_ended(const Transfer &head, std::span<const uint32_t> dead) {
  if (!has_ended(head.peer, dead)) return false;
  const RankState state = ranks_.state(head.peer);
  const bool left = has_ended_calls(state);
  uint32_t ended = head.peer;
  Departure departure = left ? departure_of(state) : Departure{RONDO_ERROR_REMOTE, ""};
  std::string how = left ? departure.how : ranks_.how_dead(ended);
  // If the rank left because another rank died, report the death. The death came first, so it is visible here by now.
  if (const auto dead_rank = left ? find_dead_rank(ranks_, rank_, [](uint32_t) { return true; }) : std::nullopt) {
    ended = *dead_rank;
    departure.status = RONDO_ERROR_REMOTE;
    how = ranks_.how_dead(ended);
  }
  raise(departure.status, ended,
        ranks_.describe_rank(ended) + how + "; rank " + std::to_string(rank_) + " waits in " + name_of(head));
  return true;
}

bool TransferWatch::awaits(uint32_t ended) {
  if (!ranks_.may_deliver(ended)) return false;
  const auto known = std::ranges::find(ended_, ended, &Ended::rank);
  if (known != ended_.end()) return now_ns() - known->seen_ns < delivery_patience_ns;
  ended_.push_back({ended, now_ns()});
  return true;
}

/// Reports a circle of waiting ranks once two searches in a row have found it. A circle that is about to end, for
/// instance by an abort, is not found twice.
bool TransferWatch::check_cycle(uint64_t now_ns) {
  if (now_ns < next_cycle_check_ns_) return false;
  next_cycle_check_ns_ = now_ns + cycle_check_interval_ns;
  std::vector<WaitEdge> cycle = find_wait_cycle(ranks_, boards_, rank_, rank_count_);
  const bool stays = !cycle.empty() && cycle == cycle_;
  cycle_ = std::move(cycle);
  return stays && raise_cycle(cycle_);
}

bool TransferWatch::check_far_cycle(uint64_t now_ns) {
  if (now_ns < next_far_check_ns_) return false;
  // If a host has not answered for long, the search restarts, so that it does not use old reports of other hosts.
  if (far_since_ns_ == 0 || now_ns - far_since_ns_ > far_check_interval_ns) far_since_ns_ = now_ns;
  const bool published = publish_far_blocked(far_since_ns_);
  FarSearch found = find_far_wait_cycle(ranks_, boards_, rank_, rank_count_, far_since_ns_);
  if (found.cycle.empty() && !(published && found.complete)) {
    next_far_check_ns_ = now_ns + report_look_interval_ns;
    return false;
  }
  const bool stays = !found.cycle.empty() && found.cycle == far_cycle_;
  far_cycle_ = std::move(found.cycle);
  far_since_ns_ = 0;  // the next search asks for new reports
  next_far_check_ns_ = now_ns + (far_cycle_.empty() ? far_check_interval_ns : cycle_check_interval_ns);
  return stays && raise_cycle(far_cycle_);
}

bool TransferWatch::raise_cycle(const std::vector<WaitEdge> &cycle) {
  raise(RONDO_ERROR_MISMATCH, cycle.front().peer,
        "ranks wait for each other: " + describe(cycle, ranks_) +
            "; put messages that cross into one group (rondo_group_begin)");
  return true;
}

bool TransferWatch::publish_far_blocked(uint64_t since_ns) {
  WaitReport report;
  bool complete = true;
  for (size_t index = 0; heads_.reads_slots() && index < heads_.head_count(); ++index) {
    const Transfer &head = heads_.head(index);
    if (!head.sends || boards_.knows(head.peer) || !heads_.is_blocked(index)) continue;
    if (!boards_.read_waits(head.peer, since_ns, report)) {
      complete = false;
      continue;
    }
    const PairCounts &received = report.pairs[rank_].receives;
    const bool idle = received.completed == received.entered && received.entered < head.message;
    if (idle && fills_slots(index, received.completed))
      boards_.block(head.peer, {head.message, received.completed + 1});
  }
  return complete;
}

/// Returns whether the slots of the messages after the first `received` ones fill the FIFO. The receiver has emptied no
/// slot of these messages. So if they fill the FIFO, no credit is on its way, and no slot becomes free.
bool TransferWatch::fills_slots(size_t index, uint64_t received) const {
  const Transfer &head = heads_.head(index);
  const SlotUse use = heads_.posted_slots(index);
  uint64_t filled = use.posted;
  for (uint64_t message = received + 1; message < head.message && filled <= use.slot_count; ++message) {
    const auto sent = boards_.find(rank_, head.peer, true, message);
    if (!sent) return false;  // its record is overwritten
    filled += std::max<uint64_t>(1, ceil_div(sent->bytes, use.slot_bytes));
  }
  return filled == use.slot_count;
}

std::string TransferWatch::doing(uint32_t peer, const RankDoing &now) const {
  using Kind = DevicePlace::Kind;
  const uint64_t completed = ranks_.completed_operation(peer), entered = ranks_.latest_operation(peer);
  const bool has_messages = now.batches.entered > now.batches.completed, has_operation = entered > completed;
  const auto in_operation = [&](uint64_t number) {
    const auto call = ranks_.entered(peer, number);
    return numbered("is in operation", number) + (call ? " (" + describe(call->signature) + ")" : "");
  };
  if (now.device.kind == Kind::collective && now.device.number > completed) return in_operation(now.device.number);
  if (now.device.kind == Kind::replay) return "runs a replayed graph";
  if (now.device.kind == Kind::idle && (has_messages || has_operation))
    return "has enqueued operations that its device has not begun";
  if (has_messages) return "is in " + (now.message ? name_of(*now.message) : "messages");
  if (has_operation) return in_operation(entered);
  return "is in no operation; it has completed " + std::to_string(completed) + " collectives and " +
         std::to_string(now.batches.completed) + " batches of messages";
}

/// Asks a late peer how many matching calls it has made, and which operation it is in. A rank on another host needs a
/// moment to answer. So this rank begins to ask before the deadline, and asks repeatedly.
void TransferWatch::ask_late_peer(uint64_t now_ns) {
  const uint64_t ahead_ns = std::min(ask_ahead_max_ns, timeout_ns_ / 2);
  if (now_ns - start_ns_ + ahead_ns < timeout_ns_) return;
  const Transfer &head = heads_.head(heads_.late_head());
  const uint64_t since_ns = now_ns - std::min(report_age_max_ns, ahead_ns / 2);
  auto report = boards_.report(head.peer, rank_, !head.sends, head.message, since_ns);
  if (!report && reporter_ == head.peer) return;
  report_ = std::move(report);
  reporter_ = head.peer;
}

std::string TransferWatch::calls_of(const Transfer &head) const {
  const std::string peer = ranks_.describe_rank(head.peer);
  const std::string calls = head.sends ? "rondo_recv" : "rondo_send";
  const std::string whom = (head.sends ? " from rank " : " to rank ") + std::to_string(rank_);
  if (!report_ || reporter_ != head.peer)
    return "the number of times that " + peer + " has called " + calls + whom +
           " is not known, because its host has not answered";
  return peer + " has called " + calls + " " + std::to_string(report_->pair.entered) + " times" + whom + ", and " +
         doing(head.peer, report_->now);
}

void TransferWatch::time_out(uint64_t now_ns) {
  const Transfer &head = heads_.head(heads_.late_head());
  raise(RONDO_ERROR_TIMEOUT, head.peer,
        name_of(head) + " on rank " + std::to_string(rank_) + " timed out after " + show_seconds(now_ns - start_ns_) +
            " s; " + calls_of(head) + "; check that rank, or raise timeout_ms (RONDO_TIMEOUT)");
}

MessageReport TransferWatch::await_report(const Transfer &head) {
  const uint64_t since_ns = now_ns();
  for (int look = 0; look < fault_looks_max && !ranks_.failed(); ++look) {
    auto report = boards_.report(head.peer, rank_, true, head.message, since_ns);
    if (report) return *std::move(report);
    sleep_for_ns(fault_look_interval_ns);
  }
  return {};
}

void TransferWatch::explain_fault(const Transfer &head, Fault fault, int own_shortage) {
  const std::string during = " during " + name_of(head) + " on rank " + std::to_string(rank_);
  if (fault == Fault::unreadable) {
    // The memory of a dying rank may disappear before its process is seen to end.
    for (int look = 0; look < fault_looks_max && own_shortage == 0; ++look) {
      if (ranks_.failed() || tell_ended(head, ranks_.find_dead())) return;
      sleep_for_ns(fault_look_interval_ns);
    }
    const Error error = unreadable_buffer(ranks_, rank_, head.peer, own_shortage, during);
    return raise(error.status, own_shortage != 0 ? rank_ : head.peer, error.message);
  }
  const MessageReport report = await_report(head);
  const std::optional<MessageInfo> &sent = report.message;
  const std::string received = "rank " + std::to_string(rank_) + " receives message " + std::to_string(head.message) +
                               " from rank " + std::to_string(head.peer) + " as " + size_of(head.bytes, head.type);
  const bool sizes_differ = sent && sent->bytes != head.bytes;
  if (!sizes_differ && (report.now.has_captured || boards_.doing(rank_).has_captured))
    return raise(RONDO_ERROR_MISMATCH, head.peer,
                 received + ", and the slot that arrived belongs to another message, of a captured call; capture both "
                            "ends of a message or neither, and launch the graphs of both ranks equally often");
  if (sent && !sizes_differ)
    return raise(RONDO_ERROR_INTERNAL, head.peer,
                 ranks_.describe_rank(head.peer) + " sent a slot of another message" + during);
  raise(RONDO_ERROR_MISMATCH, head.peer,
        received + ", rank " + std::to_string(head.peer) + " sent " +
            (sent ? size_of(sent->bytes, sent->type) : "another number of bytes, which is not known here") +
            "; give both ends of a message the same size, in the same order");
}

void TransferWatch::raise(rondo_status_t status, uint32_t peer, const std::string &message) {
  Error error{status, message + what_now};
  error.rank = static_cast<int32_t>(rank_);
  error.peer = static_cast<int32_t>(peer);
  ranks_.raise(error);
}

}  // namespace rondo
