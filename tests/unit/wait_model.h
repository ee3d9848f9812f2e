// SPDX-License-Identifier: Apache-2.0
// This model runs programs of messages and collectives on several hosts in virtual time. Each rank has the watch that
// searches for circles of waiting ranks. Reports between hosts, and credits, arrive late.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <random>

#include "src/engine/transfer_watch.h"
#include "src/links/message_boards.h"
#include "tests/catch.h"
#include "transports/shm/message_board.h"
#include "transports/shm/segment.h"

namespace rondo::test {

constexpr uint64_t slot_bytes = 64, slot_count = 2, ms = 1'000'000;

using Random = std::mt19937_64;

inline uint32_t between(Random &random, uint32_t least, uint32_t most) {
  return static_cast<uint32_t>(least + random() % (uint64_t{most} - least + 1));
}

/// A message, or a collective of all ranks. Ranks take part in the order of the items.
struct Item {
  bool collective = false;
  uint32_t from = 0, to = 0;
  uint64_t bytes = 0;
};

struct Program {
  uint32_t rank_count = 0;
  std::vector<uint32_t> host_of;                  ///< by rank
  std::vector<std::vector<std::vector<Item>>> calls;  ///< by rank: groups of messages, or a collective alone
};

/// Makes a program. If it is not legal, each rank has its items in an order of its own.
inline Program make_program(Random &random, bool legal) {
  Program program;
  program.rank_count = between(random, 2, 5);
  const uint32_t host_count = between(random, 1, 3);
  for (uint32_t rank = 0; rank < program.rank_count; ++rank)
    program.host_of.push_back(between(random, 0, host_count - 1));
  std::vector<Item> items(between(random, 2, 14));
  for (Item &item : items) {
    item.collective = between(random, 0, 4) == 0;
    item.from = between(random, 0, program.rank_count - 1);
    item.to = (item.from + between(random, 1, program.rank_count - 1)) % program.rank_count;
    item.bytes = uint64_t{between(random, 0, 5)} * slot_bytes / 2;
  }
  for (uint32_t rank = 0; rank < program.rank_count; ++rank) {
    std::vector<Item> own;
    for (const Item &item : items)
      if (item.collective || item.from == rank || item.to == rank) own.push_back(item);
    // Messages of one pair keep their order, or their sizes would differ. They are sorted by the pair's first place.
    if (!legal) {
      std::shuffle(own.begin(), own.end(), random);
      std::map<std::pair<uint32_t, uint32_t>, std::deque<Item>> in_order;
      for (const Item &item : items)
        if (!item.collective) in_order[{item.from, item.to}].push_back(item);
      for (Item &item : own) {
        if (item.collective) continue;
        auto &queue = in_order[{item.from, item.to}];
        item = queue.front();
        queue.pop_front();
      }
    }
    auto &calls = program.calls.emplace_back();
    for (const Item &item : own) {
      const bool joins = !calls.empty() && !item.collective && !calls.back().front().collective;
      if (joins && between(random, 0, 2) == 0) calls.back().push_back(item);
      else calls.push_back({item});
    }
  }
  return program;
}

/// The FIFO of a pair and direction. Credit reaches a sender on another host late.
struct Fifo {
  uint64_t posted = 0, consumed = 0, credited = 0;
};

class Model;

/// The collectives of the model's ranks, and the failure.
class ModelRanks final : public Ranks {
 public:
  explicit ModelRanks(Model &model) : model_(model) {}
  void enter(uint64_t, const OperationInfo &) override {}
  void complete(uint64_t, const OperationCost &) override {}
  void fail(uint64_t) override {}
  void set_state(RankState) override {}
  std::optional<OperationInfo> entered(uint32_t, uint64_t) const override {
    return OperationInfo{{RONDO_ALL_REDUCE, RONDO_INT32, RONDO_SUM, 0, 3, 0}, {}, 0};
  }
  uint64_t latest_operation(uint32_t peer) const override;
  uint64_t completed_operation(uint32_t peer) const override;
  RankState state(uint32_t) const override { return RankState::alive; }
  void raise(const Error &error) override { raised = error; }
  bool failed() const override { return raised.has_value(); }
  Error failure() const override { return *raised; }
  std::vector<uint32_t> find_dead() const override { return {}; }
  std::string describe_rank(uint32_t peer) const override { return "rank " + std::to_string(peer); }

  std::optional<Error> raised;

 private:
  Model &model_;
};

/// The boards as the ranks of one host see them.
class HostBoards final : public MessageBoards {
 public:
  HostBoards(Model &model, uint32_t rank) : model_(model), rank_(rank) {}
  void announce(uint32_t, bool, uint64_t) override {}
  void enter_batch() override {}
  uint64_t begin(const MessageInfo &) override { return 0; }
  void complete(uint64_t, const MessageInfo &, bool) override {}
  void fail(uint64_t) override {}
  void complete_batch() override {}
  void block(uint32_t peer, const BlockedSend &send) override;
  bool knows(uint32_t of) const override;
  BatchCounts batches(uint32_t of) const override;
  PairCounts pair(uint32_t of, uint32_t with, bool sends) const override;
  BlockedSend blocked(uint32_t of, uint32_t to) const override;
  std::optional<MessageInfo> find(uint32_t of, uint32_t with, bool sends, uint64_t message) const override;
  bool read_waits(uint32_t of, uint64_t since_ns, WaitReport &report) override;

 private:
  /// A question to another host and its answer, which is written at some time and arrives later.
  struct Asked {
    uint64_t asked_ns = 0, written_ns = 0, arrives_ns = 0;
    std::optional<WaitReport> report;
  };
  Model &model_;
  const uint32_t rank_;
  std::map<uint32_t, Asked> asked_;
};

/// A rank of the model: the call that it is in, and its watch.
class ModelRank final : public TransferHeads {
 public:
  ModelRank(Model &model, uint32_t rank) : model_(model), rank_(rank), boards_(model, rank) {}

  [[nodiscard]] size_t head_count() const override { return heads().size(); }
  [[nodiscard]] const Transfer &head(size_t index) const override { return transfers_[heads()[index]]; }
  [[nodiscard]] bool is_blocked(size_t index) override { return !can_move(heads()[index]); }
  [[nodiscard]] size_t late_head() override { return 0; }
  [[nodiscard]] SlotUse posted_slots(size_t index) const override {
    return {moved_[heads()[index]], slot_bytes, slot_count};
  }

  /// Makes one move. Returns false if there is none.
  bool move();
  void look(uint64_t now_ns) {
    if (watch_ && !heads().empty()) static_cast<void>(watch_->look(now_ns));
  }
  [[nodiscard]] bool done() const { return next_ == calls().size() && !inside_; }

  uint64_t entered = 0, completed = 0;  ///< collectives

 private:
  [[nodiscard]] const std::vector<std::vector<Item>> &calls() const;
  [[nodiscard]] std::vector<size_t> heads() const;
  [[nodiscard]] bool can_move(size_t transfer) const;
  void enter_messages(const std::vector<Item> &items);
  bool move_slot();

  Model &model_;
  const uint32_t rank_;
  HostBoards boards_;
  size_t next_ = 0;      ///< index of the next call
  bool inside_ = false;  ///< inside call next_ - 1
  std::vector<Transfer> transfers_;
  std::vector<uint64_t> moved_, records_;  ///< by transfer: slots, and its record
  std::map<std::pair<uint32_t, bool>, uint64_t> numbers_;
  std::optional<TransferWatch> watch_;
};

inline uint64_t slots_of(const Transfer &transfer) {
  return std::max<uint64_t>(1, (transfer.bytes + slot_bytes - 1) / slot_bytes);
}

class Model {
 public:
  Model(Random &random_of, Program made) : random(random_of), program(std::move(made)), ranks(*this) {
    shm::SegmentShape shape;
    shape.rank_count = program.rank_count;
    shape.geometry = {2, 64, 64};
    segment_ = shm::Segment::create({1, 2}, shape).value();
    REQUIRE(segment_->open_messages().ok());
    for (uint32_t rank = 0; rank < program.rank_count; ++rank) {
      shared.push_back(std::make_unique<shm::ShmMessages>(segment_, rank));
      all.push_back(std::make_unique<ModelRank>(*this, rank));
    }
  }

  /// Runs until all ranks are done, or nothing can move and the watch has had time to find out.
  void run() {
    for (uint32_t still = 0; still < 1000 && !ranks.failed();) {
      if (done()) return;
      now_ns += between(random, 0, 8) == 0 ? 60 * ms : between(random, 0, 2) * ms;  // now and then a rank computes
      bool moved = give_credit();
      const uint32_t first = between(random, 0, program.rank_count - 1), count = between(random, 0, 2);
      for (uint32_t each = 0; each < count; ++each) moved |= all[(first + each) % program.rank_count]->move();
      all[between(random, 0, program.rank_count - 1)]->look(now_ns);
      still = moved ? 0 : still + 1;
    }
  }
  /// Goes on without the watch. Returns whether all ranks get done.
  [[nodiscard]] bool can_end() {
    for (bool moved = true; moved;) {
      moved = give_credit(true);
      for (const auto &rank : all) moved |= rank->move();
    }
    return done();
  }
  [[nodiscard]] bool done() const {
    return std::ranges::all_of(all, [](const auto &rank) { return rank->done(); });
  }

  Random &random;
  const Program program;
  ModelRanks ranks;
  uint64_t now_ns = 1000 * ms;
  std::map<std::pair<uint32_t, uint32_t>, Fifo> fifos;
  std::vector<std::unique_ptr<shm::ShmMessages>> shared;
  std::vector<std::unique_ptr<ModelRank>> all;

 private:
  bool give_credit(bool always = false) {
    bool given = false;
    for (auto &[ends, fifo] : fifos) {
      if (fifo.credited == fifo.consumed || (!always && between(random, 0, 3) != 0)) continue;
      fifo.credited = fifo.consumed;
      given = true;
    }
    return given;
  }

  std::shared_ptr<shm::Segment> segment_;
};

inline uint64_t ModelRanks::latest_operation(uint32_t peer) const { return model_.all[peer]->entered; }
inline uint64_t ModelRanks::completed_operation(uint32_t peer) const { return model_.all[peer]->completed; }

inline bool HostBoards::knows(uint32_t of) const { return model_.program.host_of[of] == model_.program.host_of[rank_]; }
inline void HostBoards::block(uint32_t peer, const BlockedSend &send) { model_.shared[rank_]->block(peer, send); }
inline BatchCounts HostBoards::batches(uint32_t of) const {
  return knows(of) ? model_.shared[of]->batches(of) : BatchCounts{};
}
inline PairCounts HostBoards::pair(uint32_t of, uint32_t with, bool sends) const {
  return knows(of) ? model_.shared[of]->pair(of, with, sends) : PairCounts{};
}
inline BlockedSend HostBoards::blocked(uint32_t of, uint32_t to) const {
  return knows(of) ? model_.shared[of]->blocked(of, to) : BlockedSend{};
}
inline std::optional<MessageInfo> HostBoards::find(uint32_t of, uint32_t with, bool sends, uint64_t message) const {
  return knows(of) ? model_.shared[of]->find(of, with, sends, message) : std::nullopt;
}

inline bool HostBoards::read_waits(uint32_t of, uint64_t since_ns, WaitReport &report) {
  Asked &asked = asked_[of];
  if (asked.asked_ns < since_ns || asked.asked_ns == 0) {
    const uint64_t written_ns = model_.now_ns + between(model_.random, 0, 20) * ms;
    asked = {model_.now_ns, written_ns, written_ns + between(model_.random, 0, 20) * ms, std::nullopt};
  }
  if (!asked.report && model_.now_ns >= asked.written_ns) {
    const ModelRank &rank = *model_.all[of];
    const shm::ShmMessages &board = *model_.shared[of];
    WaitReport &written = asked.report.emplace();
    written.completed = rank.completed;
    written.entered = rank.entered;
    written.batches = board.batches(of);
    for (uint32_t with = 0; with < model_.program.rank_count; ++with)
      written.pairs[with] = {board.pair(of, with, true), board.pair(of, with, false), board.blocked(of, with)};
  }
  if (!asked.report || model_.now_ns < asked.arrives_ns) return false;
  report = *asked.report;
  return true;
}

inline const std::vector<std::vector<Item>> &ModelRank::calls() const { return model_.program.calls[rank_]; }

/// Returns the first incomplete transfer of each queue.
inline std::vector<size_t> ModelRank::heads() const {
  std::vector<size_t> found;
  std::map<std::pair<uint32_t, bool>, bool> seen;
  for (size_t each = 0; each < transfers_.size(); ++each) {
    const Transfer &transfer = transfers_[each];
    if (moved_[each] == slots_of(transfer) || seen[{transfer.peer, transfer.sends}]) continue;
    seen[{transfer.peer, transfer.sends}] = true;
    found.push_back(each);
  }
  return found;
}

inline bool ModelRank::can_move(size_t index) const {
  const Transfer &transfer = transfers_[index];
  const auto ends = transfer.sends ? std::pair(rank_, transfer.peer) : std::pair(transfer.peer, rank_);
  const Fifo &fifo = model_.fifos[ends];
  const bool near = model_.program.host_of[rank_] == model_.program.host_of[transfer.peer];
  const uint64_t free_from = near ? fifo.consumed : fifo.credited;
  return transfer.sends ? fifo.posted - free_from < slot_count : fifo.posted > fifo.consumed;
}

inline bool ModelRank::move() {
  if (!inside_) {
    if (next_ == calls().size()) return false;
    const std::vector<Item> &items = calls()[next_++];
    inside_ = true;
    if (items.front().collective) ++entered;
    else enter_messages(items);
    return true;
  }
  if (entered > completed) {
    const bool all_in = std::ranges::all_of(model_.all, [&](const auto &rank) { return rank->entered >= entered; });
    if (!all_in) return false;
    ++completed;
    inside_ = false;
    return true;
  }
  if (move_slot()) return true;
  if (!heads().empty()) return false;
  model_.shared[rank_]->complete_batch();
  watch_.reset();
  inside_ = false;
  return true;
}

inline void ModelRank::enter_messages(const std::vector<Item> &items) {
  shm::ShmMessages &board = *model_.shared[rank_];
  transfers_.clear();
  for (const Item &item : items) {
    Transfer transfer;
    transfer.sends = item.from == rank_;
    transfer.peer = transfer.sends ? item.to : item.from;
    transfer.bytes = item.bytes;
    transfer.message = ++numbers_[{transfer.peer, transfer.sends}];
    transfers_.push_back(transfer);
    board.announce(transfer.peer, transfer.sends, transfer.message);
  }
  moved_.assign(transfers_.size(), 0);
  records_.assign(transfers_.size(), 0);
  board.enter_batch();
  watch_.emplace(model_.ranks, boards_, *this, rank_, model_.program.rank_count, UINT64_MAX);
}

/// Moves a slot of the first head that can move.
inline bool ModelRank::move_slot() {
  shm::ShmMessages &board = *model_.shared[rank_];
  for (const size_t index : heads()) {
    const Transfer &transfer = transfers_[index];
    if (records_[index] == 0) records_[index] = board.begin(info_of(transfer));
    if (!can_move(index)) continue;
    Fifo &fifo = model_.fifos[transfer.sends ? std::pair(rank_, transfer.peer) : std::pair(transfer.peer, rank_)];
    ++(transfer.sends ? fifo.posted : fifo.consumed);
    if (++moved_[index] == slots_of(transfer)) board.complete(records_[index], info_of(transfer), true);
    return true;
  }
  return false;
}

}  // namespace rondo::test
