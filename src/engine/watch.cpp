// SPDX-License-Identifier: Apache-2.0
#include "src/engine/watch.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "src/base/clock.h"
#include "src/base/spelling.h"
#include "src/links/ranks.h"

namespace rondo {
namespace {

constexpr uint64_t fault_look_interval_ns = 5'000'000;
constexpr uint64_t report_age_max_ns = 60'000'000;
// These limits count polls, not time, because time also passes while the machine is suspended. A record of a call on
// another host takes two exchanges: this host gets a report, then asks for the record. On its own host, a rank sees
// every call at once, but the end of a process may become visible late.
constexpr uint64_t far_reports_max = 10;
constexpr int near_looks_max = 100;
constexpr const char *advice =
    "; call the same collectives in the same order with equal arguments and configuration";

std::string seconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ns) * 1e-9);
  return text;
}

/// Returns the number of polls within which a record of another host arrives, even if each far rank has its own host.
int far_looks_max(const Ranks &ranks, uint32_t rank_count) {
  size_t far = 0;
  for (uint32_t peer = 0; peer < rank_count; ++peer) far += ranks.is_near(peer) ? 0 : 1;
  return static_cast<int>(far_reports_max * report_interval_ns(far + 1) / fault_look_interval_ns);
}

}  // namespace

std::string describe(const OperationInfo &entered) {
  const PlanChoice &choice = entered.choice;
  return describe(entered.signature) + " by " + rondo_algorithm_string(choice.algorithm) + ", " +
         choice.way() + ", " + counted(choice.channels, "channel") + ", chunks of " +
         std::to_string(choice.chunk_bytes) + " bytes";
}

std::optional<uint32_t> find_dead_rank(const Ranks &ranks, uint32_t rank, const std::function<bool(uint32_t)> &counts) {
  std::optional<uint32_t> lowest;
  for (const uint32_t peer : ranks.find_dead()) {
    const RankState state = ranks.state(peer);
    const bool has_died = state == RankState::alive || state == RankState::exited;
    if (peer != rank && (!lowest || peer < *lowest) && has_died && counts(peer)) lowest = peer;
  }
  return lowest;
}

Departure departure_of(RankState state) {
  if (state == RankState::aborted) return {RONDO_ERROR_ABORTED, " has called rondo_comm_abort"};
  const bool left = state == RankState::left;
  return {RONDO_ERROR_REMOTE, left ? " has destroyed its communicator" : " has finalized its communicator"};
}

std::optional<Error> find_ended_rank(const Ranks &ranks, uint32_t rank, uint32_t rank_count, uint64_t operation,
                                     RankEnd which) {
  // A rank that has completed the operation has sent all its data, so its end does not matter to the operation.
  const auto owes = [&](uint32_t peer) { return ranks.completed_operation(peer) < operation; };
  const auto ended = [&](uint32_t peer, rondo_status_t status, const std::string &how) {
    Error error{status, ranks.describe_rank(peer) + how};
    error.rank = static_cast<int32_t>(rank);
    error.peer = static_cast<int32_t>(peer);
    error.operation = operation;
    return error;
  };
  const auto counts = [&](uint32_t peer) {
    return owes(peer) && (which != RankEnd::crash || ranks.state(peer) != RankState::exited);
  };
  const auto find_death = [&]() -> std::optional<Error> {
    const auto dead = find_dead_rank(ranks, rank, std::cref(counts));  // a copy would be allocated
    return dead ? std::optional(ended(*dead, RONDO_ERROR_REMOTE, ranks.how_dead(*dead))) : std::nullopt;
  };
  if (which != RankEnd::any) return find_death();
  for (uint32_t peer = 0; peer < rank_count; ++peer) {
    const RankState state = ranks.state(peer);  // read before owes(), because a rank completes first and leaves later
    if (peer == rank || !has_ended_calls(state) || !owes(peer)) continue;
    // If the rank left because another rank died, report that death. As it came first, it is visible here by now.
    if (auto death = find_death()) return death;
    const Departure departure = departure_of(state);
    return ended(peer, departure.status, departure.how);
  }
  return find_death();
}

Error unreadable_buffer(const Ranks &ranks, uint32_t rank, uint32_t peer, int own_shortage, const std::string &during) {
  const std::string name = ranks.describe_rank(peer);
  if (own_shortage != 0)
    return {RONDO_ERROR_OUT_OF_RESOURCES,
            system_error(ranks.describe_rank(rank) + " cannot open a buffer of " + name + during, own_shortage)
                    .message +
                (own_shortage == ENOMEM ? "; raise the limit on address space (ulimit -v)" : "") +
                ", or set RONDO_MAPPING=off to copy instead"};
  return {RONDO_ERROR_SYSTEM,
          name +
              " exported a buffer that could not be mapped or read, or whose descriptor that rank's program has "
              "closed or replaced" +
              during + "; set RONDO_MAPPING=off and RONDO_CROSS_MEMORY=off to copy instead"};
}

Error differing_block(const Signature &call, uint64_t number, uint32_t rank, uint32_t peer, uint64_t sent_bytes,
                      uint64_t expected_bytes) {
  const uint64_t element_bytes = rondo_type_size(static_cast<rondo_type_t>(call.type));
  const std::string own = std::to_string(rank), other = std::to_string(peer);
  Error error{RONDO_ERROR_MISMATCH,
              "operation " + std::to_string(number) + " (" + describe(call) + ") differs between ranks: rank " + other +
                  " sends rank " + own + " " + std::to_string(sent_bytes / element_bytes) + " elements, rank " + own +
                  " expects " + std::to_string(expected_bytes / element_bytes) +
                  "; give both ranks the same count for this block" + what_now};
  error.rank = static_cast<int32_t>(rank);
  error.peer = static_cast<int32_t>(peer);
  error.operation = number;
  return error;
}

bool OperationWatch::look(uint64_t now_ns) {
  if (start_ns_ == 0) start_ns_ = now_ns;
  if (ranks_.failed()) return true;
  if (check_agreement() || check_ended_ranks(now_ns)) return true;
  if (now_ns - start_ns_ < timeout_ns_) return false;
  time_out(now_ns);
  return true;
}

/// Compares this rank's records with the records of all ranks. Completed operations count, too: a rank may complete an
/// operation before a disagreeing rank calls it, as the root of a broadcast may. If ranks disagree on the root, every
/// rank may be such a root. From such an operation on, the histories differ, so the latest histories suffice.
bool OperationWatch::check_agreement() {
  for (uint32_t peer = 0; peer < rank_count_; ++peer)
    if (peer != rank_ && disagrees(peer)) return true;
  return false;
}

bool OperationWatch::disagrees(uint32_t peer) {
  const auto common = latest_in_common(peer);
  if (!common || common->theirs.history == common->own.history) return false;
  tell_disagreement(peer, *common);
  return true;
}

std::optional<OperationWatch::Common> OperationWatch::latest_in_common(uint32_t peer) const {
  const uint64_t latest = ranks_.latest_operation(peer);
  // On a device, later calls may have overwritten the running operation's record. Then the latest operation counts.
  for (const uint64_t own_latest : {operation_, ranks_.latest_operation(rank_)}) {
    const uint64_t operation = std::min(own_latest, latest);
    const auto own = operation == operation_ ? entered_ : ranks_.entered(rank_, operation);
    const auto theirs = ranks_.entered(peer, operation);
    if (own && theirs) return Common{operation, *own, *theirs};
  }
  return std::nullopt;
}

/// Returns whether the peer's record of this or a later operation has arrived and has an equal history. If not, the
/// peer may have called another operation. At a deadline, or on a slow host, its record may still be missing.
bool OperationWatch::is_known_to_agree(uint32_t peer) const {
  const auto common = latest_in_common(peer);
  return common && common->operation >= operation_ && common->theirs.history == common->own.history;
}

/// Raises a disagreement. The latest histories differ, so it searches back for the first operation that differs.
void OperationWatch::tell_disagreement(uint32_t peer, const Common &latest) {
  auto [operation, own, theirs] = latest;
  bool recorded = true;
  while (operation > 1) {  // ends at the oldest record
    const auto own_before = ranks_.entered(rank_, operation - 1);
    const auto theirs_before = ranks_.entered(peer, operation - 1);
    recorded = own_before && theirs_before;
    if (!recorded || own_before->history == theirs_before->history) break;
    --operation;
    own = *own_before;
    theirs = *theirs_before;
  }
  if (tell_finalized(peer, operation, own.signature, theirs.signature)) return;
  const bool calls_differ = theirs.signature != own.signature;
  const auto name = [&](const OperationInfo &call) { return calls_differ ? describe(call.signature) : describe(call); };
  const std::string number = std::to_string(operation);
  const std::string where = recorded ? "operation " + number
                                     : "an operation before " + number + ", the first that is still recorded of both,";
  raise(RONDO_ERROR_MISMATCH, static_cast<int32_t>(peer), operation,
        where + " differs between ranks: rank " + std::to_string(rank_) + " called " + name(own) + ", " +
            ranks_.describe_rank(peer) + " called " + name(theirs) + advice);
}

/// Raises a failure if one of two ranks has finalized while the other still calls collectives. In this case no call was
/// wrong, but the finalized rank left too early.
bool OperationWatch::tell_finalized(uint32_t peer, uint64_t operation, const Signature &own, const Signature &theirs) {
  const bool own_end = is_finalize(own);
  if (own_end == is_finalize(theirs)) return false;
  const uint32_t gone = own_end ? rank_ : peer;
  const uint32_t other = own_end ? peer : rank_;
  raise(RONDO_ERROR_REMOTE, static_cast<int32_t>(gone), operation,
        ranks_.describe_rank(gone) + " has called rondo_comm_finalize as operation " + std::to_string(operation) +
            ", which is " + describe(own_end ? theirs : own) + " on " + ranks_.describe_rank(other) +
            "; finalize when every rank has made all its calls");
  return true;
}

bool OperationWatch::check_ended_ranks(uint64_t now_ns) {
  if (now_ns < next_death_check_ns_) return false;
  next_death_check_ns_ = now_ns + death_check_interval_ns;
  const auto ended = find_ended_rank(ranks_, rank_, rank_count_, operation_, RankEnd::any);
  if (!ended) return false;
  raise(ended->status, ended->peer, operation_, ended->message + " during " + operation_name());
  return true;
}

void OperationWatch::time_out(uint64_t now_ns) {
  std::string missing;
  std::string present;
  int32_t first = -1;
  for (uint32_t peer = 0; peer < rank_count_; ++peer) {
    const uint64_t latest = ranks_.latest_operation(peer);
    if (peer == rank_ || ranks_.completed_operation(peer) >= operation_) continue;
    std::string &list = latest < operation_ ? missing : present;
    list += (list.empty() ? "" : ", ") + ranks_.describe_rank(peer);
    if (latest >= operation_) continue;
    list += " which is at operation " + std::to_string(latest);
    if (first < 0) first = static_cast<int32_t>(peer);
  }
  const std::string reason = !missing.empty() ? "not arrived: " + missing
                             : !present.empty()
                                 ? "all ranks have arrived, but it does not end; not finished: " + present
                                 : "every other rank has finished it";
  raise(RONDO_ERROR_TIMEOUT, first, operation_,
        operation_name() + " on rank " + std::to_string(rank_) + " timed out after " + seconds(now_ns - start_ns_) +
            "; " + reason + "; check those ranks, or raise timeout_ms (RONDO_TIMEOUT)");
}

void OperationWatch::explain_fault(uint32_t peer, Fault fault, int own_shortage) {
  const std::string during = " during " + operation_name();
  if (fault == Fault::unreadable && own_shortage != 0) {
    const Error error = unreadable_buffer(ranks_, rank_, peer, own_shortage, during);
    return raise(error.status, static_cast<int32_t>(rank_), operation_, error.message);
  }
  // The reason for the fault may become visible after the bad slot. If the owner of a buffer has just died, its memory
  // disappears before its process is seen to end. If ranks share no memory, a record may arrive after a slot. The
  // search for the reason ends at the operation's deadline.
  const int looks_max = fault == Fault::unreadable || ranks_.is_near(peer)
                            ? near_looks_max
                            : far_looks_max(ranks_, rank_count_);
  if (start_ns_ == 0) start_ns_ = now_ns();
  for (int look = 0; look < looks_max && (look == 0 || now_ns() - start_ns_ < timeout_ns_); ++look) {
    // This peer is checked first, because only a few ranks of other hosts are asked at a time.
    if (ranks_.failed() || disagrees(peer) || check_agreement()) return;
    if (fault == Fault::unreadable && check_ended_ranks(next_death_check_ns_)) return;
    sleep_for_ns(fault_look_interval_ns);
  }
  // The record may have arrived during the last sleep, which is likely if the deadline is near.
  if (fault == Fault::unreadable ? check_ended_ranks(next_death_check_ns_) : disagrees(peer)) return;
  const std::string name = ranks_.describe_rank(peer);
  const auto number = static_cast<int32_t>(peer);
  if (fault == Fault::unreadable) {
    const Error error = unreadable_buffer(ranks_, rank_, peer, own_shortage, during);
    return raise(error.status, number, operation_, error.message);
  }
  if (fault == Fault::withdrawn)
    return raise(RONDO_ERROR_MISMATCH, number, operation_,
                 name + " launched a graph that was captured with a buffer, and has deregistered this buffer since" +
                     during + "; capture it again");
  // A rank of this host records a call before it sends the call's slots. So a foreign slot from this host is a defect.
  if (fault == Fault::foreign_slot && !ranks_.is_near(peer) && !is_known_to_agree(peer))
    return raise(RONDO_ERROR_MISMATCH, number, operation_,
                 name + " sent a slot of another operation" + during +
                     (latest_in_common(peer) ? ", and this rank does not know yet what that rank called instead"
                                             : ", and no operation of both is recorded any more") +
                     advice);
  // For a _v block of another host, the signature includes the block's size (src/engine/device_executor.cpp).
  if (fault == Fault::foreign_slot && !ranks_.is_near(peer) && entered_.signature.counts_hash == counts_of_pairs)
    return tell_differing_block(peer);
  raise(RONDO_ERROR_INTERNAL, number, operation_,
        name + (fault == Fault::wrong_size ? " sent a slot of another size" : " sent a slot of another operation") +
            during);
}

/// Asks the peer, a rank of another host, for the size of its block. Reports both sizes, or none without an answer.
void OperationWatch::tell_differing_block(uint32_t peer) {
  MessageBoards *const boards = ranks_.messages();
  for (int look = 0; boards != nullptr && look < near_looks_max && !ranks_.failed(); ++look) {
    // The peer publishes its block when its device begins the operation, or later. So only recent reports count.
    const uint64_t since_ns = now_ns() - std::min(now_ns(), report_age_max_ns);
    const auto report = boards->report(peer, rank_, true, block_number(operation_), since_ns);
    if (report && report->message)
      return ranks_.raise(differing_block(entered_.signature, operation_, rank_, peer, report->message->bytes,
                                          expected_bytes_));
    sleep_for_ns(fault_look_interval_ns);
  }
  const std::string own = std::to_string(rank_);
  raise(RONDO_ERROR_MISMATCH, static_cast<int32_t>(peer), operation_,
        ranks_.describe_rank(peer) + " sends rank " + own + " a block of another count than rank " + own +
            " expects during " + operation_name() + "; give both ranks the same count for this block");
}

void OperationWatch::raise(rondo_status_t status, int32_t peer, uint64_t operation, const std::string &message) {
  Error error{status, message + what_now};
  error.rank = static_cast<int32_t>(rank_);
  error.peer = peer;
  error.operation = operation;
  ranks_.raise(error);
}

std::string OperationWatch::operation_name() const {
  return "operation " + std::to_string(operation_) + " (" + describe(entered_.signature) + ")";
}

}  // namespace rondo
