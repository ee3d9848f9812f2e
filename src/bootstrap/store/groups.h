// SPDX-License-Identifier: Apache-2.0
// This file declares the groups of ranks that meet at a store. StoreGroups knows which client is which rank, and the
// first failure of each group, which every member receives. It has no I/O and no clock: the time is passed in.
//
// Group      open (ranks enter) -> over: a rank has left successfully, which it does only after all ranks have entered
//                               -> failed, for good: a rank has failed, its connection has ended without a goodbye, a
//                                  rank entered twice or with another size, or a rank can never enter
// A group that is over cannot fail any more. It ends when its last rank leaves. After that, `GroupNames` decides
// what its name means. A rank that has left may enter the next group of that name while others are in the old group.
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
    bool later = false;  ///< GroupNames::elsewhere: the client's group must meet at a later store
  };
  /// Lets the client enter a group. If that fails, the whole group fails, and its other members receive the error.
  [[nodiscard]] Result<Entry> enter(uint64_t client, const Membership &member);

  /// Handles the goodbye of a client. `outcome` is RONDO_OK, or the client's failure.
  void leave(uint64_t client, const Error &outcome);

  /// Records that the client's connection has ended.
  void forget(uint64_t client);

  /// Records that the process of this rank has ended, so it can never enter groups that it has not entered.
  void rank_ended(uint32_t rank);

  /// Fails all present and later groups, because the store itself has an error, or the rank `failed` of its process.
  /// That rank will enter no group any more.
  void fail_all(const Error &error, std::optional<uint32_t> failed);

  /// Handles a rival: a client that is rank 0 of a second job with the same description, and would run its own store
  /// here. If the group that it names is not over, that group fails. If it is over, each rank that enters it later is
  /// refused once. Only a store of rank 0's own program (GroupNames::elsewhere) has rivals; other stores only refuse
  /// the client. Returns the error for the rival.
  [[nodiscard]] Error meet_rival(const Membership &rival);
  /// Sets the time. Ranks that enter within rival_memory_ns after a rival may belong to the rival's job. Ranks that
  /// enter later belong to the next program of this job.
  void at(uint64_t now_ns) { now_ns_ = now_ns; }
  /// Returns the error for groups that were over when a rival arrived, if a rival has arrived since the last call.
  /// These groups may contain ranks of both jobs.
  [[nodiscard]] std::optional<Error> take_mixed_up() { return std::exchange(mixed_up_, std::nullopt); }

  /// Returns the failure of the client's group. Returns null if there is no failure, or the client is in no group.
  [[nodiscard]] const Error *failure_of(uint64_t client) const;

  /// Returns the number of the client's group, which is unique in this store, or 0 if the client is in no group.
  [[nodiscard]] uint64_t number_of(uint64_t client) const;
  /// Returns the numbers of the groups that became empty since the last call. Such a group has failed, or all its ranks
  /// had entered. So no client asks for the keys of the group again.
  [[nodiscard]] std::vector<uint64_t> take_vacated() { return std::exchange(vacated_, {}); }
  [[nodiscard]] size_t group_count() const { return groups_.size(); }

  /// Returns the clients that must be informed that their group has failed, each once.
  [[nodiscard]] std::vector<uint64_t> take_told() { return std::exchange(told_, {}); }
  [[nodiscard]] std::vector<uint64_t> clients() const;
  /// Says whether a failed group has ranks that may still enter, so that they must be informed of the failure. If all
  /// groups fail before any rank has entered, the ranks are not known, but there are some.
  [[nodiscard]] bool expects_ranks() const;

 private:
  struct Group {
    uint64_t number = 0;
    std::string name;
    uint32_t generation = 0;
    uint32_t count = 0;
    uint32_t come_count = 0;
    std::map<uint32_t, uint64_t> present;  ///< rank -> client
    std::vector<bool> come;                ///< by rank: it has entered
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
  std::map<std::string, std::shared_ptr<Group>> groups_;  ///< the latest group of each name
  std::unordered_map<uint64_t, Member> members_;          ///< by client
  std::vector<uint64_t> told_;
  std::vector<uint64_t> vacated_;
  std::set<uint32_t> ended_;
  std::optional<Error> failure_of_all_;
  std::optional<Error> mixed_up_;
  uint64_t now_ns_ = 0, rival_end_ns_ = 0;
  std::optional<Error> rival_;      ///< the error for ranks of the rival, until rival_end_ns_
  std::set<uint32_t> rival_ranks_;  ///< ranks that have received the error `rival_`
  uint64_t last_number_ = 0;
  uint32_t done_count_ = 0;   ///< all generations below this number have ended
  std::set<uint32_t> done_;   ///< later generations that have ended, too
};

}  // namespace rondo
