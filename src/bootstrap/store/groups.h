// SPDX-License-Identifier: Apache-2.0
// The groups of ranks that meet at a store: which client is which rank, and the first failure of each group, of which
// every member is told. No I/O and no clock.
//
// Group      open (ranks enter) -> over (a rank has left in good order: by then all have met, and none is needed here)
//                               -> failed, for good: a rank has failed or its connection has ended without a goodbye, a
//                                  rank came twice or with another size, or a rank is known never to come
#pragma once

#include <map>
#include <optional>
#include <set>
#include <unordered_map>

#include "src/bootstrap/store/store.h"

namespace rondo {

class StoreGroups {
 public:
  static constexpr size_t group_count_max = 65'536;

  /// `client` is rank `rank` of `group`. A failure is the group's, and told to its other members.
  [[nodiscard]] Result<void> enter(uint64_t client, const std::string &group, uint32_t rank, uint32_t count);

  /// The client's goodbye: `outcome` is RONDO_OK, or what it failed with.
  void leave(uint64_t client, const Error &outcome);

  /// The client's connection has ended.
  void forget(uint64_t client);

  /// The process of this rank of every group has ended: what it has not entered it never will.
  void rank_ended(uint32_t rank);

  /// Something about the store itself, for which all groups fail, those that are yet to come too.
  void fail_all(const Error &error);

  /// Of the client's group; null: none so far, or the client is in no group.
  [[nodiscard]] const Error *failure_of(uint64_t client) const;

  /// The clients that are to be told that their group has failed, each once.
  [[nodiscard]] std::vector<uint64_t> take_told() { return std::exchange(told_, {}); }
  [[nodiscard]] std::vector<uint64_t> clients() const;
  /// A group has failed, and ranks of it may still come to hear that.
  [[nodiscard]] bool expects_ranks() const;

 private:
  struct Group {
    uint32_t count = 0;
    std::map<uint32_t, uint64_t> present;  ///< rank -> client
    std::vector<bool> come;                ///< by rank
    bool over = false;
    std::optional<Error> failure;
  };
  struct Member {
    Group *group = nullptr;  ///< nodes of a map stay where they are
    uint32_t rank = 0;
  };

  void fail(Group &group, Error error);
  [[nodiscard]] Error why_not(const Group &group, uint32_t rank, uint32_t count) const;

  std::map<std::string, Group> groups_;
  std::unordered_map<uint64_t, Member> members_;  ///< by client
  std::set<uint32_t> ended_;
  std::optional<Error> failure_of_all_;
  std::vector<uint64_t> told_;
};

}  // namespace rondo
