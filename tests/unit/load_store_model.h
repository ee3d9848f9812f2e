// SPDX-License-Identifier: Apache-2.0
// This file runs all interleavings of the programs of load_store (src/plan/load_store_program.h). It tries every order
// in which ranks can reach their steps, and visits each state once. Elements are expressions that record each
// reduction. So if a rank reads too early or too late, its result is wrong.
//
// A step is one transition, with its waits, work and counter. This loses no case, for two reasons. First, a wait that
// has become true stays true, so a step may be taken at any later time. A step that can never be taken stops the
// program, which is detected. Second, steps of other ranks between a write and its counter are also possible after
// both. If no wait protects memory from a write until it was read, the read is also tried after the write.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "src/plan/load_store_program.h"

namespace rondo::test {

/// Expressions as numbers. Equal expressions have equal numbers. The order of the two operands of a reduction does not
/// matter.
class Expressions {
 public:
  [[nodiscard]] uint32_t leaf(uint64_t name) { return number_of({UINT64_MAX, name}); }
  [[nodiscard]] uint32_t reduce(uint32_t a, uint32_t b) { return number_of({std::min(a, b), std::max(a, b)}); }

 private:
  uint32_t number_of(const std::pair<uint64_t, uint64_t> &what) {
    return numbers_.try_emplace(what, static_cast<uint32_t>(numbers_.size() + 1)).first->second;
  }
  std::map<std::pair<uint64_t, uint64_t>, uint32_t> numbers_;  ///< 0 means undefined content
};

/// One operation of all ranks. All sizes are in whole cells.
struct ModelOperation {
  std::vector<load_store::Program> programs;  ///< by rank
  std::vector<bool> in_place;
  uint64_t cell_count = 0;                            ///< cells of a buffer
  std::vector<std::vector<uint32_t>> order_of_cell;   ///< ranks in the order in which their operands are reduced
};

struct Exploration {
  uint64_t state_count = 0;
  std::string problem;  ///< empty if no interleaving has a problem
};

class Explorer {
 public:
  static constexpr uint64_t cell_bytes = 64;
  static constexpr uint64_t state_count_max = 20'000'000;

  /// Makes an explorer. Each rank runs the operations one after another, and fills its buffers anew before each.
  Explorer(std::vector<ModelOperation> operations, uint32_t rank_count, uint64_t area_cells)
      : operations_(std::move(operations)), rank_count_(rank_count), area_cells_(area_cells) {
    for (const ModelOperation &operation : operations_) buffer_cells_ = std::max(buffer_cells_, operation.cell_count);
  }

  [[nodiscard]] Exploration run() {
    State first;
    first.ranks.resize(rank_count_);
    first.counters.resize(rank_count_);
    first.cells.resize(rank_count_ * rank_cells());
    visit(first);
    while (!stack_.empty() && found_.problem.empty()) {
      if (found_.state_count > state_count_max) found_.problem = "too many states to try them all";
      const State state = std::move(stack_.back());
      stack_.pop_back();
      expand(state);
    }
    return found_;
  }

 private:
  struct RankState {
    uint16_t operation = 0;               ///< 0 before the first operation; n during or after operation n
    std::array<uint16_t, 2> next{0, 0};   ///< step of each lane
  };
  struct State {
    std::vector<RankState> ranks;
    std::vector<std::array<uint64_t, 6>> counters;  ///< by rank: of the even and the odd post, then of each other kind
    std::vector<uint32_t> cells;
    std::array<uint64_t, 2> cells_digest{0, 0};  ///< the sum of a hash of each cell
  };

  static size_t word_of(const load_store::Mark &mark) {
    return mark.counter == load_store::Counter::post ? mark.value % 2 : 1 + static_cast<size_t>(mark.counter);
  }
  // Returns the cells of a rank: send, recv, announcement, two posts, areas of contributions, areas of results.
  [[nodiscard]] uint64_t rank_cells() const { return 2 * buffer_cells_ + 1 + 2 * buffer_cells_ + 6 * area_cells_; }
  [[nodiscard]] size_t cell_at(const load_store::Bytes &bytes) const {
    uint64_t at = bytes.rank * rank_cells() + bytes.first / cell_bytes;
    switch (bytes.memory) {
      case load_store::Memory::send: break;
      case load_store::Memory::recv: at += buffer_cells_; break;
      case load_store::Memory::announcement: at += 2 * buffer_cells_; break;
      case load_store::Memory::post: at += 2 * buffer_cells_ + 1 + bytes.area * buffer_cells_; break;
      case load_store::Memory::contribution: at += 4 * buffer_cells_ + 1 + bytes.area * area_cells_; break;
      case load_store::Memory::result: at += 4 * buffer_cells_ + 1 + (3 + bytes.area) * area_cells_; break;
    }
    return at;
  }

  void visit(const State &state) {
    if (!seen_.insert(digest(state)).second) return;
    ++found_.state_count;
    stack_.push_back(state);
  }

  void expand(const State &state) {
    bool moved = false, all_done = true;
    for (uint32_t rank = 0; rank < rank_count_ && found_.problem.empty(); ++rank) {
      const RankState &at = state.ranks[rank];
      if (at.operation > operations_.size()) continue;
      all_done = false;
      if (at.operation == 0 || is_through(rank, at)) {
        State next = state;
        turn_over(next, rank);
        visit(next);
        moved = true;
        continue;
      }
      const auto &lanes = operations_[at.operation - 1].programs[rank].lanes;
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        if (at.next[lane] == lanes[lane].size() || !is_ready(state, lanes[lane][at.next[lane]])) continue;
        State next = state;
        take(next, rank, lanes[lane][at.next[lane]]);
        ++next.ranks[rank].next[lane];
        visit(next);
        moved = true;
      }
    }
    if (!moved && !all_done) fail("all ranks wait for ever");
  }

  [[nodiscard]] bool is_through(uint32_t rank, const RankState &at) const {
    const auto &lanes = operations_[at.operation - 1].programs[rank].lanes;
    for (size_t lane = 0; lane < lanes.size(); ++lane)
      if (at.next[lane] != lanes[lane].size()) return false;
    return true;
  }

  static bool is_ready(const State &state, const load_store::ProgramStep &step) {
    return std::all_of(step.waits.begin(), step.waits.end(), [&](const load_store::Mark &mark) {
      const uint64_t value = state.counters[mark.rank][word_of(mark)];
      return mark.counter == load_store::Counter::post ? value == mark.value : value >= mark.value;
    });
  }

  void take(State &state, uint32_t rank, const load_store::ProgramStep &step) {
    const uint32_t name = announcement_of(state.ranks[rank].operation);
    for (const load_store::Work &work : step.works) {
      if (work.operands.empty()) {
        put(state, cell_at(work.outputs[0]), name);
      } else if (work.outputs.empty()) {
        if (state.cells[cell_at(work.operands[0])] != name) fail("reads the announcement of another operation", rank);
      } else {
        work_on(state, work);
      }
    }
    if (step.publish) state.counters[rank][word_of(*step.publish)] = step.publish->value;
  }

  void work_on(State &state, const load_store::Work &work) {
    for (uint64_t cell = 0; cell < work.operands[0].count / cell_bytes; ++cell) {
      uint32_t value = state.cells[cell_at(work.operands[0]) + cell];
      for (size_t operand = 1; operand < work.operands.size(); ++operand)
        value = expressions_.reduce(value, state.cells[cell_at(work.operands[operand]) + cell]);
      for (const load_store::Bytes &output : work.outputs) put(state, cell_at(output) + cell, value);
    }
  }

  /// Checks the result of the last operation, and fills the buffers for the next one.
  void turn_over(State &state, uint32_t rank) {
    RankState &at = state.ranks[rank];
    const uint64_t send = rank * rank_cells(), recv = send + buffer_cells_;
    if (at.operation > 0) check_result(&state.cells[recv], rank, at.operation - 1u);
    for (uint64_t cell = 0; cell < 2 * buffer_cells_; ++cell) put(state, send + cell, 0);
    ++at.operation;
    at.next = {0, 0};
    if (at.operation > operations_.size()) return;
    const ModelOperation &operation = operations_[at.operation - 1];
    for (uint64_t cell = 0; cell < operation.cell_count; ++cell)
      put(state, (operation.in_place[rank] ? recv : send) + cell, input_of(at.operation - 1u, rank, cell));
  }

  void check_result(const uint32_t *recv, uint32_t rank, uint32_t operation) {
    const ModelOperation &it = operations_[operation];
    for (uint64_t cell = 0; cell < it.cell_count; ++cell) {
      const auto &order = it.order_of_cell[cell];
      uint32_t expected = input_of(operation, order[0], cell);
      for (size_t next = 1; next < order.size(); ++next)
        expected = expressions_.reduce(expected, input_of(operation, order[next], cell));
      if (recv[cell] != expected)
        return fail("has a wrong result in cell " + std::to_string(cell) + " of operation " + std::to_string(operation),
                    rank);
    }
  }

  uint32_t input_of(uint64_t operation, uint64_t rank, uint64_t cell) {
    return expressions_.leaf(operation << 40 | rank << 32 | cell << 1);
  }
  uint32_t announcement_of(uint64_t operation) { return expressions_.leaf(operation << 40 | 1); }

  void fail(const std::string &problem, uint32_t rank = UINT32_MAX) {
    if (found_.problem.empty())
      found_.problem = (rank == UINT32_MAX ? "" : "rank " + std::to_string(rank) + " ") + problem;
  }

  /// Writes a cell, and updates the digest of all cells. So a step costs only what it writes, and not all cells.
  static void put(State &state, uint64_t at, uint32_t value) {
    const uint32_t old = std::exchange(state.cells[at], value);
    for (size_t i = 0; i < state.cells_digest.size(); ++i)
      state.cells_digest[i] += mixed(at << 32 | value, i) - mixed(at << 32 | old, i);
  }

  /// Returns a hash. Each `kind` is a hash of its own.
  static uint64_t mixed(uint64_t value, size_t kind) {
    value += kind == 0 ? 0x9E37'79B9'7F4A'7C15u : 0xD1B5'4A32'D192'ED03u;
    value = (value ^ value >> 30) * 0xBF58'476D'1CE4'E5B9u;
    value = (value ^ value >> 27) * 0x94D0'49BB'1331'11EBu;
    return value ^ value >> 31;
  }

  /// Returns two hashes of 64 bits, so that 10^7 states have no collision.
  static std::pair<uint64_t, uint64_t> digest(const State &state) {
    uint64_t one = 0x9E37'79B9'7F4A'7C15u ^ state.cells_digest[0], two = 0xC2B2'AE3D'27D4'EB4Fu ^ state.cells_digest[1];
    const auto add = [&](uint64_t value) {
      one = (one ^ value) * 0xFF51'AFD7'ED55'8CCDu;
      one ^= one >> 32;
      two = (two + value) * 0xC4CE'B9FE'1A85'EC53u;
      two ^= two >> 29;
    };
    for (const RankState &rank : state.ranks)
      add(rank.operation | uint64_t{rank.next[0]} << 16 | uint64_t{rank.next[1]} << 32);
    for (const auto &counters : state.counters)
      for (const uint64_t counter : counters) add(counter);
    return {one, two};
  }
  struct Hash {
    size_t operator()(const std::pair<uint64_t, uint64_t> &digest) const { return digest.first; }
  };

  std::vector<ModelOperation> operations_;
  uint32_t rank_count_;
  uint64_t area_cells_, buffer_cells_ = 0;
  Expressions expressions_;
  std::unordered_set<std::pair<uint64_t, uint64_t>, Hash> seen_;
  std::vector<State> stack_;
  Exploration found_;
};

}  // namespace rondo::test
