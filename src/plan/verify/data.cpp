// SPDX-License-Identifier: Apache-2.0
// This file checks the verifier's rules on data, chunk by chunk.
//
// The steps on one chunk and the messages between them form a graph. The verifier evaluates the steps in topological
// order, with sets of ranks in place of elements. A source operand of rank r is {r}. A reduction is a union, whose
// operands must be disjoint.
//
// The order between accesses to the same memory follows from that graph alone. A step is after the earlier steps of its
// lane, and after the sender of the data that it receives. Each step has a vector clock, which says how many steps of
// each lane are known to be before it. Credit and messages about other chunks give additional order. The verifier
// refuses schedules that need the additional order. They would depend on the slot count, and no builder makes them.
//
// An access is safe if it is ordered against every conflicting access. A write must follow the last write and all reads
// after that, and a read must follow the last write. If a payload is read by reference, the receiving step reads the
// sender's memory.
//
// In an all-to-all in place, the block from a peer overwrites the block for that peer. The two blocks are different
// chunks, so a separate rule orders them: a lane sends a slot before it receives over that slot's bytes.
#include <algorithm>
#include <bit>
#include <string>

#include "src/plan/block_lanes.h"
#include "src/plan/schedule.h"
#include "src/plan/verify/parts.h"

namespace rondo::verify_parts {
namespace {

/// A rank's chunk in one of its buffers. In place, one cell represents both buffers.
struct Cell {
  uint32_t writer = none;         ///< local step that wrote it last, or none
  std::vector<uint32_t> readers;  ///< local steps that have read it since
};

class DataCheck {
 public:
  DataCheck(const VerifyArgs &args, Graph &graph)
      : args_(args), graph_(graph), rank_count_(static_cast<uint32_t>(args.schedules.size())),
        words_((rank_count_ + 63) / 64), moves_(only_moves(args.collective)),
        trades_(trades_blocks(traits_of(args.collective))), send_(rank_count_), recv_(rank_count_) {}

  std::optional<Violation> run() {
    std::vector<std::vector<uint32_t>> by_chunk(args_.partition.chunk_count);
    for (uint32_t id = 0; id < graph_.nodes.size(); ++id) by_chunk[graph_.nodes[id].chunk].push_back(id);
    for (uint32_t chunk = 0; chunk < by_chunk.size(); ++chunk)
      if (auto violation = check_chunk(chunk, by_chunk[chunk])) return violation;
    return trades_ ? check_places() : std::nullopt;
  }

 private:
  std::optional<Violation> check_chunk(uint32_t chunk, const std::vector<uint32_t> &steps) {
    steps_ = &steps;
    reset(steps.size());
    waiting_.assign(steps.size(), 0);
    ready_.clear();
    for (uint32_t local = 0; local < steps.size(); ++local) {
      for (const uint32_t source : node(local).source) waiting_[local] += source != none ? 1 : 0;
      if (previous(local) != none) ++waiting_[local];
      if (waiting_[local] == 0) ready_.push_back(local);
    }
    for (size_t next = 0; next < ready_.size(); ++next) {  // each step is visited once
      const uint32_t local = ready_[next];
      if (auto violation = evaluate(local)) return violation;
      for (const uint32_t sink : node(local).sink)
        if (sink != none) release(graph_.nodes[sink].local);
      if (local + 1 < steps.size() && previous(local + 1) == local) release(local + 1);
    }
    if (ready_.size() < steps.size()) {
      const auto stuck = std::find_if(waiting_.begin(), waiting_.end(), [](uint32_t count) { return count > 0; });
      return at(graph_, node(static_cast<uint32_t>(stuck - waiting_.begin())),
                "deadlock: waits for a step that waits for it");
    }
    if (auto violation = check_result(chunk)) return violation;
    return wrong_scale_;
  }

  void reset(size_t step_count) {
    lane_of_.resize(step_count);
    lane_count_ = 0;
    for (uint32_t local = 0; local < step_count; ++local) {
      graph_.nodes[(*steps_)[local]].local = local;
      lane_of_[local] = previous(local) == none ? lane_count_++ : lane_of_[local - 1];
    }
    sets_.assign(step_count * words_, 0);
    clocks_.resize(step_count * lane_count_);
    ordinal_.resize(step_count);
    finished_.assign(step_count, false);
    payload_version_.assign(step_count, none);
    for (uint32_t rank = 0; rank < rank_count_; ++rank) {
      for (Cell *cell : {&send_[rank], &recv_[rank]}) cell->writer = none, cell->readers.clear();
    }
  }

  [[nodiscard]] const Node &node(uint32_t local) const { return graph_.nodes[(*steps_)[local]]; }

  /// Returns the previous step on this chunk in the lane of `local`, or none.
  [[nodiscard]] uint32_t previous(uint32_t local) const {
    return local > 0 && node(local - 1).lane == node(local).lane ? local - 1 : none;
  }

  void release(uint32_t local) {
    if (--waiting_[local] == 0) ready_.push_back(local);
  }

  // These functions work on the steps' clocks.

  [[nodiscard]] uint16_t *clock(uint32_t local) { return clocks_.data() + size_t{local} * lane_count_; }

  void set_clock(uint32_t local) {
    uint16_t *const own = clock(local);
    bool empty = true;
    const auto join = [&](uint32_t from) {
      const uint16_t *const other = clock(from);
      if (empty) std::copy(other, other + lane_count_, own);
      else for (uint32_t i = 0; i < lane_count_; ++i) own[i] = std::max(own[i], other[i]);
      empty = false;
    };
    const uint32_t before = previous(local);
    if (before != none) join(before);
    for (const uint32_t source : node(local).source)
      if (source != none) join(graph_.nodes[source].local);
    if (empty) std::fill(own, own + lane_count_, uint16_t{0});
    ordinal_[local] = static_cast<uint16_t>(before == none ? 1 : ordinal_[before] + 1);
    own[lane_of_[local]] = ordinal_[local];
  }

  [[nodiscard]] bool is_behind(uint32_t later, uint32_t earlier) {
    return clock(later)[lane_of_[earlier]] >= ordinal_[earlier];
  }

  // These functions check accesses to memory.

  [[nodiscard]] Cell &source_cell(uint32_t rank) {
    return is_set(args_.in_place, rank) && !trades_ ? recv_[rank] : send_[rank];
  }

  /// Checks the ranks that run an all-to-all in place. Each write must follow the send from the same memory, and the
  /// payload of that send must have been copied into a slot.
  std::optional<Violation> check_places() const {
    for (const LaneInfo &lane : graph_.lanes) {
      if (!is_set(args_.in_place, lane.rank)) continue;
      std::vector<bool> sent(rank_count_, false);
      for (uint32_t step = 0; step < lane.node_count; ++step) {
        const Node &self = graph_.nodes[lane.first_node + step];
        if (self.has(step_src) && self.has(step_send)) sent[self.chunk] = !is_set(args_.by_reference, lane.rank);
        if (self.has(step_dst) && !sent[(rank_count_ - self.chunk) % rank_count_])
          return at(graph_, self, "overwrites a block that its lane has not sent by copy before");
      }
    }
    return {};
  }

  /// Returns whether the rank's recv buffer has this chunk, or if `recv` is false, whether its send buffer has it.
  [[nodiscard]] bool holds(uint32_t rank, uint32_t chunk, bool recv) const {
    const Collective &traits = traits_of(args_.collective);
    if ((recv ? traits.target : traits.source) == BufferLayout::own_block) return chunk == rank;
    return recv ? has_target(traits, rank, args_.root) : has_source(traits, rank, args_.root);
  }

  std::optional<Violation> write(uint32_t local) {
    const Node &self = node(local);
    if (!holds(self.rank, self.chunk, true)) return at(graph_, self, "writes dst, which this rank does not have");
    Cell &cell = recv_[self.rank];
    if (cell.writer != none && !is_behind(local, cell.writer))
      return at(graph_, self, "writes dst beside a write by another lane");
    for (const uint32_t reader : cell.readers)
      if (!is_behind(local, reader))
        return at(graph_, self, "overwrites data that rank " + std::to_string(node(reader).rank) + " still needs");
    cell.writer = local;
    cell.readers.clear();
    return {};
  }

  std::optional<Violation> read_operands(uint32_t local) {
    const Node &self = node(local);
    uint32_t summed[4], operands = 0;  // number of ranks in each operand
    if (self.has(step_acc)) {
      Cell &cell = recv_[self.rank];
      if (cell.writer == none || node(cell.writer).lane != self.lane)
        return at(graph_, self, "reads acc, which no earlier step of its lane wrote");
      if (auto violation = reduce(local, cell.writer)) return violation;
      summed[operands++] = rank_count_of(cell.writer);
      cell.readers.push_back(local);
    }
    if (self.has(step_src)) {
      if (!holds(self.rank, self.chunk, false)) return at(graph_, self, "reads src, which this rank does not have");
      Cell &cell = source_cell(self.rank);
      if (cell.writer != none) return at(graph_, self, "reads src, which dst has overwritten in place");
      if (auto violation = reduce_own(local)) return violation;
      summed[operands++] = 1;
      cell.readers.push_back(local);
    }
    for (const uint32_t source : self.source) {
      if (source == none) continue;
      const uint32_t sender = graph_.nodes[source].local;
      if (auto violation = reduce(local, sender)) return violation;
      if (auto violation = read_reference(local, sender)) return violation;
      summed[operands++] = rank_count_of(sender);
    }
    if (operands > 1 && !wrong_scale_ && self.mean_shifts != mean_shifts(std::span(summed).first(operands)))
      wrong_scale_ = at(graph_, self, "scales the operands of a mean otherwise than by the ranks in each");
    return {};
  }

  /// Returns the cell in the sender's memory that the receiver reads, or null if the payload is copied into the slot.
  Cell *payload_cell(uint32_t sender) {
    const Node &step = node(sender);
    if (!is_set(args_.by_reference, step.rank)) return nullptr;
    if (step.has(step_dst)) return &recv_[step.rank];
    if (step.has(step_recv) || step.has(step_finish) || step.has(step_src) == step.has(step_acc)) return nullptr;
    return step.has(step_acc) ? &recv_[step.rank] : &source_cell(step.rank);
  }

  std::optional<Violation> read_reference(uint32_t local, uint32_t sender) {
    if (node(sender).rank == node(local).rank) return {};  // payloads in a loop-back link are always copied
    Cell *const cell = payload_cell(sender);
    if (cell == nullptr) return {};
    if (cell->writer != payload_version_[sender])
      return at(graph_, node(cell->writer),
                "overwrites a payload that rank " + std::to_string(node(local).rank) + " still reads in place");
    cell->readers.push_back(local);
    return {};
  }

  // The following functions work on sets of operands.

  [[nodiscard]] uint64_t *set(uint32_t local) { return sets_.data() + size_t{local} * words_; }

  [[nodiscard]] uint32_t rank_count_of(uint32_t local) {
    uint32_t count = 0;
    for (uint32_t word = 0; word < words_; ++word) count += static_cast<uint32_t>(std::popcount(set(local)[word]));
    return count;
  }
  [[nodiscard]] bool is_full(uint32_t local) { return rank_count_of(local) == rank_count_; }

  std::optional<Violation> reduce(uint32_t local, uint32_t operand) {
    for (uint32_t word = 0; word < words_; ++word) {
      if ((set(local)[word] & set(operand)[word]) != 0) return at(graph_, node(local), "reduces an operand twice");
      set(local)[word] |= set(operand)[word];
    }
    if (finished_[operand]) finished_[local] = true;
    return {};
  }

  std::optional<Violation> reduce_own(uint32_t local) {
    const uint32_t rank = node(local).rank;
    uint64_t &word = set(local)[rank / 64];
    const uint64_t bit = uint64_t{1} << (rank % 64);
    if ((word & bit) != 0) return at(graph_, node(local), "reduces its own operand twice");
    word |= bit;
    return {};
  }

  std::optional<Violation> evaluate(uint32_t local) {
    set_clock(local);
    if (ordinal_[local] == UINT16_MAX) return at(graph_, node(local), "has too many steps of one chunk before it");
    if (auto violation = read_operands(local)) return violation;
    const Node &self = node(local);
    if (self.has(step_finish)) {
      if (moves_) return at(graph_, self, "finishes, but nothing is reduced");
      if (finished_[local]) return at(graph_, self, "finishes twice");
      if (!is_full(local)) return at(graph_, self, "finishes an incomplete reduction");
      finished_[local] = true;
    }
    if (self.has(step_dst))
      if (auto violation = write(local)) return violation;
    if (const Cell *cell = payload_cell(local); cell != nullptr) payload_version_[local] = cell->writer;
    return {};
  }

  std::optional<Violation> check_result(uint32_t chunk) {
    for (uint32_t rank = 0; rank < rank_count_; ++rank) {
      if (!holds(rank, chunk, true)) continue;
      const uint32_t writer = recv_[rank].writer;
      if (writer == none) {  // in place, the origin's data are already in the recv buffer
        const bool in_its_place = trades_ ? chunk == 0 : holds(rank, chunk, false);
        if (moves_ && is_set(args_.in_place, rank) && in_its_place) continue;
        return Violation{rank, 0, 0, "chunk " + std::to_string(chunk) + " is never written"};
      }
      const bool right = moves_ ? is_just(writer, origin_of(chunk, rank)) : is_full(writer) && finished_[writer];
      if (!right)
        return at(graph_, node(writer), "leaves chunk " + std::to_string(chunk) +
                                            (moves_ ? " with another rank's data" : " incomplete or unfinished"));
    }
    return {};
  }

  /// Returns whose data `rank` must have in a chunk, for collectives that reduce nothing.
  [[nodiscard]] uint32_t origin_of(uint32_t chunk, uint32_t rank) const {
    if (trades_) return (rank + rank_count_ - chunk) % rank_count_;
    return traits_of(args_.collective).source == BufferLayout::own_block ? chunk : args_.root;
  }

  [[nodiscard]] bool is_just(uint32_t local, uint32_t rank) {
    for (uint32_t word = 0; word < words_; ++word)
      if (set(local)[word] != (word == rank / 64 ? uint64_t{1} << (rank % 64) : 0)) return false;
    return true;
  }

  const VerifyArgs &args_;
  Graph &graph_;
  const uint32_t rank_count_, words_;
  const bool moves_;   ///< true if nothing is reduced
  const bool trades_;  ///< true for an all-to-all, in which chunk d goes from each rank to the d-th rank after it
  std::vector<Cell> send_, recv_;  ///< cells of the current chunk, by rank

  // These are indexed by local step of the current chunk.
  const std::vector<uint32_t> *steps_ = nullptr;
  std::vector<uint64_t> sets_;
  uint32_t lane_count_ = 0;        ///< lanes that have steps of this chunk
  std::vector<uint32_t> lane_of_;  ///< number of each step's lane among these lanes
  std::vector<uint16_t> clocks_;  ///< lane_count_ entries for each step
  std::vector<uint16_t> ordinal_; ///< position in its lane, from 1
  std::vector<bool> finished_;
  std::vector<uint32_t> payload_version_;  ///< last writer of the payload's memory when the step sent it
  std::vector<uint32_t> waiting_, ready_;

  std::optional<Violation> wrong_scale_;  ///< first wrong scale; it is reported only if there is no other violation
};

}  // namespace

std::optional<Violation> check_data(const VerifyArgs &args, Graph &graph) { return DataCheck(args, graph).run(); }

}  // namespace rondo::verify_parts
