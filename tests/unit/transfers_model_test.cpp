// SPDX-License-Identifier: Apache-2.0
// This model runs small groups of messages in every order in which the queues of all ranks can be visited. So it shows
// for these groups what docs/messages.md proves for all: something can always move until all messages are complete.
// A visit is one step here: it moves what it can, up to its limit. Each end of a FIFO has one writer.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>

#include "src/plan/plan.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/transfers_world.h"

using namespace rondo;
using namespace rondo_test;

namespace {

/// A group of each of two or three ranks. `bytes[from][to]` has the sizes of the messages between two ranks.
struct SmallGroup {
  using Sizes = std::vector<uint64_t>;
  uint32_t rank_count = 2;
  uint32_t slot_count = 1;
  Sizes bytes[3][3];
};

/// All ranks of a group at one moment of their run.
class Moment {
 public:
  explicit Moment(const SmallGroup &group)
      : connections_(group.rank_count, {group.slot_count, slot_bytes, 0}), choices_(2 * group.rank_count) {
    for (uint32_t rank = 0; rank < group.rank_count; ++rank)
      ranks_.push_back(std::make_unique<Rank>(connections_.of(rank)));
    for (uint32_t from = 0; from < group.rank_count; ++from)
      for (uint32_t to = 0; to < group.rank_count; ++to) add(from, to, group.bytes[from][to]);
    for (const auto &rank : ranks_) {
      rank->queues.load(rank->transfers);
      rank->queues.start(rank->observer);
    }
  }

  static constexpr uint32_t slot_bytes = 64;

  /// Returns the number of queues of all ranks. A number below it names a queue.
  [[nodiscard]] uint32_t choice_count() const { return choices_ * static_cast<uint32_t>(ranks_.size()); }
  /// Visits the queue if it is not empty, and is among the first `window` of its rank. A rank's next peers come first.
  /// Returns true if something moved.
  bool visit(uint32_t choice, size_t window) {
    Rank &rank = *ranks_[choice / choices_];
    const uint32_t place = choice % choices_;  // 2 * the distance to the peer + whether it sends
    const auto count = static_cast<uint32_t>(ranks_.size());
    const auto place_of = [&](const TransferQueue *queue) {
      return 2 * ((queue->peer + count - choice / choices_) % count) + (queue->sends ? 1 : 0);
    };
    const auto active = rank.queues.active();
    const auto at =
        std::find_if(active.begin(), active.end(), [&](const auto *each) { return place_of(each) == place; });
    const auto before =
        std::count_if(active.begin(), active.end(), [&](const auto *each) { return place_of(each) < place; });
    if (at == active.end() || static_cast<size_t>(before) >= window) return false;
    const Progress progress = rank.queues.visit(static_cast<size_t>(at - active.begin()));
    right_ &= progress != Progress::failed;
    return progress == Progress::moved || progress == Progress::done;
  }
  [[nodiscard]] bool done() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const auto &rank) { return rank->queues.done(); });
  }
  /// After the end, returns whether all messages have arrived.
  [[nodiscard]] bool right() const { return right_ && out_ == in_; }
  /// Returns how far each queue is. What happens next depends only on this.
  [[nodiscard]] std::vector<uint64_t> key() const {
    std::vector<uint64_t> key(choice_count());
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      for (const TransferQueue *queue : ranks_[rank]->queues.active()) {
        uint64_t count = 0;
        for (const Transfer *each = queue->first; each != nullptr; each = each->next) ++count;
        const uint64_t rest = !queue->begun ? queue->head().bytes : queue->state.rest.count;
        const bool waits_for_slots = !queue->begun || queue->state.loaded;
        key[rank * choices_ + 2 * queue->peer + (queue->sends ? 1 : 0)] = (count << 32 | rest) * 2 + waits_for_slots;
      }
    return key;
  }

 private:
  struct Rank {
    explicit Rank(const std::vector<MessageLinks::Peer> &peers_of) : links(peers_of, peers, false), queues(links) {}
    rondo::test::LocalPeers peers;
    MessageLinks links;
    TransferQueues queues;
    Exporter observer;
    std::vector<Transfer> transfers;
  };

  void add(uint32_t from, uint32_t to, const SmallGroup::Sizes &sizes) {
    OperationSequence sequence;
    for (const uint64_t bytes : sizes) {
      sequence.add(bytes);
      const auto contents = std::vector<std::byte>(bytes, static_cast<std::byte>(16 * from + 4 * to + sequence.number));
      out_.push_back(contents);
      in_.emplace_back(bytes);
      const auto transfer = [&](std::vector<std::byte> &buffer, uint32_t peer, bool sends) {
        return Transfer{buffer.data(), bytes, sequence.number, fingerprint(sequence.history), peer, 0, sends, nullptr};
      };
      ranks_[from]->transfers.push_back(transfer(out_.back(), to, true));
      ranks_[to]->transfers.push_back(transfer(in_.back(), from, false));
    }
  }

  const Connections connections_;
  const uint32_t choices_;  ///< of each rank
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<std::vector<std::byte>> out_, in_;  ///< by message
  bool right_ = true;
};

/// Runs a group in every order of visits. Each state is continued once.
class TransfersModel {
 public:
  TransfersModel(const SmallGroup &group, size_t window) : group_(group), window_(window) {
    explore(std::make_unique<Moment>(group));
  }

  [[nodiscard]] Outcome outcome() const { return !right_ ? Outcome::wrong : stuck_ ? Outcome::stuck : Outcome::right; }
  [[nodiscard]] size_t state_count() const { return seen_.size(); }

 private:
  /// Continues from the state to which `path_` leads. A visit that moves nothing does not change the state.
  void explore(std::unique_ptr<Moment> moment) {  // as deep as the group has slices
    if (moment->done()) right_ &= moment->right();  // in every order, though all orders end in one state
    if (!seen_.insert(moment->key()).second || moment->done()) return;
    bool moves = false;
    const uint32_t choice_count = moment->choice_count();
    for (uint32_t choice = 0; choice < choice_count; ++choice) {
      if (moment == nullptr) {
        moment = std::make_unique<Moment>(group_);
        for (const uint32_t earlier : path_) static_cast<void>(moment->visit(earlier, window_));
      }
      if (!moment->visit(choice, window_)) continue;
      moves = true;
      path_.push_back(choice);
      explore(std::move(moment));
      path_.pop_back();
    }
    stuck_ |= !moves;
  }

  const SmallGroup &group_;
  const size_t window_;
  std::vector<uint32_t> path_;  ///< the visits so far that have moved something
  std::set<std::vector<uint64_t>> seen_;
  bool right_ = true, stuck_ = false;
};

/// Calls `check` with small groups: all of two ranks, and of three ranks those with few sizes.
void each_small_group(const std::function<void(const SmallGroup &)> &check) {
  // Nothing, a payload in the header, one slot, and more slots than a FIFO has. Second messages go by reference.
  constexpr uint64_t sizes[] = {0, 8, 64, 192};
  std::vector<SmallGroup::Sizes> lists{{}};
  for (const uint64_t first : sizes) {
    lists.push_back({first});
    for (const uint64_t second : sizes) lists.push_back({first, second});
  }
  for (const uint32_t slot_count : {1u, 2u}) {
    for (const SmallGroup::Sizes &there : lists)
      for (const SmallGroup::Sizes &back : lists) check({2, slot_count, {{{}, there}, {back}}});
    for (uint32_t pairs = 0; pairs < 64; ++pairs) {  // which of the six pairs have a message
      if (std::popcount(pairs) > 3) continue;        // more of these would have too many states
      const auto list = [&](uint32_t pair) { return SmallGroup::Sizes(pairs >> pair & 1, 192); };
      check({3, slot_count, {{{}, list(0), list(1)}, {list(2), {}, list(3)}, {list(4), list(5)}}});
    }
    const SmallGroup::Sizes two{64, 64};
    check({3, slot_count, {{{}, two, two}, {two, {}, two}, {two, two}}});
  }
}

}  // namespace

TEST_CASE("transfers: small groups end in every order of visits, with one and two slots a pair") {
  size_t state_count = 0, group_count = 0;
  each_small_group([&](const SmallGroup &group) {
    if (sanitized() && ++group_count % 16 != 0) return;  // all of them take a minute there
    const TransfersModel model(group, SIZE_MAX);
    REQUIRE(model.outcome() == Outcome::right);
    state_count += model.state_count();
  });
  std::printf("%zu states\n", state_count);
}

TEST_CASE("transfers: the model finds a rank that visits only a window of its peers") {
  for (const size_t window : {1u, 2u}) {
    size_t stuck_count = 0;
    each_small_group([&](const SmallGroup &group) {
      // A window of two queues has both directions of a peer. So only three ranks can wait in a circle.
      if (stuck_count == 0 && group.rank_count == window + 1)
        stuck_count += TransfersModel(group, window).outcome() == Outcome::stuck ? 1 : 0;
    });
    CHECK(stuck_count == 1);
  }
}
