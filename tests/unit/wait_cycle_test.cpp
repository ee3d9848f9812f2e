// SPDX-License-Identifier: Apache-2.0
// These tests search for circles of waiting ranks in published states. Only real circles may be found.
#include "src/engine/wait_cycle.h"

#include <map>
#include <memory>
#include <vector>

#include "tests/catch.h"
#include "tests/quiet_boards.h"
#include "transports/shm/message_board.h"
#include "transports/shm/segment.h"

using namespace rondo;

namespace {

/// Ranks whose collectives a test sets.
class SetRanks final : public Ranks {
 public:
  void enter(uint64_t, const OperationInfo &) override {}
  void complete(uint64_t, const OperationCost &) override {}
  void fail(uint64_t) override {}
  void set_state(RankState) override {}
  std::optional<OperationInfo> entered(uint32_t peer, uint64_t) const override {
    const auto found = calls.find(peer);
    return found == calls.end() ? std::nullopt : std::optional(OperationInfo{found->second, {}, 0});
  }
  uint64_t latest_operation(uint32_t peer) const override { return calls.contains(peer) ? 1 : 0; }
  uint64_t completed_operation(uint32_t) const override { return 0; }
  RankState state(uint32_t) const override { return RankState::alive; }
  void raise(const Error &) override {}
  bool failed() const override { return false; }
  Error failure() const override { return {}; }
  std::vector<uint32_t> find_dead() const override { return {}; }
  std::string describe_rank(uint32_t peer) const override { return "rank " + std::to_string(peer); }

  std::map<uint32_t, Signature> calls;  ///< by rank: its first call, in which it still is
};

/// The boards of a rank whose peer 1 enters another batch at each query.
class MovingBoards final : public rondo_test::QuietBoards {
 public:
  explicit MovingBoards(const MessageBoards &boards) : boards_(boards) {}
  BatchCounts batches(uint32_t of) const override {
    if (of != 1) return boards_.batches(of);
    ++entered_;
    return {entered_, entered_ - 1};
  }
  PairCounts pair(uint32_t of, uint32_t with, bool sends) const override { return boards_.pair(of, with, sends); }
  BlockedSend blocked(uint32_t of, uint32_t to) const override { return boards_.blocked(of, to); }
  std::optional<MessageInfo> find(uint32_t of, uint32_t with, bool sends, uint64_t message) const override {
    return boards_.find(of, with, sends, message);
  }

 private:
  const MessageBoards &boards_;
  mutable uint64_t entered_ = 0;
};

class World {
 public:
  explicit World(uint32_t rank_count) : rank_count_(rank_count) {
    shm::SegmentShape shape;
    shape.rank_count = rank_count;
    shape.geometry = {2, 64, 64};
    auto made = shm::Segment::create({1, 2}, shape);
    REQUIRE(made.ok());
    segment_ = made.value();
    REQUIRE(segment_->open_messages().ok());
    for (uint32_t rank = 0; rank < rank_count; ++rank)
      boards_.push_back(std::make_unique<shm::ShmMessages>(segment_, rank));
  }

  shm::ShmMessages &operator[](uint32_t rank) { return *boards_[rank]; }
  shm::DeviceBoard &device_board(uint32_t rank) { return segment_->message_board(rank).device; }
  void receive(uint32_t rank, uint32_t from, uint64_t last) {
    boards_[rank]->announce(from, false, last);
    boards_[rank]->enter_batch();
  }
  std::string find(uint32_t rank) {
    const auto cycle = find_wait_cycle(ranks, *boards_[rank], rank, rank_count_);
    return cycle.empty() ? "" : describe(cycle, ranks);
  }

  SetRanks ranks;

 private:
  const uint32_t rank_count_;
  std::shared_ptr<shm::Segment> segment_;
  std::vector<std::unique_ptr<shm::ShmMessages>> boards_;
};

}  // namespace

TEST_CASE("wait cycle: two receives that cross are found by both ranks, from the lowest on") {
  World world(3);
  world.receive(2, 1, 1);
  CHECK(world.find(2).empty());  // rank 1 computes
  world.receive(1, 2, 1);
  for (const uint32_t rank : {1u, 2u})
    CHECK(world.find(rank) == "rank 1 waits in receive 1 from rank 2, which waits in receive 1 from rank 1");
  CHECK(world.find(0).empty());
}

TEST_CASE("wait cycle: edges of different batches are no circle, since they were not true at one moment") {
  World world(2);
  world.receive(0, 1, 1);
  world.receive(1, 0, 1);
  CHECK_FALSE(world.find(0).empty());
  CHECK(find_wait_cycle(world.ranks, MovingBoards(world[0]), 0, 2).empty());
}

TEST_CASE("wait cycle: a rank on a device whose report is being rewritten waits for nobody, whatever it has called") {
  World world(2);
  world.receive(0, 1, 1);
  world.receive(1, 0, 1);
  CHECK_FALSE(world.find(0).empty());
  const WaitReport nothing;
  world[1].publish_waits(&nothing);
  CHECK(world.find(0).empty());
  ++world.device_board(1).waits_version;
  for (const uint32_t rank : {0u, 1u}) CHECK(world.find(rank).empty());
}

TEST_CASE("wait cycle: a rank that waits for a circle is not in it") {
  World world(3);
  world.receive(0, 1, 1);
  world.receive(1, 2, 1);
  world.receive(2, 1, 1);
  CHECK(world.find(0).empty());
  CHECK_FALSE(world.find(1).empty());
}

TEST_CASE("wait cycle: a receive whose send was entered waits for nobody") {
  World world(2);
  world[1].announce(0, true, 1);
  world.receive(1, 0, 1);
  world.receive(0, 1, 1);
  CHECK(world.find(0).empty());
  CHECK(world.find(1).empty());
}

TEST_CASE("wait cycle: a send is an edge only while it is blocked, and while its receiver has entered no more") {
  World world(2);
  for (const uint32_t rank : {0u, 1u}) {
    world[rank].announce(1 - rank, true, 2);
    world[rank].enter_batch();
  }
  CHECK(world.find(0).empty());  // the sender may have free slots
  world[0].block(1, {1, 1});
  world[1].block(0, {1, 1});
  CHECK(world.find(0) == "rank 0 waits in send 1 to rank 1, which waits in send 1 to rank 0");
  // The first send has completed meanwhile, so its published state is old.
  world[0].complete(world[0].begin({1, true, RONDO_INT8, 5, 1}), {1, true, RONDO_INT8, 5, 1},
                    MessageRun::in_call);
  CHECK(world.find(0).empty());
  world[0].block(1, {2, 1});
  CHECK_FALSE(world.find(1).empty());
  // The batch of rank 1 ends, and rank 1's next batch has the receive.
  world[1].complete_batch();
  CHECK(world.find(0).empty());
  world.receive(1, 0, 1);
  CHECK(world.find(0).empty());
}

TEST_CASE("wait cycle: a rank in a collective waits for those whose data it needs") {
  // Rank 0 waits for rank 1, which is in the collective. Rank 1 needs rank 0 if rank 0 or rank 1 is the root.
  struct Needs {
    rondo_collective_t collective;
    bool of_root, at_root;
  };
  constexpr Needs all[] = {{RONDO_ALL_REDUCE, true, true},  {RONDO_BARRIER, true, true},
                           {RONDO_ALL_TO_ALL, true, true},  {RONDO_BROADCAST, true, false},
                           {RONDO_SCATTER, true, false},    {RONDO_REDUCE, false, true},
                           {RONDO_GATHER, false, true}};
  for (const auto &[collective, of_root, at_root] : all) {
    for (const uint32_t root : {0u, 1u}) {
      World world(2);
      world.receive(0, 1, 1);
      world.ranks.calls[1] = {static_cast<uint32_t>(collective), RONDO_INT32, RONDO_SUM, root, 3, 0};
      INFO(rondo_collective_string(collective) << ", root " << root);
      CHECK(world.find(0).empty() != (root == 0 ? of_root : at_root));
      world.ranks.calls[0] = world.ranks.calls[1];
      CHECK(world.find(0).empty());
    }
  }
  World world(2);
  world.receive(0, 1, 1);
  world.ranks.calls[1] = {RONDO_ALL_REDUCE, RONDO_INT32, RONDO_SUM, 0, 0, 0};
  CHECK(world.find(0).empty());  // a call of 0 elements exchanges nothing
  world.ranks.calls[1] = {RONDO_ALL_TO_ALL, RONDO_INT32, RONDO_SUM, 0, 0, counts_of_pairs};
  CHECK(!world.find(0).empty());  // with uneven blocks, ranks exchange all counts
}

TEST_CASE("wait cycle: a send on a device needs the first receive whose slots do not fit into the FIFO") {
  /// Only one head: the transfer `at` of the batch.
  struct OneHead final : TransferHeads {
    const DeviceBatch &batch;
    const size_t at;
    OneHead(const DeviceBatch &of, size_t index) : batch(of), at(index) {}
    size_t head_count() const override { return 1; }
    const Transfer &head(size_t) const override { return batch.transfers()[at]; }
    bool is_blocked(size_t) override { return true; }
    size_t late_head() override { return 0; }
  };
  World world(2);
  std::vector<Transfer> sends(5);
  const uint64_t bytes[] = {0, 64, 64, 65, 129};  // 1, 1, 1, 2 and 3 slots
  for (size_t each = 0; each < sends.size(); ++each) {
    sends[each] = {nullptr, bytes[each], each + 1, 0, 1, RONDO_INT8, true};
    static_cast<void>(world[0].begin({1, true, RONDO_INT8, bytes[each], each + 1}));
  }
  const uint64_t needed[] = {0, 0, 1, 3, 5};  // with two slots of 64 bytes; 0 if it needs none
  for (const bool in_one_batch : {true, false}) {
    for (size_t each = 0; each < sends.size(); ++each) {
      const DeviceBatch batch(in_one_batch ? std::span<const Transfer>(sends) : std::span(&sends[each], 1), 1);
      WaitReport report;
      add_batch(report, OneHead(batch, in_one_batch ? each : 0), batch, {64, 2}, world[0], 0);
      CHECK(report.pairs[1].blocked.needed == needed[each]);
      CHECK(report.pairs[1].blocked.message == (needed[each] != 0 ? each + 1 : 0));
    }
  }
}
