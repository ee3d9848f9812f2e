// SPDX-License-Identifier: Apache-2.0
// These tests run queues of messages over connections in plain memory. One thread runs all ranks, and a seed picks the
// rank that moves next. So the test notices at once, without a clock, that a program has stopped.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

#include "src/engine/run_transfers.h"
#include "src/plan/plan.h"
#include "tests/catch.h"
#include "tests/message_program.h"
#include "tests/unit/executor_world.h"

using namespace rondo;
using namespace rondo_test;

namespace {

constexpr uint64_t seed_count = 300;

/// The connections of all pairs, with very few small slots.
class Connections {
 public:
  explicit Connections(uint32_t rank_count) : rank_count_(rank_count) {
    const size_t stride = (geometry_.bytes() + 63) / 64 * 64;
    memory_.resize(stride * rank_count * rank_count + 64);
    base_ = reinterpret_cast<std::byte *>((reinterpret_cast<uintptr_t>(memory_.data()) + 63) / 64 * 64);
    stride_ = stride;
  }
  [[nodiscard]] std::vector<MessageLinks::Peer> of(uint32_t rank) const {
    std::vector<MessageLinks::Peer> peers;
    for (uint32_t peer = 0; peer < rank_count_; ++peer)
      peers.push_back({view(rank, peer), view(peer, rank), kind_bit(PayloadKind::address)});
    return peers;
  }

 private:
  [[nodiscard]] ConnectionView view(uint32_t from, uint32_t to) const {
    return {base_ + stride_ * (from * rank_count_ + to), geometry_};
  }

  const ConnectionGeometry geometry_{2, 256, 0};
  const uint32_t rank_count_;
  std::vector<std::byte> memory_;
  std::byte *base_ = nullptr;
  size_t stride_ = 0;
};

/// Exports every other buffer that is not empty, so that its slots are references.
class Exporter final : public TransferObserver {
 public:
  void begin(TransferQueue &queue) override {
    ++begun;
    const bool exports = queue.sends && queue.head().bytes != 0 && queue.head().message % 2 == 0;
    queue.buffers.send.handle.exported = exports;
  }
  void complete(TransferQueue &) override { ++completed; }
  uint32_t begun = 0, completed = 0;
};

/// One rank's way through a program.
class Runner {
 public:
  Runner(const MessageProgram &program, uint32_t rank, const Connections &connections)
      : program_(program), rank_(rank), links_(connections.of(rank), peers_, false), queues_(links_) {
    next_batch();
  }

  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] bool right() const { return right_ && (!done() || exporter_.begun == exporter_.completed); }

  /// Visits up to `window` queues, in the order of peers. Returns true if something moved.
  bool step(size_t window) {
    const auto active = queues_.active();
    std::vector<const TransferQueue *> heads(active.begin(), active.end());
    const auto place = [](const TransferQueue *queue) { return std::pair(queue->peer, queue->sends); };
    std::sort(heads.begin(), heads.end(), [&](const auto *a, const auto *b) { return place(a) < place(b); });
    heads.resize(std::min(window, heads.size()));
    bool moved = false;
    for (const TransferQueue *head : heads) {
      const Progress progress = queues_.visit(index_of(head));
      if (progress == Progress::failed) right_ = false;
      moved |= progress == Progress::moved || progress == Progress::done;
    }
    if (queues_.done()) finish_batch();
    return moved;
  }

 private:
  void next_batch() {
    transfers_.clear();
    buffers_.clear();
    const auto &cuts = program_.cuts[rank_];
    done_ = batch_ == cuts.size();
    if (done_) return;
    const size_t end = batch_ + 1 < cuts.size() ? cuts[batch_ + 1] : program_.items.size();
    for (size_t index = cuts[batch_]; index < end; ++index)
      if (program_.items[index].concerns(rank_)) add(program_.items[index]);
    ++batch_;
    queues_.load(transfers_);
    queues_.start(exporter_);
  }

  size_t index_of(const TransferQueue *head) {
    size_t index = 0;
    while (queues_.active()[index] != head) ++index;
    return index;
  }

  void add(const Item &item) {
    const bool sends = item.from == rank_;
    const uint32_t peer = sends ? item.to : item.from;
    OperationSequence &sequence = sequences_[{peer, sends}];
    sequence.add(item.bytes);
    buffers_.push_back({&item, sends ? contents_of(item) : std::vector<std::byte>(item.bytes)});
    Transfer transfer;
    transfer.data = buffers_.back().bytes.data();
    transfer.bytes = item.bytes;
    transfer.message = sequence.number;
    transfer.signature = fingerprint(sequence.history);
    transfer.peer = peer;
    transfer.sends = sends;
    transfers_.push_back(transfer);
  }

  void finish_batch() {
    for (const Buffer &buffer : buffers_) right_ &= buffer.bytes == contents_of(*buffer.item);
    next_batch();
  }

  struct Buffer {
    const Item *item = nullptr;
    std::vector<std::byte> bytes;
  };

  const MessageProgram &program_;
  const uint32_t rank_;
  rondo::test::LocalPeers peers_;
  MessageLinks links_;
  Exporter exporter_;
  std::map<std::pair<uint32_t, bool>, OperationSequence> sequences_;
  std::vector<Transfer> transfers_;
  std::vector<Buffer> buffers_;
  TransferQueues queues_;
  bool done_ = false;
  size_t batch_ = 0;
  bool right_ = true;
};

enum class Outcome { right, wrong, stuck };

/// Runs the program of `seed`. In each step, a rank visits at most `window` of its queues.
Outcome run(uint64_t seed, size_t window) {
  ProgramMaker::Limits limits;
  limits.comms_max = 1;
  limits.bytes_max = 3'000;
  limits.collectives = limits.self_messages = false;
  const MessageProgram program = ProgramMaker(seed, limits).make();
  const Connections connections(program.rank_count);
  std::vector<std::unique_ptr<Runner>> ranks;
  for (uint32_t rank = 0; rank < program.rank_count; ++rank)
    ranks.push_back(std::make_unique<Runner>(program, rank, connections));
  std::mt19937_64 random(seed);
  for (uint32_t idle = 0; idle < 64 * program.rank_count;) {
    const size_t rank = random() % program.rank_count;
    const bool moved = !ranks[rank]->done() && ranks[rank]->step(window);
    idle = moved ? 0 : idle + 1;
  }
  for (const auto &rank : ranks) {
    if (!rank->right()) return Outcome::wrong;
  }
  for (const auto &rank : ranks)
    if (!rank->done()) return Outcome::stuck;
  return Outcome::right;
}

}  // namespace

TEST_CASE("transfers: random programs end, whoever moves first, with two slots a pair") {
  for (uint64_t seed = 1; seed <= seed_count; ++seed) {
    INFO("seed " << seed);
    REQUIRE(run(seed, SIZE_MAX) == Outcome::right);
  }
}

TEST_CASE("transfers: the random programs find a rank that visits only a window of its peers") {
  for (const size_t window : {1u, 2u, 4u}) {
    uint64_t seed = 1;
    while (seed <= 100 && run(seed, window) == Outcome::right) ++seed;
    INFO("window " << window);
    CHECK(seed <= 100);
    CHECK(run(seed, window) == Outcome::stuck);
  }
}

TEST_CASE("transfers: a message of another size fails at its first slot, and one of 0 bytes is exchanged") {
  const Connections connections(2);
  rondo::test::LocalPeers peers;
  MessageLinks first(connections.of(0), peers, false), second(connections.of(1), peers, false);
  Exporter observer;
  std::vector<std::byte> buffer(600);
  const auto transfer = [&](bool sends, uint64_t bytes, OperationSequence &sequence) {
    sequence.add(bytes);
    const uint32_t peer = sends ? 1 : 0;
    return Transfer{buffer.data(), bytes, sequence.number, fingerprint(sequence.history), peer, 0, sends, nullptr};
  };
  OperationSequence sent, received;
  std::vector<Transfer> sends{transfer(true, 0, sent), transfer(true, 500, sent)};
  std::vector<Transfer> receives{transfer(false, 0, received), transfer(false, 501, received)};
  TransferQueues out(first), in(second);
  out.load(sends);
  in.load(receives);
  out.start(observer);
  in.start(observer);
  CHECK(in.round() == Progress::blocked);
  CHECK(in.active().front()->is_blocked());
  CHECK(out.round() == Progress::moved);
  CHECK(in.round() == Progress::failed);
  CHECK(in.faulty().head().message == 2);
  CHECK(in.faulty().state.fault == Fault::foreign_slot);
}
