// SPDX-License-Identifier: Apache-2.0
// Groups of ranks, and how each of them fails.
#include "src/bootstrap/store/groups.h"

#include <algorithm>

namespace rondo {
namespace {

Error about(rondo_status_t status, uint32_t rank, const std::string &what) {
  Error error{status, "rank " + std::to_string(rank) + " " + what};
  error.peer = static_cast<int32_t>(rank);
  return error;
}

Error ended(uint32_t rank) {
  return about(RONDO_ERROR_REMOTE, rank,
               "ended, or lost its connection, before the communicator was made; look at its own output");
}

}  // namespace

void StoreGroups::fail(Group &group, Error error) {
  if (group.failure || group.over) return;
  group.failure = std::move(error);
  for (const auto &[rank, client] : group.present) told_.push_back(client);
}

/// Status RONDO_OK: the rank may enter.
Error StoreGroups::why_not(const Group &group, uint32_t rank, uint32_t count) const {
  if (group.failure) return *group.failure;
  if (failure_of_all_) return *failure_of_all_;
  if (group.count != count)
    return about(RONDO_ERROR_MISMATCH, rank,
                 "says that this communicator has " + std::to_string(count) + " ranks; others say " +
                     std::to_string(group.count) + "; give the same size to all");
  if (group.come[rank])
    return about(RONDO_ERROR_MISMATCH, rank, "came twice; each rank must be given out once, and an id used once");
  for (const uint32_t gone : ended_)
    if (gone < count && !group.come[gone]) return ended(gone);
  return {RONDO_OK, ""};
}

Result<void> StoreGroups::enter(uint64_t client, const std::string &name, uint32_t rank, uint32_t count) {
  if (members_.contains(client)) return Error{RONDO_ERROR_INTERNAL, "a client entered two groups"};
  const bool known = groups_.contains(name);
  if (!known && groups_.size() >= group_count_max)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES,
                 "the store is full: it holds at most " + std::to_string(group_count_max) + " groups"};
  Group &group = groups_[name];
  if (!known) {
    group.count = count;
    group.come.resize(count);
  }
  Error refused = why_not(group, rank, count);
  if (group.count == count) group.come[rank] = true;
  if (refused.status != RONDO_OK) {
    fail(group, refused);
    return refused;
  }
  group.present[rank] = client;
  members_[client] = {&group, rank};
  return {};
}

void StoreGroups::leave(uint64_t client, const Error &outcome) {
  const auto found = members_.find(client);
  if (found == members_.end()) return;
  const auto [group, rank] = found->second;
  group->present.erase(rank);
  members_.erase(found);
  if (outcome.status == RONDO_OK) {
    group->over = !group->failure;
    return;
  }
  Error error = outcome;
  error.message = "rank " + std::to_string(rank) + " failed: " + outcome.message;
  if (error.peer < 0) error.peer = static_cast<int32_t>(rank);
  fail(*group, std::move(error));
}

void StoreGroups::forget(uint64_t client) {
  const auto found = members_.find(client);
  if (found == members_.end()) return;
  const auto [group, rank] = found->second;
  group->present.erase(rank);
  members_.erase(found);
  fail(*group, ended(rank));
  std::erase(told_, client);
}

void StoreGroups::rank_ended(uint32_t rank) {
  ended_.insert(rank);
  for (auto &[name, group] : groups_)
    if (rank < group.count && !group.come[rank]) fail(group, ended(rank));
}

void StoreGroups::fail_all(const Error &error) {
  failure_of_all_ = error;
  for (auto &[name, group] : groups_) fail(group, error);
}

const Error *StoreGroups::failure_of(uint64_t client) const {
  const auto found = members_.find(client);
  return found == members_.end() || !found->second.group->failure ? nullptr : &*found->second.group->failure;
}

bool StoreGroups::expects_ranks() const {
  for (const auto &[name, group] : groups_)
    for (uint32_t rank = 0; group.failure && rank < group.count; ++rank)
      if (!group.come[rank] && !ended_.contains(rank)) return true;
  return false;
}

std::vector<uint64_t> StoreGroups::clients() const {
  std::vector<uint64_t> clients;
  for (const auto &[client, member] : members_) clients.push_back(client);
  return clients;
}

}  // namespace rondo
