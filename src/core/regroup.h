// SPDX-License-Identifier: Apache-2.0
// A shrink or a grow makes a new communicator of ranks of a parent: the members. A grow adds new ranks, which know only
// an id. The parent may have failed, so its operations cannot be used. The members agree by notes (src/links/ranks.h).
//
// Call     Each member posts its arguments. The member that serves the store posts how to reach it. A member waits
//          until it has seen the note of every other member. The wait fails if another member ended, gave up, or has
//          other arguments. Each member counts its calls, and calls with equal counts belong together. If another
//          member has called more often, an earlier call has failed on it, so this call joins the later one.
// Make     The members make the new communicator (src/core/part.h), and each posts its result.
// Confirm  A member returns the new communicator when all members have posted that they made it. A note stays when its
//          rank ends. So on one host, either all living members return the new communicator, or none does.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/core/communicator.h"
#include "src/core/part.h"
#include "src/core/regroup_note.h"

namespace rondo {

/// Returns why `parent` can be neither shrunk nor grown. `function` is the name of the public function, for messages.
[[nodiscard]] Result<void> check_regroup(const Communicator &parent, const char *function);

/// The state of a shrink or a grow on one rank.
class Regroup {
 public:
  using Made = Part::Made;

  Regroup(std::shared_ptr<Communicator> parent, Settings settings, std::string function, bool aborts);
  Regroup(const Regroup &) = delete;
  Regroup &operator=(const Regroup &) = delete;
  virtual ~Regroup();

  /// Posts this rank's call. RONDO_ERROR_INVALID_USAGE: an earlier call still runs.
  [[nodiscard]] Result<void> begin(const Regrouping &wanted);
  /// Waits for the other members and makes the communicator. `cancel` may be null.
  [[nodiscard]] Made run(const Cancel *cancel);

 protected:
  /// Completes this rank's note before the note is posted.
  [[nodiscard]] virtual Result<void> offer(RegroupNote &own) = 0;
  /// Calls meet() or meet_at() of the part. By then, this rank has the notes of all members.
  [[nodiscard]] virtual Result<void> meet() = 0;
  /// Handles a failure of this call.
  virtual void on_failure(const Error &) {}

  [[nodiscard]] Communicator &parent() const { return parent_; }
  [[nodiscard]] Part &part() { return part_; }
  [[nodiscard]] const std::vector<uint32_t> &members() const { return members_; }
  /// Returns the note of a member. All members have one when meet() is called.
  [[nodiscard]] const RegroupNote &note_of(uint32_t member) const {
    return member == parent_.rank() ? own_ : *watched_[member].note;
  }
  [[nodiscard]] Error about(rondo_status_t status, std::string message, uint32_t member) const;
  [[nodiscard]] std::string call() const { return own_.wanted.call(); }

 private:
  /// The notes of another member, as far as they have arrived at this rank.
  struct Watched {
    std::optional<RegroupNote> note;  ///< latest note of this call
    uint64_t failed_ns = 0;           ///< time at which the failure of this call was seen, or 0
    uint64_t ended_ns = 0;            ///< time at which the member's end was seen, or 0
    uint64_t differs_since_ns = 0;    ///< time at which a call with other arguments was seen, or 0
    uint64_t differing_number = 0;    ///< number of that call's note
    bool says_so = false;             ///< true if the member has ended that call because of the difference
  };

  [[nodiscard]] Made agree_and_make(const Cancel *cancel);
  [[nodiscard]] Result<void> wait_for_all(RegroupPhase phase, uint64_t timeout_ns, const Cancel *cancel);
  [[nodiscard]] Result<void> check_member(uint32_t member, RegroupPhase phase, uint64_t now) const;
  [[nodiscard]] Result<void> check_failed(uint32_t member, bool may_wait) const;
  void read_all(RegroupPhase phase, uint64_t now);
  void read_notes(uint32_t member, RegroupPhase phase, uint64_t now);
  void catch_up(uint32_t occurrence);
  void compare(Watched &watched, const Note &note, const RegroupNote &other, uint64_t now) const;
  [[nodiscard]] Result<void> check_difference(uint32_t member) const;
  [[nodiscard]] Error differs(uint32_t member, const Regrouping &theirs) const;
  [[nodiscard]] Error timed_out(uint32_t member, RegroupPhase phase) const;
  /// Returns what a caller can do after a member has ended.
  [[nodiscard]] const char *advice() const;
  void post(RegroupPhase phase, const Error *why = nullptr);
  [[nodiscard]] bool has_left(uint32_t rank) const { return has_ended_calls(ranks_.state(rank)); }

  Communicator &parent_;  ///< part_ owns it
  const Ranks &ranks_;    ///< ranks of parent_
  Part part_;
  const std::string function_;
  const bool aborts_;
  uint64_t number_ = 0;  ///< number of this rank's note, or 0 before begin()
  RegroupNote own_;
  bool ended_ = false;  ///< true: run() has returned
  std::vector<uint32_t> members_;
  std::vector<Watched> watched_;  ///< indexed by rank
  std::vector<uint32_t> dead_;
};

}  // namespace rondo
