// SPDX-License-Identifier: Apache-2.0
// This file tests the order of one_shots on devices (cuda/kernels/load_store_place.h) by all interleavings of their
// accesses. Each kernel stores its words for all readers, loads the words of all peers, and clears what it must. It
// does so in any order, because its threads do not wait for each other. The next kernel begins when all that is done.
// Posts have one word, but some of rank 0 have two. Flags repeat after 8 posts. Rank 0 clears in two of 4 posts. Faults
// are planted and must be found.
#include <cstdio>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cuda/kernels/load_store_place.h"
#include "tests/catch.h"
#include "tests/gpu/settings.h"

namespace {

struct Rules {
  bool pushes = true;
  uint32_t area_count = 2;
  uint32_t sweep_period = 4;      ///< of posts: flags repeat after 8
  uint32_t peers_not_seen = 0;    ///< a kernel ends without the words of this number of peers
  bool posts_nothing_once = false;  ///< rank 0's post 3 has no word, not even the first one
};

class Model {
 public:
  Model(uint32_t rank_count, uint32_t post_count, const Rules &rules)
      : ranks_(rank_count), posts_(post_count), rules_(rules) {}

  /// Returns what is wrong in one of the interleavings, or "".
  [[nodiscard]] std::string explore() {
    std::vector<std::string> open{begin()};
    std::unordered_set<std::string> seen(open.begin(), open.end());
    while (!open.empty()) {
      const std::string state = open.back();
      open.pop_back();
      bool moves = false;
      for (uint32_t rank = 0; rank < ranks_; ++rank)
        for (uint32_t action = 0; action < actions_of(rank, number(state, rank)).size(); ++action) {
          std::string next = state;
          if (!act(next, rank, action)) continue;
          if (!problem_.empty()) return problem_;
          moves = true;
          if (seen.insert(next).second) open.push_back(next);
        }
      bool ended = true;
      for (uint32_t rank = 0; rank < ranks_; ++rank) ended = ended && number(state, rank) > posts_;
      if (!moves && !ended) return "a rank waits for ever";
    }
    state_count = seen.size();
    return {};
  }

  uint64_t state_count = 0;

 private:
  static constexpr uint32_t words_max = 2, flag_period = 8;
  enum class Kind { store, load, clear };
  struct Action {
    Kind kind;
    uint32_t peer, word;
  };

  /// Returns the words of a post. Only rank 0 has long posts, and they have equal flags.
  [[nodiscard]] uint32_t words_of(uint32_t rank, uint32_t number) const {
    if (rules_.posts_nothing_once && rank == 0 && number == 3) return 0;
    return rank == 0 && number % flag_period == 1 ? 2 : 1;
  }

  // A state has the number of each rank's post, the actions that it has done, and the number in each word.
  [[nodiscard]] std::string begin() const {
    std::string state;
    for (uint32_t rank = 0; rank < ranks_; ++rank) state += {'\1', '\0', '\0'};
    return state + std::string(size_t{ranks_} * ranks_ * 2 * words_max, '\0');
  }
  [[nodiscard]] uint32_t number(const std::string &state, uint32_t rank) const {
    return static_cast<uint8_t>(state[3 * rank]);
  }
  [[nodiscard]] char &word(std::string &state, uint32_t number, uint32_t by, uint32_t reader, uint32_t index) const {
    const uint32_t place = rules_.pushes ? reader : by;
    const uint32_t column = (place * ranks_ + by) * 2 + number % rules_.area_count;
    return state[3 * ranks_ + column * words_max + index];
  }

  /// Returns the actions of a kernel. A rank's own words are left out, since no other rank reads them for it.
  [[nodiscard]] std::vector<Action> actions_of(uint32_t rank, uint32_t number) const {
    std::vector<Action> actions;
    if (number > posts_) return actions;
    const bool clears = rank == 0 && number > 1 && number % rules_.sweep_period < 2;
    uint32_t not_seen = rules_.peers_not_seen;
    for (uint32_t step = 1; step < ranks_; ++step) {
      const uint32_t peer = (rank + step) % ranks_;
      const bool copy = rules_.pushes || step == 1;
      for (uint32_t index = 0; index < words_of(rank, number); ++index)
        if (copy) actions.push_back({Kind::store, peer, index});
      if (copy && clears && words_of(rank, number) == 1) actions.push_back({Kind::clear, peer, 1});
      if (not_seen != 0) {
        --not_seen;
        continue;
      }
      for (uint32_t index = 0; index < words_of(peer, number); ++index) actions.push_back({Kind::load, peer, index});
    }
    return actions;
  }

  /// Does an action, if it has not been done and does not have to wait.
  [[nodiscard]] bool act(std::string &state, uint32_t rank, uint32_t which) {
    const uint32_t own = number(state, rank);
    const std::vector<Action> actions = actions_of(rank, own);
    const auto [kind, peer, index] = actions[which];
    const auto byte_at = [&](uint32_t at) { return uint32_t{static_cast<uint8_t>(state[3 * rank + at])}; };
    uint32_t done = byte_at(1) | byte_at(2) << 8;
    if ((done >> which & 1) != 0) return false;
    if (kind == Kind::load) {
      const auto found = static_cast<uint8_t>(word(state, own, peer, rank, index));
      if (found == 0 || found % flag_period != own % flag_period) return false;
      if (found != own) problem_ = "a rank takes an old word for a new one";
    } else {
      word(state, own, rank, peer, index) = kind == Kind::store ? static_cast<char>(own) : '\0';
    }
    done |= 1u << which;
    const bool ends = done + 1 == 1u << actions.size();
    state[3 * rank] = static_cast<char>(own + (ends ? 1 : 0));
    state[3 * rank + 1] = static_cast<char>(ends ? 0 : done & 0xFF);
    state[3 * rank + 2] = static_cast<char>(ends ? 0 : done >> 8);
    return true;
  }

  uint32_t ranks_, posts_;
  Rules rules_;
  std::string problem_;
};

}  // namespace

TEST_CASE("model of posts: in every order all ranks read the words of their post, pushed and pulled") {
  if (rondo::test::skips_model("a model of posts")) return;
  for (const bool pushes : {true, false})
    for (const auto &[rank_count, post_count] : {std::pair(2u, 18u), {3u, 10u}}) {
      Rules rules;
      rules.pushes = pushes;
      Model model(rank_count, post_count, rules);
      CAPTURE(pushes, rank_count);
      CHECK(model.explore() == "");
      std::printf("%u ranks, %u posts, %s: %llu states\n", rank_count, post_count, pushes ? "pushed" : "pulled",
                  static_cast<unsigned long long>(model.state_count));
    }
}

TEST_CASE("model of posts: planted faults are found") {
  if (rondo::test::skips_model("a model of posts")) return;
  for (const bool pushes : {true, false}) {
    CAPTURE(pushes);
    const auto found = [&](auto change) {
      Rules rules;
      rules.pushes = pushes;
      change(rules);
      return Model(3, 10, rules).explore();
    };
    CHECK(found([](Rules &rules) { rules.area_count = 1; }) != "");          // overwrites what a peer has not read
    CHECK(found([](Rules &rules) { rules.peers_not_seen = 1; }) != "");      // likewise, two posts later
    CHECK(found([](Rules &rules) { rules.posts_nothing_once = true; }) != "");  // likewise
    CHECK(found([](Rules &rules) { rules.sweep_period = 16; }) != "");       // a flag comes again
  }
}

TEST_CASE("model of posts: the real flags and periods have the proportions of the model") {
  using namespace rondo::device;
  const auto flag = [](uint64_t number) { return post_flags(number, 0x89ABCDEF); };
  for (const uint64_t number : {uint64_t{1}, uint64_t{2}, post_sweep_period, 3 * post_sweep_period + 1}) {
    uint64_t repeats = number + 1;
    while (flag(repeats).first != flag(number).first) ++repeats;
    CHECK(repeats - number == 2 * post_sweep_period);
  }
  for (const uint64_t number : {uint64_t{0}, 2 * post_sweep_period, uint64_t{1} << 32}) {
    CHECK(post_flags(number, 0).first != 0);  // fresh memory is stale
    CHECK(post_flags(number, 0).second != 0);
  }
  CHECK((flag(3).first & 0xFFFF) == 0xCDEF);
  CHECK((flag(3).second & 0xFFFF) == 0x89AB);
  CHECK(is_foreign_flag(post_flags(3, 1).first, post_flags(3, 2).first));
  CHECK(is_foreign_flag(post_flags(3, 1 << 16).second, post_flags(3, 2 << 16).second));
  CHECK_FALSE(is_foreign_flag(post_flags(3, 1).first, post_flags(5, 2).first));
  CHECK_FALSE(is_foreign_flag(post_flags(3, 1).first, post_flags(3, 1).first));
  CHECK_FALSE(is_foreign_flag(0, post_flags(3, 1).first));
}
