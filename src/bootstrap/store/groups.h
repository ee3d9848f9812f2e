// SPDX-License-Identifier: Apache-2.0
// The groups of ranks that meet at a store: which client is which rank, and the first failure of each group, which
// every member receives. No I/O and no clock: the time is passed in.
//
// Group      open (ranks enter) -> over: a rank has left in good order, so all have met, and none is needed here
//                               -> failed, for good: a rank has failed or its connection has ended without a goodbye, a
//                                  rank came twice or with another size, or a rank is known never to come
//            A group ends once all its ranks have come and left. What its name means from then on, GroupNames says. A
//            rank that has left may enter the next group of that name while others are still to leave the one before.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>

#include "src/bootstrap/store/store.h"

namespace rondo {

class StoreGroups {
 public:
  static constexpr size_t group_count_max = 65'536;  ///< at a time
  static constexpr uint64_t rival_memory_ns = 10'000'000'000;

  explicit StoreGroups(GroupNames names = GroupNames::once) : names_(names) {}

  struct Entry {
    bool later = false;  ///< GroupNames::elsewhere: the group that the client wants is to meet at a later store
  };
  /// Lets the client enter a group. A failure is the group's, and its other members receive it.
  [[nodiscard]] Result<Entry> enter(uint64_t client, const Membership &member);

  /// The client's goodbye: `outcome` is RONDO_OK, or what it failed with.
  void leave(uint64_t client, const Error &outcome);

  /// The client's connection has ended.
  void forget(uint64_t client);

  /// Records that the process of this rank has ended. It will never enter the groups that it has not entered.
  void rank_ended(uint32_t rank);

  /// Fails all groups, also future ones, because of an error of the store itself.
  void fail_all(const Error &error);

  /// A client reports that it would run a store here itself, as rank 0 of a group: a second job has the same
  /// description. The group fails unless it is complete. Each other rank that enters the complete group is refused
  /// once. A store that is not rank 0's own (GroupNames::elsewhere) has no rivals, and only refuses it. Returns the
  /// error for the rival.
  [[nodiscard]] Error meet_rival(const Membership &rival);
  /// Sets the time. A rival counts for rival_memory_ns. Ranks that join later belong to this job's next program.
  void at(uint64_t now_ns) { now_ns_ = now_ns; }
  /// Returns what a rival has caused since the last call if its group was complete: the ranks may be of both jobs.
  [[nodiscard]] std::optional<Error> take_mixed_up() { return std::exchange(mixed_up_, std::nullopt); }

  /// Returns the failure of the client's group; null if it has none, or the client is in no group.
  [[nodiscard]] const Error *failure_of(uint64_t client) const;

  /// Returns the number of the client's group, unique in this store; 0 if the client is in no group.
  [[nodiscard]] uint64_t number_of(uint64_t client) const;
  /// Returns the numbers of groups that all present ranks have left since the last call, and that nobody can enter any
  /// more or that have failed.
  [[nodiscard]] std::vector<uint64_t> take_vacated() { return std::exchange(vacated_, {}); }
  [[nodiscard]] size_t group_count() const { return groups_.size(); }

  /// Returns the clients that must learn that their group has failed, each once.
  [[nodiscard]] std::vector<uint64_t> take_told() { return std::exchange(told_, {}); }
  [[nodiscard]] std::vector<uint64_t> clients() const;
  /// Says whether a failed group has ranks that may still arrive and must learn of the failure.
  [[nodiscard]] bool expects_ranks() const;

 private:
  struct Group {
    uint64_t number = 0;
    std::string name;
    uint32_t generation = 0;
    uint32_t count = 0;
    uint32_t come_count = 0;
    std::map<uint32_t, uint64_t> present;  ///< rank -> client
    std::vector<bool> come;                ///< by rank
    bool over = false;
    std::optional<Error> failure;

    [[nodiscard]] bool all_have_come() const { return come_count == count; }
  };
  struct Member {
    std::shared_ptr<Group> group;
    uint32_t rank = 0;
  };

  [[nodiscard]] Result<std::shared_ptr<Group>> group_for(const Membership &member);
  [[nodiscard]] bool is_done(const Membership &member) const;
  [[nodiscard]] Result<Entry> enter_later(uint32_t rank);
  void note_done(uint32_t generation);
  [[nodiscard]] Error why_not(const Group &group, uint32_t rank, uint32_t count) const;
  void fail(Group &group, Error error);
  void vacate(const std::shared_ptr<Group> &group, uint32_t rank);

  GroupNames names_;
  std::map<std::string, std::shared_ptr<Group>> groups_;  ///< the latest of each name
  std::unordered_map<uint64_t, Member> members_;          ///< by client
  std::vector<uint64_t> told_;
  std::vector<uint64_t> vacated_;
  std::set<uint32_t> ended_;
  std::optional<Error> failure_of_all_;
  std::optional<Error> mixed_up_;
  uint64_t now_ns_ = 0, rival_end_ns_ = 0;
  std::optional<Error> rival_;      ///< the error for the rival's ranks, until rival_end_ns_
  std::set<uint32_t> rival_ranks_;  ///< ranks that got `rival_`
  uint64_t last_number_ = 0;
  uint32_t done_count_ = 0;   ///< all generations below it have ended
  std::set<uint32_t> done_;   ///< later ones that have ended before an earlier one
};

}  // namespace rondo
