// SPDX-License-Identifier: Apache-2.0
// This file implements groups of ranks, and how each of them fails.
#include "src/bootstrap/store/groups.h"

#include <algorithm>

namespace rondo {
namespace {

constexpr size_t out_of_order_max = 1'024;

Error about(rondo_status_t status, uint32_t rank, const std::string &what) {
  Error error{status, "rank " + std::to_string(rank) + " " + what};
  error.peer = static_cast<int32_t>(rank);
  return error;
}

Error ended(uint32_t rank) {
  return about(RONDO_ERROR_REMOTE, rank,
               "ended, or lost its connection, before the communicator was made; read its own output");
}

Error two_jobs() {
  return {RONDO_ERROR_MISMATCH,
          "two jobs meet at this address and port: a second process is rank 0 there, and ranks of one job may have "
          "joined the other. Give each job its own MASTER_PORT (or RONDO_PORT), or its own RONDO_SECRET"};
}

}  // namespace

void StoreGroups::fail(Group &group, Error error) {
  if (group.failure || group.over) return;
  group.failure = std::move(error);
  for (const auto &[rank, client] : group.present) told_.push_back(client);
}

/// Returns why the rank may not enter, or RONDO_OK if it may.
Error StoreGroups::why_not(const Group &group, uint32_t rank, uint32_t count) const {
  if (group.failure) return *group.failure;
  if (failure_of_all_) return *failure_of_all_;
  if (group.count != count)
    return about(RONDO_ERROR_MISMATCH, rank,
                 "says that this communicator has " + std::to_string(count) + " ranks; others say " +
                     std::to_string(group.count) + "; give the same size to all");
  if (group.come[rank])
    return about(RONDO_ERROR_MISMATCH, rank,
                 "joined twice; give each rank number to one process only, and use each unique id once");
  for (const uint32_t gone : ended_)
    if (gone < count && !group.come[gone]) return ended(gone);
  return {RONDO_OK, ""};
}

/// Says whether the member's group has ended, or the member's rank has left the group after all ranks had entered.
bool StoreGroups::is_done(const Membership &member) const {
  if (names_ == GroupNames::once) return false;
  const auto found = groups_.find(member.group);
  if (found == groups_.end())
    return names_ == GroupNames::elsewhere &&
           (member.generation < done_count_ || done_.contains(member.generation));
  const Group &group = *found->second;
  return group.all_have_come() && group.count == member.count && !group.present.contains(member.rank);
}

/// Answers a rank that enters a group of an earlier program. If a rival has connected lately, the rank may belong to
/// the rival's job. So it is refused once.
Result<StoreGroups::Entry> StoreGroups::enter_later(uint32_t rank) {
  if (now_ns_ >= rival_end_ns_) rival_.reset();
  if (rival_ && rival_ranks_.insert(rank).second) return *rival_;
  return Entry{.later = true};
}

Result<std::shared_ptr<StoreGroups::Group>> StoreGroups::group_for(const Membership &member) {
  std::shared_ptr<Group> &group = groups_[member.group];
  if (group != nullptr && !is_done(member)) return group;
  if (group == nullptr && groups_.size() > group_count_max) {
    groups_.erase(member.group);
    return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                 "the store is full: it holds at most " + std::to_string(group_count_max) + " groups at a time"};
  }
  group = std::make_shared<Group>();
  group->number = ++last_number_;
  group->name = member.group;
  group->generation = member.generation;
  group->count = member.count;
  group->come.resize(member.count);
  return group;
}

Result<StoreGroups::Entry> StoreGroups::enter(uint64_t client, const Membership &member) {
  if (members_.contains(client)) return Error{RONDO_ERROR_INTERNAL, "a client entered two groups"};
  if (names_ == GroupNames::elsewhere && is_done(member)) return enter_later(member.rank);
  RONDO_TRY_ASSIGN(const std::shared_ptr<Group> group, group_for(member));
  Error refused = why_not(*group, member.rank, member.count);
  if (group->count == member.count && !group->come[member.rank]) {
    group->come[member.rank] = true;
    ++group->come_count;
  }
  if (refused.status != RONDO_OK) {
    fail(*group, refused);
    return refused;
  }
  group->present[member.rank] = client;
  members_[client] = {group, member.rank};
  return Entry{};
}

/// Records that a generation has ended. All generations below done_count_ count as ended, so the list of later ended
/// ones stays short. If the list gets too long, done_count_ moves past generations that have not ended, for instance
/// because they failed elsewhere.
void StoreGroups::note_done(uint32_t generation) {
  if (generation >= done_count_) done_.insert(generation);
  if (done_.size() > out_of_order_max) done_count_ = *done_.begin();
  while (done_.erase(done_count_) != 0) ++done_count_;
}

/// Removes a member that is gone. Forgets the group if it has ended, except if its name must not be used again.
void StoreGroups::vacate(const std::shared_ptr<Group> &group, uint32_t rank) {
  group->present.erase(rank);
  if (!group->present.empty() || (!group->all_have_come() && !group->failure)) return;
  vacated_.push_back(group->number);
  if (!group->all_have_come() || names_ == GroupNames::once) return;
  if (names_ == GroupNames::elsewhere) note_done(group->generation);
  const auto found = groups_.find(group->name);
  if (found != groups_.end() && found->second == group) groups_.erase(found);
}

void StoreGroups::leave(uint64_t client, const Error &outcome) {
  const auto found = members_.find(client);
  if (found == members_.end()) return;
  const auto [group, rank] = found->second;
  members_.erase(found);
  if (outcome.status == RONDO_OK) {
    group->over = !group->failure;
  } else {
    group->present.erase(rank);  // this rank knows of the failure
    Error error = outcome;
    error.message = "rank " + std::to_string(rank) + " failed: " + outcome.message;
    if (error.peer < 0) error.peer = static_cast<int32_t>(rank);
    fail(*group, std::move(error));
  }
  vacate(group, rank);
}

void StoreGroups::forget(uint64_t client) {
  const auto found = members_.find(client);
  if (found == members_.end()) return;
  const auto [group, rank] = found->second;
  group->present.erase(rank);
  members_.erase(found);
  fail(*group, ended(rank));
  std::erase(told_, client);
  vacate(group, rank);
}

void StoreGroups::rank_ended(uint32_t rank) {
  ended_.insert(rank);
  for (auto &[name, group] : groups_)
    if (rank < group->count && !group->come[rank]) fail(*group, ended(rank));
}

void StoreGroups::fail_all(const Error &error, std::optional<uint32_t> failed) {
  failure_of_all_ = error;
  for (auto &[name, group] : groups_) fail(*group, error);
  if (failed) ended_.insert(*failed);
}

Error StoreGroups::meet_rival(const Membership &rival) {
  if (names_ != GroupNames::elsewhere) return two_jobs();
  rival_ = two_jobs();
  rival_end_ns_ = now_ns_ + rival_memory_ns;
  rival_ranks_.clear();
  const auto found = groups_.find(rival.group);
  if (found != groups_.end() && !found->second->over) {
    fail(*found->second, *rival_);
  } else if (found != groups_.end() || is_done(rival)) {
    mixed_up_ = rival_;
  } else if (last_number_ == 0) {
    failure_of_all_ = rival_;  // the process that runs this store has not entered its first group yet
  }
  return *rival_;
}

const Error *StoreGroups::failure_of(uint64_t client) const {
  const auto found = members_.find(client);
  return found == members_.end() || !found->second.group->failure ? nullptr : &*found->second.group->failure;
}

uint64_t StoreGroups::number_of(uint64_t client) const {
  const auto found = members_.find(client);
  return found == members_.end() ? 0 : found->second.group->number;
}

bool StoreGroups::expects_ranks() const {
  if (failure_of_all_ && groups_.empty()) return true;
  for (const auto &[name, group] : groups_)
    for (uint32_t rank = 0; group->failure && rank < group->count; ++rank)
      if (!group->come[rank] && !ended_.contains(rank)) return true;
  return false;
}

std::vector<uint64_t> StoreGroups::clients() const {
  std::vector<uint64_t> clients;
  for (const auto &[client, member] : members_) clients.push_back(client);
  return clients;
}

}  // namespace rondo
