// SPDX-License-Identifier: Apache-2.0
// This file tests the order of two_shots on devices (cuda/kernels/load_store_place.h) by all interleavings of their
// accesses. Each rank has a list of steps: it stores data and counters, waits for counters and reads data. A cell has
// one writer, so the positions of all ranks in their lists say what each cell holds. Faults are planted and must be
// found.
#include <cstdio>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cuda/kernels/load_store_place.h"
#include "tests/catch.h"
#include "tests/gpu/settings.h"

namespace {

enum class Phase { contribution, result };
enum class ModelCollective { all_reduce, reduce, broadcast };  ///< rank 0 is the root

struct Rules {
  bool pushes = true;
  ModelCollective collective = ModelCollective::all_reduce;
  uint32_t area_count = rondo::device::load_store_area_count;
  bool waits_without_need = true;     ///< a rank that needs no results waits for them
  bool counts_without_part = true;    ///< a rank that contributes nothing publishes, too
  bool publishes_after_data = true;
};

using State = std::vector<uint8_t>;  ///< the position of each rank

class Model {
 public:
  Model(uint32_t rank_count, uint32_t chunk_count, const Rules &rules)
      : ranks_(rank_count), chunks_(chunk_count), rules_(rules), steps_(rank_count), at_(rank_count) {
    for (uint32_t rank = 0; rank < ranks_; ++rank)
      for (uint32_t turn = 0; turn < chunks_ + 2; ++turn) {
        if (turn < chunks_) write(rank, Phase::contribution, turn);
        if (turn >= 1 && turn <= chunks_) {
          wait_and_read(rank, Phase::contribution, turn - 1);
          write(rank, Phase::result, turn - 1);
        }
        if (turn >= 2) wait_and_read(rank, Phase::result, turn - 2);
        REQUIRE(steps_[rank].size() < 256);
      }
  }

  /// Returns what is wrong in one of the interleavings, or "".
  [[nodiscard]] std::string explore() {
    const auto key = [](const State &state) { return std::string(state.begin(), state.end()); };
    std::vector<State> open{State(ranks_, 0)};
    std::unordered_set<std::string> seen{key(open[0])};
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      bool moves = false, ended = true;
      for (uint32_t rank = 0; rank < ranks_; ++rank) {
        if (state[rank] == steps_[rank].size()) continue;
        ended = false;
        const Step &step = steps_[rank][state[rank]];
        if (step.kind == Kind::wait && !has_done(state, step.peer, {Kind::publish, step.phase, rank, step.chunk}))
          continue;
        if (step.kind == Kind::read) {
          if (!has_done(state, step.peer, {Kind::store, step.phase, rank, step.chunk})) return "data is missing";
          if (has_done(state, step.peer, {Kind::store, step.phase, rank, step.chunk + rules_.area_count}))
            return "data is overwritten";
        }
        moves = true;
        State next = state;
        ++next[rank];
        if (seen.insert(key(next)).second) open.push_back(next);
      }
      if (!moves && !ended) return "a rank waits for ever";
    }
    state_count = seen.size();
    return {};
  }

  uint64_t state_count = 0;

 private:
  enum class Kind { store, publish, wait, read };
  struct Step {
    Kind kind;
    Phase phase;
    uint32_t peer, chunk;
    auto operator<=>(const Step &) const = default;
  };

  [[nodiscard]] bool has_data(uint32_t by, uint32_t reader, Phase phase) const {
    const bool contributes = rules_.collective != ModelCollective::broadcast || by == 0;
    if (phase == Phase::contribution) return contributes;
    if (rules_.collective == ModelCollective::reduce) return reader == 0;
    return rules_.collective == ModelCollective::all_reduce || reader != 0;
  }
  void add(uint32_t rank, const Step &step) {
    at_[rank].emplace(step, steps_[rank].size());
    steps_[rank].push_back(step);
  }
  /// Adds stores of data and counters for all readers. If ranks pull, the store for the first reader is for all.
  void write(uint32_t rank, Phase phase, uint32_t chunk) {
    const auto store = [&] {
      for_peers(rank, [&](uint32_t reader) {
        if (has_data(rank, reader, phase)) add(rank, {Kind::store, phase, reader, chunk});
      });
    };
    if (rules_.publishes_after_data) store();
    const bool has_part = phase == Phase::result || rules_.collective != ModelCollective::broadcast || rank == 0;
    if (has_part || rules_.counts_without_part)
      for_peers(rank, [&](uint32_t reader) { add(rank, {Kind::publish, phase, reader, chunk}); });
    if (!rules_.publishes_after_data) store();
  }
  void wait_and_read(uint32_t rank, Phase phase, uint32_t chunk) {
    bool needs = false;
    for_peers(rank, [&](uint32_t by) { needs = needs || has_data(by, rank, phase); });
    if (needs || rules_.waits_without_need)
      for_peers(rank, [&](uint32_t by) {
        const bool counts = phase == Phase::result || rules_.counts_without_part || has_data(by, rank, phase);
        if (counts) add(rank, {Kind::wait, phase, by, chunk});
      });
    for_peers(rank, [&](uint32_t by) {
      if (has_data(by, rank, phase)) add(rank, {Kind::read, phase, by, chunk});
    });
  }
  template <class Use>
  void for_peers(uint32_t rank, const Use &use) const {
    for (uint32_t step = 1; step < ranks_; ++step) use((rank + step) % ranks_);
  }
  [[nodiscard]] bool has_done(const State &state, uint32_t rank, const Step &step) const {
    if (rules_.pushes) return is_past(state, rank, step);
    for (uint32_t reader = 0; reader < ranks_; ++reader)
      if (is_past(state, rank, {step.kind, step.phase, reader, step.chunk})) return true;
    return false;
  }
  [[nodiscard]] bool is_past(const State &state, uint32_t rank, const Step &step) const {
    const auto found = at_[rank].find(step);
    return found != at_[rank].end() && state[rank] > found->second;
  }

  uint32_t ranks_, chunks_;
  Rules rules_;
  std::vector<std::vector<Step>> steps_;
  std::vector<std::map<Step, size_t>> at_;  ///< by rank: the position of each step
};

constexpr ModelCollective model_collectives[] = {ModelCollective::all_reduce, ModelCollective::reduce,
                                                 ModelCollective::broadcast};

}  // namespace

TEST_CASE("model of chunks: in every order each rank reads the data of its chunk, pushed and pulled") {
  if (rondo::test::skips_model("a model of chunks")) return;
  for (const bool pushes : {true, false})
    for (const ModelCollective collective : model_collectives)
      for (const auto &[rank_count, chunk_count] : {std::pair(2u, 10u), {3u, 6u}})
        for (const uint32_t areas : {3u, 4u}) {
          Rules rules;
          rules.pushes = pushes;
          rules.collective = collective;
          rules.area_count = areas;
          Model model(rank_count, chunk_count, rules);
          CAPTURE(pushes, static_cast<int>(collective), rank_count, areas);
          CHECK(model.explore() == "");
          if (areas == 4)
            std::printf("%u ranks, %u chunks, %s: %llu states\n", rank_count, chunk_count,
                        pushes ? "pushed" : "pulled", static_cast<unsigned long long>(model.state_count));
        }
}

TEST_CASE("model of chunks: planted faults are found") {
  if (rondo::test::skips_model("a model of chunks")) return;
  for (const bool pushes : {true, false}) {
    CAPTURE(pushes);
    const auto found = [&](ModelCollective collective, auto change) {
      Rules rules;
      rules.pushes = pushes;
      rules.collective = collective;
      change(rules);
      return Model(3, 7, rules).explore();
    };
    for (const ModelCollective collective : model_collectives) {
      CHECK(found(collective, [](Rules &rules) { rules.area_count = 2; }) == "data is overwritten");
      CHECK(found(collective, [](Rules &rules) { rules.publishes_after_data = false; }) == "data is missing");
    }
    // A fourth area would hide these two.
    CHECK(found(ModelCollective::reduce, [](Rules &rules) {
            rules.area_count = 3;
            rules.waits_without_need = false;
          }) == "data is overwritten");
    CHECK(found(ModelCollective::broadcast, [](Rules &rules) {
            rules.area_count = 3;
            rules.counts_without_part = false;
          }) == "data is overwritten");
  }
}

TEST_CASE("places: no two chunks share an area, and no two ranks a column or a counter") {
  using namespace rondo;
  const device::LoadStoreGeometry geometry{3, 2, 128, 192};
  CHECK(geometry.result_bytes() == 128);
  CHECK(geometry.contributions(0).at(4) == geometry.contributions(0).at(0));
  CHECK(geometry.contributions(0).at(0xFFFF'FFFF) == geometry.contributions(0).at(3));
  CHECK(geometry.contributions(1).at(0) == geometry.contributions(0).at(3) + 192);
  CHECK(geometry.results(0).at(0) == geometry.contributions(1).at(3) + 192);
  CHECK(geometry.bytes() == geometry.results(1).at(3) + 128);
  CHECK(geometry.units_at(1, 2) == geometry.units_at(0, 0) + 256);
  CHECK(geometry.contributed_at(0) == geometry.units_at(1, 0) + 256);
  CHECK(geometry.reduced_at(0) == geometry.contributed_at(1) + 64);
  CHECK(geometry.contributions(0).at(0) == geometry.reduced_at(1) + 64);
  // Ranks that push have a column for each of the two peers.
  const device::LoadStoreGeometry pushed{3, 2, 128, 192, 1};
  CHECK(pushed.units_at(0, 2) == geometry.units_at(0, 0) + 2 * 256);
  CHECK(pushed.units_at(1, 0) == pushed.units_at(0, 2) + 256);
  CHECK(pushed.contributed_at(0) == pushed.units_at(1, 2) + 256);
  CHECK(pushed.contributions(0).at(1) == pushed.contributions(0).at(0) + 2 * 128);
  CHECK(pushed.results(0).at(0) == pushed.contributions(1).at(3) + 2 * 128);
  CHECK(pushed.bytes() == pushed.results(1).at(3) + 2 * 128);
  const device::LoadStoreGeometry many{9, 2, 128, 192, 1};
  CHECK(many.reduced_at(0) == many.contributed_at(1) + 128);  // 9 words
  CHECK(many.contributions(0).at(0) == many.reduced_at(1) + 128);
  // In memory, gates follow the windows and precede the units.
  std::vector<PaddedCounter> memory(many.bytes() / sizeof(PaddedCounter) + 1);
  auto *const base = reinterpret_cast<std::byte *>(memory.data());
  const device::LoadStorePlace place{base, geometry}, of_many{base, many};
  const auto offset = [&](const auto &at) {
    return static_cast<uint64_t>(reinterpret_cast<const std::byte *>(&at) - base);
  };
  CHECK(offset(place.window(0)) == 0);
  CHECK(offset(place.arrived(0)) == offset(place.window(1)) + 64);
  CHECK(offset(place.left(0)) == offset(place.arrived(1)) + 64);
  CHECK(offset(place.left(1)) + 64 == geometry.units_offset());
  CHECK(offset(place.counter(geometry.reduced_at(1), 2)) == geometry.reduced_at(1));
  CHECK(offset(of_many.counter(many.reduced_at(1), 8)) == many.reduced_at(1) + 64);
  CHECK(device::LoadStoreGeometry{}.bytes() == 0);
}
