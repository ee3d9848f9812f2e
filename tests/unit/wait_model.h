// SPDX-License-Identifier: Apache-2.0
// This model runs programs of messages and collectives on several hosts in virtual time. Each rank has the watch that
// searches for circles of waiting ranks. Reports between hosts arrive late, and so do credits. Ranks on devices make
// calls before earlier ones run. At times, their monitors publish for which transfers the devices wait.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "src/engine/transfer_watch.h"
#include "src/engine/wait_cycle.h"
#include "tests/catch.h"
#include "tests/quiet_boards.h"
#include "tests/unit/wait_program.h"
#include "transports/shm/message_board.h"
#include "transports/shm/segment.h"

namespace rondo::test {

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
class HostBoards final : public rondo_test::QuietBoards {
 public:
  HostBoards(Model &model, uint32_t rank) : model_(model), rank_(rank) {}
  void block(uint32_t peer, const BlockedSend &send) override;
  bool knows(uint32_t of) const override;
  BatchCounts batches(uint32_t of) const override;
  PairCounts pair(uint32_t of, uint32_t with, bool sends) const override;
  BlockedSend blocked(uint32_t of, uint32_t to) const override;
  std::optional<MessageInfo> find(uint32_t of, uint32_t with, bool sends, uint64_t message) const override;
  bool device_waits(uint32_t of, WaitReport &report) const override;
  bool read_waits(uint32_t of, uint64_t since_ns, WaitReport &report) override;

 private:
  /// A query to another host, and its answer. The answer is written at some time and arrives later.
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
  [[nodiscard]] const Transfer &head(size_t index) const override {
    return batch_ ? batch_->transfers()[heads()[index]] : transfers_[heads()[index]];
  }
  [[nodiscard]] bool reads_slots() const override { return !batch_; }
  [[nodiscard]] bool is_blocked(size_t index) override { return !can_move(heads()[index]); }
  [[nodiscard]] size_t late_head() override { return 0; }
  [[nodiscard]] SlotUse posted_slots(size_t index) const override {
    return {moved_[heads()[index]], slot_bytes, slot_count};
  }

  /// Makes one move. Returns false if there is none.
  bool move();
  void look(uint64_t now_ns);
  [[nodiscard]] bool done() const { return next_ == calls().size() && !inside_; }

  uint64_t entered = 0, begun = 0, completed = 0;  ///< collectives; on a host, `entered` and `begun` are equal

 private:
  [[nodiscard]] const std::vector<std::vector<Item>> &calls() const;
  [[nodiscard]] std::vector<size_t> heads() const;
  [[nodiscard]] bool can_move(size_t transfer) const;
  /// The messages of a call, and their records.
  struct Called {
    std::vector<Transfer> transfers;
    std::vector<uint64_t> records;
  };
  static constexpr size_t ahead_max = 4;  ///< calls that a device may not have begun

  void call();
  bool run();
  void begin_messages();
  void end_messages();
  bool move_slot();

  Model &model_;
  const uint32_t rank_;
  HostBoards boards_;
  size_t called_ = 0;    ///< number of calls that were made
  size_t next_ = 0;      ///< index of the next call to begin
  bool inside_ = false;  ///< inside call next_ - 1
  std::deque<Called> later_;  ///< messages of the calls that have not begun
  std::optional<DeviceBatch> batch_;  ///< on a device: the messages that run
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

  /// Runs until all ranks are done, or until nothing can move and the watch has had time to detect that.
  void run() {
    for (uint32_t still = 0; still < 1000 && !ranks.failed();) {
      if (done()) return;
      now_ns += between(random, 0, 8) == 0 ? 60 * ms : between(random, 0, 2) * ms;  // at times a rank computes
      bool moved = give_credit();
      const uint32_t first = between(random, 0, program.rank_count - 1), count = between(random, 0, 2);
      for (uint32_t each = 0; each < count; ++each) moved |= all[(first + each) % program.rank_count]->move();
      all[between(random, 0, program.rank_count - 1)]->look(now_ns);
      still = moved ? 0 : still + 1;
    }
  }
  /// Continues without the watch. Returns whether all ranks end.
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

inline bool HostBoards::device_waits(uint32_t of, WaitReport &report) const {
  return knows(of) && model_.shared[of]->device_waits(of, report);
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
    const bool on_device = board.device_waits(of, written);
    for (uint32_t with = 0; !on_device && with < model_.program.rank_count; ++with)
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
  const bool may_call = called_ < calls().size() && called_ - next_ < ahead_max;
  if (!model_.program.on_device) {
    if (!inside_ && may_call) call();
    return run();
  }
  if (may_call && between(model_.random, 0, 1) == 0) return call(), true;
  if (run()) return true;
  if (may_call) call();
  return may_call;
}

/// Begins the next operation that was called, or makes a move of the present one.
inline bool ModelRank::run() {
  if (!inside_) {
    if (next_ == called_) return false;
    inside_ = true;
    if (calls()[next_++].front().collective) ++begun;
    else begin_messages();
    return true;
  }
  if (begun > completed) {
    const bool all_in = std::ranges::all_of(model_.all, [&](const auto &rank) { return rank->begun >= begun; });
    if (!all_in) return false;
    ++completed;
    inside_ = false;
    return true;
  }
  if (move_slot()) return true;
  if (!heads().empty()) return false;
  end_messages();
  inside_ = false;
  return true;
}

inline void ModelRank::call() {
  const std::vector<Item> &items = calls()[called_++];
  if (items.front().collective) {
    ++entered;
    return;
  }
  shm::ShmMessages &board = *model_.shared[rank_];
  Called &made = later_.emplace_back();
  for (const Item &item : items) {
    Transfer transfer;
    transfer.sends = item.from == rank_;
    transfer.peer = transfer.sends ? item.to : item.from;
    transfer.bytes = item.bytes;
    transfer.message = ++numbers_[{transfer.peer, transfer.sends}];
    made.transfers.push_back(transfer);
    board.announce(transfer.peer, transfer.sends, transfer.message);
  }
  board.enter_batch();
  made.records.assign(items.size(), 0);
  for (size_t each = 0; model_.program.on_device && each < items.size(); ++each)
    made.records[each] = board.begin(info_of(made.transfers[each]));
}

inline void ModelRank::begin_messages() {
  transfers_ = later_.front().transfers;
  records_ = later_.front().records;
  later_.pop_front();
  moved_.assign(transfers_.size(), 0);
  if (model_.program.on_device) batch_.emplace(transfers_, 1);
  watch_.emplace(model_.ranks, boards_, *this, rank_, model_.program.rank_count, UINT64_MAX);
}

inline void ModelRank::end_messages() {
  shm::ShmMessages &board = *model_.shared[rank_];
  for (size_t each = 0; batch_ && each < transfers_.size(); ++each)
    board.complete(records_[each], info_of(transfers_[each]), MessageRun::behind);
  board.complete_batch();
  watch_.reset();
  batch_.reset();
}

inline void ModelRank::look(uint64_t now_ns) {
  if (model_.program.on_device && inside_ && between(model_.random, 0, 3) == 0) {
    shm::ShmMessages &board = *model_.shared[rank_];
    WaitReport report = count_called(model_.ranks, board, rank_, model_.program.rank_count);
    for (const Called &later : later_) remove_later(report, later.transfers);
    if (batch_) add_batch(report, *this, *batch_, {slot_bytes, slot_count}, board, rank_);
    else add_collective(report, begun);
    board.publish_waits(&report);
  }
  if (watch_ && !heads().empty()) static_cast<void>(watch_->look(now_ns));
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
    if (++moved_[index] == slots_of(transfer) && !batch_)
      board.complete(records_[index], info_of(transfer), MessageRun::in_call);
    return true;
  }
  return false;
}

}  // namespace rondo::test
