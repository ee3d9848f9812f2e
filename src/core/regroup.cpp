// SPDX-License-Identifier: Apache-2.0
#include "src/core/regroup.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"

namespace rondo {
namespace {

constexpr uint64_t note_lag_ns = 1'000'000'000;  // longest time in which a note of another host's rank arrives
/// The nanoseconds for which ranks' arguments may differ, because some ranks learn of a death later than others.
constexpr uint64_t difference_lag_ns = 2'000'000'000;

}  // namespace

Result<void> check_regroup(const Communicator &parent, const char *function) {
  if (parent.rank_count() > RankSet::rank_count_max)
    return Error{RONDO_ERROR_UNSUPPORTED, std::string(function) + " is for communicators of at most " +
                                              std::to_string(RankSet::rank_count_max) + " ranks; this one has " +
                                              std::to_string(parent.rank_count())};
  const RankState state = parent.ranks().state(parent.rank());
  if (state == RankState::aborted)
    return Error{RONDO_ERROR_ABORTED, "this rank has called rondo_comm_abort; only rondo_comm_destroy is left",
                 static_cast<int32_t>(parent.rank()), static_cast<int32_t>(parent.rank())};
  if (state == RankState::finalized)
    return Error{RONDO_ERROR_INVALID_HANDLE, "the communicator is finalized; only destroy is left"};
  return {};
}

Regroup::Regroup(std::shared_ptr<Communicator> parent, Settings settings, std::string function, bool aborts)
    : parent_(*parent), ranks_(parent_.ranks()), part_(std::move(parent), std::move(settings), function),
      function_(std::move(function)), aborts_(aborts), watched_(parent_.rank_count()) {}

Result<void> Regroup::begin(const Regrouping &wanted) {
  const auto entry = parent_.regroup_log().begin(wanted);
  if (!entry)
    return Error{RONDO_ERROR_INVALID_USAGE,
                 "the rondo_comm_shrink or rondo_comm_grow before this one is still running; wait for it, or destroy "
                 "the communicator that it makes"};
  number_ = entry->number;
  own_.wanted = wanted;
  own_.occurrence = entry->occurrence;
  for (uint32_t rank = 0; rank < parent_.rank_count(); ++rank)
    if (!wanted.excluded.contains(rank)) members_.push_back(rank);
  RONDO_TRY(offer(own_));
  post(RegroupPhase::called);
  return {};
}

/// Ends a call that was begun, but could not run because memory or handles ran out.
Regroup::~Regroup() {
  if (number_ == 0 || ended_) return;
  const Error error{RONDO_ERROR_OUT_OF_RESOURCES, ""};
  post(RegroupPhase::failed, &error);
  parent_.regroup_log().end();
}

void Regroup::post(RegroupPhase phase, const Error *why) {
  own_.phase = phase;
  if (why != nullptr) {
    own_.status = why->status;
    own_.peer = why->peer;
  }
  Note note;
  note.number = number_;
  note.revision = parent_.regroup_log().next_revision();
  write_words(own_, note);
  parent_.post(note);
}

Regroup::Made Regroup::run(const Cancel *cancel) {
  if (aborts_) parent_.end_operations();
  auto made = agree_and_make(cancel);
  if (!made.ok()) {
    post(RegroupPhase::failed, &made.error());
    on_failure(made.error());
  }
  ended_ = true;
  parent_.regroup_log().end();
  return made;
}

Regroup::Made Regroup::agree_and_make(const Cancel *cancel) {
  RONDO_TRY(wait_for_all(RegroupPhase::called, parent_.settings().timeout_ns, cancel));
  RONDO_TRY(meet());
  for (const uint32_t member : members_)  // a member that has given up never enters the store
    if (note_of(member).phase == RegroupPhase::failed) RONDO_TRY(check_failed(member, false));
  auto made = part_.make(cancel);
  if (!made.ok()) return part_.explain(std::move(made).error(), call());
  post(RegroupPhase::made);
  const auto confirmed = wait_for_all(RegroupPhase::made, part_.settings().init_timeout_ns, cancel);
  if (confirmed.ok()) return made;
  made.value()->close();
  return confirmed.error();
}

/// Waits until all members have posted `phase`.
Result<void> Regroup::wait_for_all(RegroupPhase phase, uint64_t timeout_ns, const Cancel *cancel) {
  const uint64_t begun_ns = now_ns();
  while (true) {  // ends at the deadline
    const uint64_t now = now_ns();
    dead_ = ranks_.find_dead();
    read_all(phase, now);
    std::optional<uint32_t> missing;
    for (const uint32_t member : members_) {
      if (member == parent_.rank()) continue;
      RONDO_TRY(check_member(member, phase, now));
      const auto &note = watched_[member].note;
      if (!missing && (!note || note->phase < phase)) missing = member;
    }
    if (!missing) return {};
    if (cancel != nullptr && cancel->requested())
      return about(RONDO_ERROR_ABORTED, call() + " was aborted here before all ranks had called it", parent_.rank());
    if (now - begun_ns >= timeout_ns) return timed_out(*missing, phase);
    sleep_between_polls(now - begun_ns);
  }
}

/// Returns an error if it is known by now that the member will never reach `phase`.
Result<void> Regroup::check_member(uint32_t member, RegroupPhase phase, uint64_t now) const {
  const Watched &watched = watched_[member];
  if (watched.note && watched.note->phase == RegroupPhase::failed)
    RONDO_TRY(check_failed(member, phase == RegroupPhase::called && now - watched.failed_ns < difference_lag_ns));
  if (watched.note && watched.note->phase >= phase) return {};
  if (watched.says_so || (watched.differs_since_ns != 0 && now - watched.differs_since_ns >= difference_lag_ns))
    RONDO_TRY(check_difference(member));
  if (watched.ended_ns != 0 && now - watched.ended_ns >= (ranks_.is_near(member) ? 0 : note_lag_ns))
    return about(RONDO_ERROR_REMOTE,
                 call() + ": " + ranks_.describe_rank(member) +
                     (has_left(member) ? " has left the communicator" : ranks_.how_dead(member)) + "; " + advice(),
                 member);
  return {};
}

/// Returns the error for a member that has given up. Usually each member finds a disagreement about a grow itself. If
/// `may_wait`, returns no error yet, so that this rank has time to find it.
Result<void> Regroup::check_failed(uint32_t member, bool may_wait) const {
  const RegroupNote &failed = note_of(member);
  const bool disagrees = failed.status == RONDO_ERROR_MISMATCH;
  if (disagrees)  // usually this rank has seen the rank that differs, too
    for (const uint32_t other : members_) RONDO_TRY(check_difference(other));
  if (own_.wanted.grows() && may_wait && (disagrees || failed.status == RONDO_ERROR_INVALID_USAGE)) return {};
  Error error = about(failed.status,
                      call() + ": " + ranks_.describe_rank(member) + " has given up (" +
                          rondo_status_string(failed.status) + "); its own error says why. Call it again, " +
                          (own_.wanted.grows() ? "with a new id" : "and exclude the ranks that have ended"),
                      member);
  if (failed.peer >= 0 && !disagrees) error.peer = failed.peer;
  return error;
}

/// Reads the notes of all other members.
void Regroup::read_all(RegroupPhase phase, uint64_t now) {
  uint32_t occurrence = 0;
  do {  // ends, because each repetition needs a later call of a member
    occurrence = own_.occurrence;
    for (const uint32_t member : members_)
      if (member != parent_.rank()) read_notes(member, phase, now);
  } while (own_.occurrence != occurrence);
}

void Regroup::read_notes(uint32_t member, RegroupPhase phase, uint64_t now) {
  Watched &watched = watched_[member];
  const bool has_ended = has_left(member) || std::ranges::find(dead_, member) != dead_.end();
  if (has_ended && watched.ended_ns == 0) watched.ended_ns = now;
  const std::vector<Note> notes = ranks_.notes(member);  // read after its end was checked, so that its last note counts
  for (const Note &note : notes) {
    const auto other = regroup_note_of(note);
    if (!other || other->wanted.counted() != own_.wanted.counted()) continue;
    if (phase == RegroupPhase::called && other->occurrence > own_.occurrence) catch_up(other->occurrence);
  }
  for (const Note &note : notes) {
    const auto regroup = regroup_note_of(note);
    if (!regroup) continue;
    if (regroup->matches(own_)) {
      watched.note = regroup;
      if (regroup->phase == RegroupPhase::failed && watched.failed_ns == 0) watched.failed_ns = now;
      watched.differs_since_ns = 0;
    } else if (!watched.note) {
      compare(watched, note, *regroup, now);
    }
  }
}

/// Joins a later call of another member. All notes about the call that failed on that member are then out of date.
void Regroup::catch_up(uint32_t occurrence) {
  own_.occurrence = occurrence;
  parent_.regroup_log().catch_up(own_.wanted, occurrence);
  for (Watched &watched : watched_) {
    const uint64_t ended_ns = watched.ended_ns;
    watched = {};
    watched.ended_ns = ended_ns;
  }
  post(RegroupPhase::called);
}

/// Records whether the member is in a call with other arguments. A member that has posted its call's end is in no call,
/// unless that call ended because the arguments differ. Grows with equal call counts are one call. If their sizes
/// differ, that counts even after its end. A member that has called less often than this rank will join this call.
///
/// If the arguments differ only in dead ranks, that is no mistake, since all members will soon learn of the death. A
/// rank that leaves after a difference was seen may leave because of the difference. So it counts as living.
void Regroup::compare(Watched &watched, const Note &note, const RegroupNote &other, uint64_t now) const {
  const bool seen = watched.differs_since_ns != 0 && watched.differing_number == note.number;
  const bool one_call = own_.wanted.grows() && other.wanted.grows() && other.occurrence == own_.occurrence;
  const bool found_it = other.phase == RegroupPhase::failed && (one_call || other.status == RONDO_ERROR_MISMATCH);
  const std::vector<uint32_t> ranks = other.wanted.excluded.difference(own_.wanted.excluded).ranks();
  const bool same = other.wanted == own_.wanted;
  const auto lives = [&](uint32_t rank) {
    if (rank >= parent_.rank_count()) return false;
    return has_left(rank) ? seen : std::ranges::find(dead_, rank) == dead_.end();
  };
  const bool grows = own_.wanted.grows() || other.wanted.grows();
  const bool is_mistake = grows || ranks.empty() || std::ranges::any_of(ranks, lives);
  const bool calls_else = other.phase == RegroupPhase::called && is_mistake;
  const bool differs = !same && (calls_else || (found_it && (seen || one_call)));
  if (seen && !differs) watched.differs_since_ns = 0;
  if (seen) watched.says_so = differs && found_it;
  if (seen || !differs) return;
  watched.says_so = found_it;
  watched.differs_since_ns = now;
  watched.differing_number = note.number;
}

/// Returns an error if this rank has seen the member call with other arguments.
Result<void> Regroup::check_difference(uint32_t member) const {
  const Watched &watched = watched_[member];
  if (watched.differs_since_ns == 0) return {};
  for (const Note &note : ranks_.notes(member))
    if (const auto other = regroup_note_of(note); other && note.number == watched.differing_number)
      return differs(member, other->wanted);
  return {};
}

Error Regroup::differs(uint32_t member, const Regrouping &theirs) const {
  const std::string own_rank = ranks_.describe_rank(parent_.rank()), other_rank = ranks_.describe_rank(member);
  const bool both_shrink = !own_.wanted.grows() && !theirs.grows();
  return about(RONDO_ERROR_MISMATCH,
               function_ + ": " + own_rank + " " + own_.wanted.describe() + ", " + other_rank + " " +
                   theirs.describe() + "; give the same " + (both_shrink ? "ranks" : "size") + " everywhere",
               member);
}

Error Regroup::timed_out(uint32_t member, RegroupPhase phase) const {
  const bool called = phase == RegroupPhase::called;
  return about(RONDO_ERROR_TIMEOUT,
               call() + ": " + ranks_.describe_rank(member) +
                   (called ? std::string(" has not called it in time; raise timeout_ms (RONDO_TIMEOUT)") +
                                 (own_.wanted.grows() ? "" : ", or exclude that rank, too")
                           : " has not said in time that it was made; raise init_timeout_ms (RONDO_INIT_TIMEOUT)"),
               member);
}

const char *Regroup::advice() const {
  if (own_.wanted.grows()) return "call rondo_comm_shrink without that rank first";
  return "call it again, and exclude that rank, too";
}

Error Regroup::about(rondo_status_t status, std::string message, uint32_t member) const {
  return {status, std::move(message), static_cast<int32_t>(parent_.rank()), static_cast<int32_t>(member)};
}

}  // namespace rondo
