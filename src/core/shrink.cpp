// SPDX-License-Identifier: Apache-2.0
#include "src/core/shrink.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/clock.h"
#include "src/core/part.h"
#include "src/core/shrink_note.h"

namespace rondo {
namespace {

constexpr uint64_t eager_ns = 5'000'000, eager_poll_ns = 50'000, poll_ns = 1'000'000;
constexpr uint64_t note_lag_ns = 1'000'000'000;  // longest time in which a note of another host's rank arrives
/// The time for which the excluded sets may differ, because one rank may learn of a death later than another.
constexpr uint64_t difference_lag_ns = 2'000'000'000;

using Made = Part::Made;

/// The state of a shrink on one rank.
class Shrink {
 public:
  Shrink(std::shared_ptr<Communicator> parent, Settings settings, bool aborts)
      : parent_(*parent), ranks_(parent_.ranks()), part_(std::move(parent), std::move(settings), "rondo_comm_shrink"),
        aborts_(aborts), watched_(parent_.rank_count()) {}
  Shrink(const Shrink &) = delete;
  Shrink &operator=(const Shrink &) = delete;
  ~Shrink();

  /// Posts this rank's call.
  [[nodiscard]] Result<void> begin(const RankSet &excluded);
  /// Waits for the other members and makes the communicator. `cancel` may be null.
  [[nodiscard]] Made run(const Cancel *cancel);

 private:
  /// The notes of another member, as far as they have arrived at this rank.
  struct Watched {
    std::optional<ShrinkNote> note;  ///< latest note of this call
    uint64_t ended_ns = 0;           ///< time at which the member's end was seen, or 0
    uint64_t differs_since_ns = 0;   ///< time at which a call of another shrink was seen, or 0
    uint64_t differing_number = 0;   ///< number of that call's note
    bool says_so = false;            ///< true if the member has given that call up because of the difference
  };

  [[nodiscard]] Made agree_and_make(const Cancel *cancel);
  [[nodiscard]] Result<void> wait_for_all(ShrinkPhase phase, uint64_t timeout_ns, const Cancel *cancel);
  [[nodiscard]] Result<void> check_member(uint32_t member, ShrinkPhase phase, uint64_t now);
  void read_notes(uint32_t member, uint64_t now);
  void compare(Watched &watched, const Note &note, const ShrinkNote &shrink, uint64_t now) const;
  [[nodiscard]] Result<void> check_difference(uint32_t member) const;
  [[nodiscard]] Error differs(uint32_t member, const RankSet &theirs) const;
  [[nodiscard]] Error timed_out(uint32_t member, ShrinkPhase phase) const;
  [[nodiscard]] Error about(rondo_status_t status, std::string message, uint32_t member) const;
  void post(ShrinkPhase phase, const Error *why = nullptr);
  [[nodiscard]] std::string call() const { return "rondo_comm_shrink without " + own_.excluded.describe(); }
  [[nodiscard]] bool has_left(uint32_t rank) const {
    const RankState state = ranks_.state(rank);
    return state == RankState::left || state == RankState::finalized;
  }
  [[nodiscard]] bool is_member(uint32_t rank) const { return !own_.excluded.contains(rank); }

  Communicator &parent_;  ///< part_ owns it
  const Ranks &ranks_;    ///< ranks of parent_
  Part part_;
  const bool aborts_;
  uint64_t number_ = 0;  ///< number of this rank's note, or 0 before begin()
  ShrinkNote own_;
  bool ended_ = false;  ///< run() has returned
  std::vector<uint32_t> members_;
  std::vector<Watched> watched_;  ///< indexed by rank
  std::vector<uint32_t> dead_;
};

Result<void> Shrink::begin(const RankSet &excluded) {
  const auto entry = parent_.shrink_log().begin(excluded);
  if (!entry)
    return Error{RONDO_ERROR_INVALID_USAGE, "the rondo_comm_shrink before this one is still running; wait for it, or "
                                            "destroy the communicator that it makes"};
  number_ = entry->number;
  own_.excluded = excluded;
  own_.occurrence = entry->occurrence;
  for (uint32_t rank = 0; rank < parent_.rank_count(); ++rank)
    if (is_member(rank)) members_.push_back(rank);
  if (members_.front() == parent_.rank()) {
    const PartOffer offer = part_.offer();
    own_.port = offer.port;
    own_.nonce = offer.nonce;
  }
  post(ShrinkPhase::called);
  return {};
}

/// Ends a shrink that was begun but not run, because memory or handles ran out.
Shrink::~Shrink() {
  if (number_ == 0 || ended_) return;
  const Error error{RONDO_ERROR_OUT_OF_RESOURCES, ""};
  post(ShrinkPhase::failed, &error);
  parent_.shrink_log().end();
}

void Shrink::post(ShrinkPhase phase, const Error *why) {
  own_.phase = phase;
  if (why != nullptr) {
    own_.status = why->status;
    own_.peer = why->peer;
  }
  Note note;
  note.number = number_;
  note.revision = parent_.shrink_log().next_revision();
  write_words(own_, note);
  parent_.post(note);
}

Made Shrink::run(const Cancel *cancel) {
  if (aborts_) parent_.end_operations();
  auto made = agree_and_make(cancel);
  if (!made.ok()) post(ShrinkPhase::failed, &made.error());
  ended_ = true;
  parent_.shrink_log().end();
  return made;
}

Made Shrink::agree_and_make(const Cancel *cancel) {
  RONDO_TRY(wait_for_all(ShrinkPhase::called, parent_.settings().timeout_ns, cancel));
  const ShrinkNote &first = members_.front() == parent_.rank() ? own_ : *watched_[members_.front()].note;
  RONDO_TRY(part_.meet(members_, {first.port, first.nonce}, 0));
  auto made = part_.make(cancel);
  if (!made.ok()) return part_.explain(std::move(made).error(), call());
  post(ShrinkPhase::made);
  const auto confirmed = wait_for_all(ShrinkPhase::made, part_.settings().init_timeout_ns, cancel);
  if (confirmed.ok()) return made;
  made.value()->close();
  return confirmed.error();
}

/// Waits until all members have posted `phase`.
Result<void> Shrink::wait_for_all(ShrinkPhase phase, uint64_t timeout_ns, const Cancel *cancel) {
  const uint64_t begun_ns = now_ns();
  while (true) {  // ends at the deadline
    const uint64_t now = now_ns();
    dead_ = ranks_.find_dead();
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
    sleep_for_ns(now - begun_ns < eager_ns ? eager_poll_ns : poll_ns);
  }
}

/// Returns an error if it is known by now that the member will never reach `phase`.
Result<void> Shrink::check_member(uint32_t member, ShrinkPhase phase, uint64_t now) {
  Watched &watched = watched_[member];
  const bool has_ended = has_left(member) || std::ranges::find(dead_, member) != dead_.end();
  if (has_ended && watched.ended_ns == 0) watched.ended_ns = now;
  read_notes(member, now);  // after the check for the member's end, so that its last note counts
  if (watched.note && watched.note->phase == ShrinkPhase::failed) {
    const ShrinkNote &failed = *watched.note;
    if (failed.status == RONDO_ERROR_MISMATCH)  // usually this rank has seen the differing rank, too
      for (const uint32_t other : members_) RONDO_TRY(check_difference(other));
    Error error = about(failed.status,
                        call() + ": " + ranks_.describe_rank(member) + " has given up (" +
                            rondo_status_string(failed.status) + "); its own error says why. Call it again, and "
                            "exclude the ranks that have ended",
                        member);
    if (failed.peer >= 0 && failed.status != RONDO_ERROR_MISMATCH) error.peer = failed.peer;
    return error;
  }
  if (watched.note && watched.note->phase >= phase) return {};
  if (watched.says_so || (watched.differs_since_ns != 0 && now - watched.differs_since_ns >= difference_lag_ns))
    RONDO_TRY(check_difference(member));
  if (watched.ended_ns != 0 && now - watched.ended_ns >= (ranks_.is_near(member) ? 0 : note_lag_ns))
    return about(RONDO_ERROR_REMOTE,
                 call() + ": " + ranks_.describe_rank(member) +
                     (has_left(member) ? " has left the communicator" : ranks_.how_dead(member)) +
                     "; call it again, and exclude that rank, too",
                 member);
  return {};
}

void Shrink::read_notes(uint32_t member, uint64_t now) {
  Watched &watched = watched_[member];
  for (const Note &note : ranks_.notes(member)) {
    const auto shrink = shrink_note_of(note);
    if (!shrink) continue;
    if (shrink->matches(own_)) {
      watched.note = shrink;
      watched.differs_since_ns = 0;
    } else if (!watched.note) {
      compare(watched, note, *shrink, now);
    }
  }
}

/// Notes whether the member is in a shrink with another set. A member that has posted the end of its shrink is in none,
/// unless that shrink ended because the sets differ. A difference in dead ranks is no mistake, since all members will
/// soon learn of the death. A rank that leaves after a difference was seen may leave because of it, so it counts as
/// living.
void Shrink::compare(Watched &watched, const Note &note, const ShrinkNote &shrink, uint64_t now) const {
  const bool seen = watched.differs_since_ns != 0 && watched.differing_number == note.number;
  const bool found_it = shrink.phase == ShrinkPhase::failed && shrink.status == RONDO_ERROR_MISMATCH;
  const std::vector<uint32_t> ranks = shrink.excluded.difference(own_.excluded).ranks();
  const auto lives = [&](uint32_t rank) {
    if (rank >= parent_.rank_count()) return false;
    return has_left(rank) ? seen : std::ranges::find(dead_, rank) == dead_.end();
  };
  const bool is_mistake = ranks.empty() || std::ranges::any_of(ranks, lives);
  const bool differs =
      (shrink.phase == ShrinkPhase::called && is_mistake) || (seen && found_it && !ranks.empty());
  if (seen && !differs) watched.differs_since_ns = 0;
  if (seen) watched.says_so = differs && found_it;
  if (seen || !differs) return;
  watched.says_so = false;
  watched.differs_since_ns = now;
  watched.differing_number = note.number;
}

/// Returns an error if this rank has seen the member call rondo_comm_shrink() with other arguments.
Result<void> Shrink::check_difference(uint32_t member) const {
  const Watched &watched = watched_[member];
  if (watched.differs_since_ns == 0) return {};
  for (const Note &note : ranks_.notes(member))
    if (const auto other = shrink_note_of(note); other && note.number == watched.differing_number)
      return differs(member, other->excluded);
  return {};
}

Error Shrink::differs(uint32_t member, const RankSet &theirs) const {
  if (theirs == own_.excluded)
    return about(RONDO_ERROR_MISMATCH,
                 call() + ": " + ranks_.describe_rank(member) + " has called it another number of times than " +
                     ranks_.describe_rank(parent_.rank()) + "; each rank must call it equally often",
                 member);
  return about(RONDO_ERROR_MISMATCH,
               "rondo_comm_shrink: " + ranks_.describe_rank(parent_.rank()) + " excludes " +
                   own_.excluded.describe() + ", " + ranks_.describe_rank(member) + " excludes " + theirs.describe() +
                   "; give the same ranks everywhere",
               member);
}

Error Shrink::timed_out(uint32_t member, ShrinkPhase phase) const {
  const bool called = phase == ShrinkPhase::called;
  return about(RONDO_ERROR_TIMEOUT,
               call() + ": " + ranks_.describe_rank(member) +
                   (called ? " has not called it in time; raise timeout_ms (RONDO_TIMEOUT), or exclude that rank, too"
                           : " has not said in time that it was made; raise init_timeout_ms (RONDO_INIT_TIMEOUT)"),
               member);
}

Error Shrink::about(rondo_status_t status, std::string message, uint32_t member) const {
  return {status, std::move(message), static_cast<int32_t>(parent_.rank()), static_cast<int32_t>(member)};
}

}  // namespace

Result<Initialisation> begin_shrink(std::shared_ptr<Communicator> parent, std::span<const int> excluded, bool aborts,
                                    const rondo_config_t *config) {
  if (parent->rank_count() > RankSet::rank_count_max)
    return Error{RONDO_ERROR_UNSUPPORTED, "rondo_comm_shrink is for communicators of at most " +
                                              std::to_string(RankSet::rank_count_max) + " ranks; this one has " +
                                              std::to_string(parent->rank_count())};
  if (parent->ranks().state(parent->rank()) == RankState::finalized)
    return Error{RONDO_ERROR_INVALID_HANDLE, "the communicator is finalized; only destroy is left"};
  RankSet set;
  for (const int rank : excluded) {
    if (rank < 0 || static_cast<uint32_t>(rank) >= parent->rank_count())
      return invalid_argument("excluded has rank " + std::to_string(rank) + "; the communicator has ranks 0 to " +
                              std::to_string(parent->rank_count() - 1));
    if (static_cast<uint32_t>(rank) == parent->rank())
      return invalid_argument("excluded has this rank, " + std::to_string(rank) +
                              "; only ranks that are not excluded call rondo_comm_shrink");
    set.insert(static_cast<uint32_t>(rank));
  }
  RONDO_TRY_ASSIGN(Settings settings, part_settings(*parent, config));
  const bool nonblocking = settings.nonblocking;
  const auto shrink = std::make_shared<Shrink>(std::move(parent), std::move(settings), aborts);
  RONDO_TRY(shrink->begin(set));
  return Initialisation{[shrink](const Cancel *cancel) { return shrink->run(cancel); }, nonblocking};
}

}  // namespace rondo
