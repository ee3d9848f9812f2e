// SPDX-License-Identifier: Apache-2.0
#include "src/sim/engine.h"

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <string>

#include "src/plan/load_store_program.h"

namespace rondo::sim {
namespace {

using load_store::Bytes;
using load_store::Mark;
using load_store::Memory;
using load_store::ProgramStep;

constexpr uint32_t chunk_align_bytes = 64;
constexpr uint64_t step_count_max = 4'000'000;  ///< limit on the steps of all ranks, under 2 GB
constexpr int64_t never = std::numeric_limits<int64_t>::max();

class Machine {
 public:
  Machine(const SimCase &what, const PlanChoice &plan)
      : network_(what.network), rank_count_(static_cast<uint32_t>(what.network.rank_count())) {
    const LinkCost &link = network_.links[static_cast<size_t>(LinkClass::intra_node)];
    alpha_ps_ = whole_ps(link.alpha_us * ps_per_us);
    step_ps_ = network_.step_us * ps_per_us;
    switch_ps_ = std::max<int64_t>(1, whole_ps(network_.switch_us * ps_per_us));
    link_ps_ = ps_per_byte(link.bandwidth_GBps);
    reduce_ps_ = ps_per_byte(network_.reduce_GBps);
    store_ps_ = ps_per_byte(network_.reduce_send_GBps);
    copy_ps_ = ps_per_byte(network_.copy_GBps);
    memory_ps_ = ps_per_byte(network_.memory_GBps);
    make_programs(what, plan);
    make_cores();
  }

  Result<Outcome> run() {
    for (;;) {  // ends: each round gives a core a turn, or lets time pass, or is the last
      Core *const core = next_core();
      if (core == nullptr) {
        if (!let_time_pass()) break;
        continue;
      }
      turn(*core);
      if (core->now_ps == time_ps_max) return too_long_to_tell();
    }
    for (const Rank &rank : ranks_)
      for (size_t lane = 0; lane < rank.program.lanes.size(); ++lane)
        if (rank.next[lane] != rank.program.lanes[lane].size())
          return Error{RONDO_ERROR_INTERNAL, "the simulation of load_store came to a stop at step " +
                                                 std::to_string(rank.next[lane])};
    for (const auto &steps : outcome_chain_) outcome_.step_count = std::max(outcome_.step_count, steps);
    return outcome_;
  }

 private:
  struct Rank {
    load_store::Program program;
    std::array<size_t, 2> next{0, 0};
    std::array<int64_t, 2> ready_ps{never, never};  ///< begin of the next step, or never if not yet known
  };
  struct Core {
    int64_t now_ps = 0;
    uint32_t rank = 0;
    uint32_t pool = 0;
    bool idle = false;
  };
  struct Published {
    uint64_t value;
    int64_t time_ps;
  };

  void make_programs(const SimCase &what, const PlanChoice &plan) {
    const bool one_shot = plan.algorithm == RONDO_ALGORITHM_ONE_SHOT;
    load_store::Operation it;
    it.algorithm = plan.algorithm;
    it.geometry = {rank_count_, network_.post_bytes, network_.exchange_chunk_bytes, exchange_area_count_min};
    it.count = what.bytes;
    it.wake = network_.core_count != 0 && rank_count_ > network_.core_count;
    it.exports_send.resize(rank_count_);
    it.exports_recv.resize(rank_count_);
    it.in_place.assign(rank_count_, what.in_place);
    it.tiles.whole = {0, what.bytes};
    it.tiles.chunk_count = one_shot ? 1 : rank_count_;
    it.tiles.align_elements = chunk_align_bytes;
    it.tiles.chunk_elements = plan.chunk_bytes;
    it.tiles.tile_count = it.tiles.count_tiles();
    const uint64_t tiles = plan.algorithm == RONDO_ALGORITHM_RING ? it.tiles.tile_count : what.bytes / plan.chunk_bytes;
    too_long_ = (tiles + 1) * rank_count_ * (rank_count_ + 2) > step_count_max;
    for (it.rank = 0; it.rank < rank_count_ && !too_long_; ++it.rank) {
      load_store::Position position;
      ranks_.push_back({make_program(it, position), {0, 0}, {never, never}});
    }
    published_.resize(size_t{rank_count_} * 5);
    outcome_chain_.resize(rank_count_);
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank)
      for (size_t lane = 0; lane < ranks_[rank].program.lanes.size(); ++lane) look(rank, lane);
  }

  /// Makes a core for each rank. If there are not enough cores, ranks wait in line for them.
  void make_cores() {
    const bool shared = network_.core_count != 0 && rank_count_ > network_.core_count;
    lines_.resize(shared ? 1 : rank_count_);
    for (uint32_t rank = 0; rank < rank_count_; ++rank) {
      if (!shared || rank < network_.core_count) cores_.push_back({0, rank, shared ? 0 : rank, false});
      else lines_[0].push_back(rank);
    }
  }

  [[nodiscard]] std::vector<Published> &published(uint32_t rank, load_store::Counter counter) {
    return published_[size_t{rank} * 5 + static_cast<size_t>(counter)];
  }

  /// Computes when the lane's next step can begin, if all times that the step waits for are known.
  void look(uint32_t rank, size_t lane) {
    Rank &it = ranks_[rank];
    it.ready_ps[lane] = never;
    if (it.next[lane] == it.program.lanes[lane].size()) return;
    int64_t ready_ps = 0;
    for (const Mark &mark : it.program.lanes[lane][it.next[lane]].waits) {
      const auto &known = published(mark.rank, mark.counter);
      const auto found = std::lower_bound(known.begin(), known.end(), mark.value,
                                          [](const Published &one, uint64_t value) { return one.value < value; });
      if (found == known.end()) return;
      ready_ps = std::max(ready_ps, after(found->time_ps, mark.rank == rank ? 0 : alpha_ps_));
    }
    it.ready_ps[lane] = ready_ps;
  }

  [[nodiscard]] int64_t ready_ps(uint32_t rank) const {
    return std::min(ranks_[rank].ready_ps[0], ranks_[rank].ready_ps[1]);
  }

  Core *next_core() {
    Core *first = nullptr;
    for (Core &core : cores_)
      if (!core.idle && (first == nullptr || core.now_ps < first->now_ps)) first = &core;
    return first;
  }

  /// Lets the core's rank do a step. If the rank cannot, the core switches to the first rank in the line, provided that
  /// some rank in the line can do a step.
  void turn(Core &core) {
    if (ready_ps(core.rank) <= core.now_ps) return take_step(core);
    std::deque<uint32_t> &line = lines_[core.pool];
    const bool useful =
        std::any_of(line.begin(), line.end(), [&](uint32_t rank) { return ready_ps(rank) <= core.now_ps; });
    if (!useful) {
      core.idle = true;
      return;
    }
    line.push_back(core.rank);
    core.rank = line.front();
    line.pop_front();
    core.now_ps = after(core.now_ps, switch_ps_);
  }

  /// Lets time pass until some core can run a step or switch. Returns false if no core ever can.
  bool let_time_pass() {
    Core *first = nullptr;
    int64_t when_ps = never;
    for (Core &core : cores_) {
      int64_t ready = ready_ps(core.rank);
      for (const uint32_t rank : lines_[core.pool]) ready = std::min(ready, ready_ps(rank));
      if (ready == never) continue;
      ready = std::max(ready, core.now_ps);
      if (first == nullptr || ready < when_ps) first = &core, when_ps = ready;
    }
    if (first == nullptr) return false;
    first->now_ps = when_ps;
    first->idle = false;
    return true;
  }

  void take_step(Core &core) {
    Rank &it = ranks_[core.rank];
    const size_t lane = it.ready_ps[0] <= core.now_ps ? 0 : 1;
    const ProgramStep &step = it.program.lanes[lane][it.next[lane]++];
    core.now_ps = after(core.now_ps, cost_ps(core.rank, step));
    ++outcome_.move_count;
    ++outcome_chain_[core.rank];
    outcome_.time_ps = std::max(outcome_.time_ps, core.now_ps);
    look(core.rank, lane);
    if (!step.publish) return;
    published(core.rank, step.publish->counter).push_back({step.publish->value, core.now_ps});
    for (uint32_t rank = 0; rank < rank_count_; ++rank)
      for (size_t other = 0; other < ranks_[rank].program.lanes.size(); ++other)
        if (ranks_[rank].ready_ps[other] == never) look(rank, other);
    for (Core &idle : cores_) idle.idle = false;
  }

  /// Returns the cost of a step. Bytes in an area of the exchange are read from the core that wrote them last. Before a
  /// rank writes to an area, it takes the cache lines from the ranks that read them. A rank's own buffers are in
  /// memory.
  [[nodiscard]] int64_t cost_ps(uint32_t rank, const ProgramStep &step) {
    const auto own_buffer = [](const Bytes &bytes) {
      return bytes.memory == Memory::send || bytes.memory == Memory::recv;
    };
    double cost = step_ps_;
    for (const load_store::Work &work : step.works) {
      if (work.operands.empty() || work.outputs.empty()) continue;  // an announcement costs nothing
      const auto bytes = static_cast<double>(work.operands[0].count);
      double byte_ps = work.operands.size() > 1 ? reduce_ps_ * static_cast<double>(work.operands.size() - 1) : copy_ps_;
      for (const Bytes &operand : work.operands) {
        const bool own_result = operand.memory == Memory::result && operand.rank == rank;
        if (own_buffer(operand)) byte_ps += memory_ps_;
        else if (!own_result) byte_ps += link_ps_, outcome_.link_bytes[1] += operand.count;
      }
      for (const Bytes &output : work.outputs) byte_ps += own_buffer(output) ? memory_ps_ : store_ps_;
      cost += bytes * byte_ps;
    }
    return std::max<int64_t>(1, whole_ps(cost));
  }

 public:
  [[nodiscard]] bool too_long() const { return too_long_; }

 private:
  const Network &network_;
  const uint32_t rank_count_;
  int64_t alpha_ps_ = 0, switch_ps_ = 0;
  double step_ps_ = 0, link_ps_ = 0, reduce_ps_ = 0, store_ps_ = 0, copy_ps_ = 0, memory_ps_ = 0;
  bool too_long_ = false;
  std::vector<Rank> ranks_;
  std::vector<std::vector<Published>> published_;
  std::vector<Core> cores_;
  std::vector<std::deque<uint32_t>> lines_;  ///< line of each pool of cores
  std::vector<uint32_t> outcome_chain_;
  Outcome outcome_;
};

}  // namespace

Result<Outcome> simulate_load_store(const SimCase &what, const PlanChoice &plan) {
  Machine machine(what, plan);
  if (machine.too_long())
    return invalid_argument("an all_reduce by load_store of so many chunks has more than " +
                            std::to_string(step_count_max) + " steps; take fewer bytes or larger chunks");
  return machine.run();
}

}  // namespace rondo::sim
