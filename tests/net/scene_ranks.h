// SPDX-License-Identifier: Apache-2.0
// This file has the ranks of one host for tests of the control plane.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "src/links/ranks.h"

namespace rondo::net_test {

/// The ranks of one host, in the state that the test sets.
class SceneRanks : public Ranks {
 public:
  explicit SceneRanks(uint32_t count) : states(count, RankState::alive), latest(count) {}

  void enter(uint64_t, const OperationInfo &) override {}
  void complete(uint64_t, const OperationCost &) override {}
  void fail(uint64_t) override {}
  void set_state(RankState) override {}
  std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation) const override {
    if (operation > latest[peer]) return std::nullopt;
    OperationInfo what;
    what.signature.count = 1000 * peer + operation;
    return what;
  }
  uint64_t latest_operation(uint32_t peer) const override { return latest[peer]; }
  uint64_t completed_operation(uint32_t peer) const override { return latest[peer]; }
  bool is_near(uint32_t peer) const override { return !far.contains(peer); }
  RankState state(uint32_t peer) const override { return states[peer]; }
  MessageBoards *messages() override { return boards; }
  void raise(const Error &error) override {
    if (!error_) error_ = error;
  }
  bool failed() const override { return ++looks, error_.has_value(); }
  Error failure() const override { return *error_; }
  std::vector<uint32_t> find_dead() const override { return {dead.begin(), dead.end()}; }
  std::string describe_rank(uint32_t peer) const override { return "rank " + std::to_string(peer); }

  std::vector<RankState> states;
  std::vector<uint64_t> latest;
  std::set<uint32_t> dead;
  std::set<uint32_t> far;
  MessageBoards *boards = nullptr;
  mutable uint64_t looks = 0;  ///< number of checks for a failure

 private:
  std::optional<Error> error_;
};

}  // namespace rondo::net_test
