// SPDX-License-Identifier: Apache-2.0
#include "src/core/watch.h"

#include <algorithm>
#include <cstdio>

#include "src/base/clock.h"

namespace rondo {
namespace {

constexpr uint64_t death_check_interval_ns = 50'000'000;
constexpr uint64_t death_patience_ns = 500'000'000;
constexpr uint64_t death_look_interval_ns = 5'000'000;
constexpr const char *what_now = "; only rondo_comm_abort and rondo_comm_destroy are left for this communicator";

std::string seconds(uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ns) * 1e-9);
  return text;
}

}  // namespace

std::string describe(const Entered &entered) {
  const PlanChoice &shape = entered.shape;
  return describe(entered.signature) + " by " + rondo_algorithm_string(shape.algorithm) + ", " +
         rondo_protocol_string(shape.protocol) + ", " + std::to_string(shape.channels) + " channels, chunks of " +
         std::to_string(shape.chunk_bytes) + " bytes";
}

std::optional<Error> find_departure(const Transport &transport, uint32_t rank, uint32_t rank_count, uint64_t operation,
                                    Departure which) {
  // A rank that has completed the operation has sent all that it owes to it: its end is none of this operation's.
  const auto owes = [&](uint32_t peer) { return transport.completed_operation(peer) < operation; };
  const auto departure = [&](uint32_t peer, const char *how) {
    Error error{RONDO_ERROR_REMOTE, transport.describe_rank(peer) + how};
    error.rank = static_cast<int32_t>(rank);
    error.peer = static_cast<int32_t>(peer);
    error.operation = operation;
    return error;
  };
  const std::vector<uint32_t> dead = transport.find_dead();
  for (uint32_t peer = 0; peer < rank_count; ++peer) {
    if (peer == rank) continue;
    const RankState state = transport.state(peer);  // before owes(): a rank completes first and leaves then
    if (!owes(peer)) continue;
    if (which == Departure::any && state == RankState::left) return departure(peer, " has destroyed its communicator");
    if (which == Departure::any && state == RankState::finalized)
      return departure(peer, " has finalized its communicator");
    if (state == RankState::alive && std::find(dead.begin(), dead.end(), peer) != dead.end())
      return departure(peer, " has ended");
  }
  return std::nullopt;
}

bool OperationWatch::look(uint64_t now_ns) {
  if (start_ns_ == 0) start_ns_ = now_ns;
  if (transport_.failed()) return true;
  if (check_agreement(operation_, entered_) || check_departures(now_ns)) return true;
  if (now_ns - start_ns_ < timeout_ns_) return false;
  time_out(now_ns);
  return true;
}

bool OperationWatch::check_agreement(uint64_t operation, const Entered &own) {
  for (uint32_t peer = 0; peer < rank_count_; ++peer) {
    const auto theirs = transport_.entered(peer, operation);
    if (!theirs || *theirs == own) continue;
    if (tell_finalized(peer, operation, own.signature, theirs->signature)) return true;
    const bool calls_differ = theirs->signature != own.signature;
    raise(RONDO_ERROR_MISMATCH, static_cast<int32_t>(peer), operation,
          "ranks disagree on operation " + std::to_string(operation) + ": rank " + std::to_string(rank_) + " called " +
              (calls_differ ? describe(own.signature) : describe(own)) + ", " +
              transport_.describe_rank(peer) + " called " +
              (calls_differ ? describe(theirs->signature) : describe(*theirs)) +
              "; call the same collectives in the same order with equal arguments and configuration");
    return true;
  }
  return false;
}

/// Some ranks complete an operation before those who disagree on it have called, as the root of a broadcast does. They
/// meet the slots of that operation in a later one.
bool OperationWatch::check_earlier_agreement() {
  for (uint64_t earlier = operation_ - 1; earlier != 0; --earlier) {  // bounded by what boards keep
    const auto own = transport_.entered(rank_, earlier);
    if (!own) return false;
    if (check_agreement(earlier, *own)) return true;
  }
  return false;
}

/// One rank finalizes while the other one still calls: it has gone too early, which is no wrong call.
bool OperationWatch::tell_finalized(uint32_t peer, uint64_t operation, const Signature &own, const Signature &theirs) {
  const bool own_end = own == finalize_signature;
  if (own_end == (theirs == finalize_signature)) return false;
  const uint32_t gone = own_end ? rank_ : peer;
  const uint32_t other = own_end ? peer : rank_;
  raise(RONDO_ERROR_REMOTE, static_cast<int32_t>(gone), operation,
        transport_.describe_rank(gone) + " has called rondo_comm_finalize as operation " + std::to_string(operation) +
            ", which is " + describe(own_end ? theirs : own) + " on " + transport_.describe_rank(other) +
            "; finalize when every rank has made all its calls");
  return true;
}

bool OperationWatch::check_departures(uint64_t now_ns) {
  if (now_ns < next_death_check_ns_) return false;
  next_death_check_ns_ = now_ns + death_check_interval_ns;
  const auto departure = find_departure(transport_, rank_, rank_count_, operation_, Departure::any);
  if (!departure) return false;
  raise(departure->status, departure->peer, operation_, departure->message + " during " + operation_name());
  return true;
}

void OperationWatch::time_out(uint64_t now_ns) {
  std::string missing;
  std::string present;
  int32_t first = -1;
  for (uint32_t peer = 0; peer < rank_count_; ++peer) {
    const uint64_t latest = transport_.latest_operation(peer);
    if (peer == rank_ || transport_.completed_operation(peer) >= operation_) continue;
    std::string &list = latest < operation_ ? missing : present;
    list += (list.empty() ? "" : ", ") + transport_.describe_rank(peer);
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
            "; " + reason + "; look at those ranks, or raise timeout_ms (RONDO_TIMEOUT)");
}

void OperationWatch::explain_fault(uint32_t peer, Fault fault) {
  if (transport_.failed() || check_agreement(operation_, entered_) || check_earlier_agreement()) return;
  // A buffer may be unreadable because its owner has just died, whose memory goes before its process is seen to end.
  const uint64_t patience_ns = now_ns() + death_patience_ns;
  while (fault == Fault::unreadable && now_ns() < patience_ns) {
    if (transport_.failed() || check_departures(next_death_check_ns_)) return;
    sleep_for_ns(death_look_interval_ns);
  }
  const char *const what = fault == Fault::unreadable   ? " lent a buffer that could not be mapped or read, or whose "
                                                         "descriptor that rank's program has closed or replaced"
                           : fault == Fault::wrong_size ? " sent a slot of another size"
                                                        : " sent a slot of another operation";
  raise(fault == Fault::unreadable ? RONDO_ERROR_SYSTEM : RONDO_ERROR_INTERNAL, static_cast<int32_t>(peer), operation_,
        transport_.describe_rank(peer) + what + " during " + operation_name() +
            (fault == Fault::unreadable ? "; set RONDO_MAPPING=off and RONDO_CROSS_MEMORY=off to copy instead" : ""));
}

void OperationWatch::raise(rondo_status_t status, int32_t peer, uint64_t operation, const std::string &message) {
  Error error{status, message + what_now};
  error.rank = static_cast<int32_t>(rank_);
  error.peer = peer;
  error.operation = operation;
  transport_.raise(error);
}

std::string OperationWatch::operation_name() const {
  return "operation " + std::to_string(operation_) + " (" + describe(entered_.signature) + ")";
}

}  // namespace rondo
