// SPDX-License-Identifier: Apache-2.0
#include "src/plan/load_store_program.h"

#include <algorithm>

#include "src/plan/load_store_chunks.h"

namespace rondo::load_store {
namespace {

class Writer {
 public:
  Writer(const Operation &operation, Position &position)
      : it_(operation), at_(position), n_(operation.geometry.rank_count), rank_(operation.rank),
        chunks_(operation.tiles, operation.count, n_) {
    program_.lanes.resize(1);
  }

  Program write() {
    if (it_.algorithm == RONDO_ALGORITHM_ONE_SHOT) one_shot();
    else if (it_.count == 0) return std::move(program_);
    else if (it_.algorithm == RONDO_ALGORITHM_TWO_SHOT) two_shot();
    else ring();
    return std::move(program_);
  }

 private:
  [[nodiscard]] uint32_t after(uint32_t offset) const { return (rank_ + offset) % n_; }
  [[nodiscard]] bool apart() const { return !it_.in_place[rank_]; }
  [[nodiscard]] bool outgrows_caches() const { return it_.count * it_.element_bytes >= it_.cache_bytes; }
  [[nodiscard]] bool streams() const { return apart() && outgrows_caches(); }
  [[nodiscard]] bool exports_send() const { return it_.exports_send[rank_]; }
  [[nodiscard]] bool exports_recv() const { return it_.exports_recv[rank_]; }
  [[nodiscard]] bool all_export() const {
    const auto set = [](bool exports) { return exports; };
    return std::all_of(it_.exports_send.begin(), it_.exports_send.end(), set) &&
           std::all_of(it_.exports_recv.begin(), it_.exports_recv.end(), set);
  }

  // These functions return where data lie.
  [[nodiscard]] Bytes buffer(Memory memory, uint32_t rank, Range range) const {
    const bool same = memory == Memory::send && it_.in_place[rank];
    return {same ? Memory::recv : memory, rank, 0, range.begin * it_.element_bytes, range.count * it_.element_bytes};
  }
  [[nodiscard]] Bytes area(Memory memory, uint32_t rank, uint64_t number, uint64_t begin, uint64_t count) const {
    const uint64_t areas = memory == Memory::post ? 2 : it_.geometry.area_count;
    return {memory, rank, static_cast<uint32_t>(number % areas), begin * it_.element_bytes,
            count * it_.element_bytes};
  }
  [[nodiscard]] Bytes accumulator(uint32_t owner, uint64_t chunk, uint64_t count) const {
    return area(Memory::contribution, owner, chunk % exchange_accumulator_count, 0, count);
  }
  [[nodiscard]] static Bytes announcement(uint32_t rank) { return {Memory::announcement, rank, 0, 0, 1}; }

  // These functions append and fill steps.
  ProgramStep &step(uint32_t lane = 0) { return program_.lanes[lane].emplace_back(); }
  static void copy(ProgramStep &step, const Bytes &to, const Bytes &from) {
    if (from.count != 0) step.works.push_back({{from}, {to}});
  }
  void publish(ProgramStep &step, Counter counter, uint64_t value) const { step.publish = Mark{counter, rank_, value}; }
  void wait_for_others(ProgramStep &step, Counter counter, uint64_t value) const {
    for (uint32_t offset = 1; offset < n_; ++offset) step.waits.push_back({counter, after(offset), value});
  }
  void wait_for_all(ProgramStep &step, Counter counter, uint64_t value) const {
    wait_for_others(step, counter, value);
    step.waits.push_back({counter, rank_, value});
  }

  void one_shot() {
    const uint64_t number = ++at_.posts;
    ProgramStep &post = step();
    copy(post, area(Memory::post, rank_, number, 0, it_.count), buffer(Memory::send, rank_, {0, it_.count}));
    publish(post, Counter::post, number);
    ProgramStep &reduce = step();
    Work work;
    for (uint32_t rank = 0; rank < n_; ++rank) {
      if (rank != rank_) reduce.waits.push_back({Counter::post, rank, number});
      work.operands.push_back(rank == rank_ ? buffer(Memory::send, rank, {0, it_.count})
                                            : area(Memory::post, rank, number, 0, it_.count));
    }
    work.outputs = {buffer(Memory::recv, rank_, {0, it_.count})};
    if (it_.count != 0) reduce.works.push_back(std::move(work));
  }

  void wait_for_announcements() {
    for (uint32_t rank = 0; rank < n_; ++rank) {
      if (rank == rank_) continue;
      ProgramStep &look = step();
      look.waits.push_back({Counter::contributed, rank, at_.chunks + 1});
      look.works.push_back({{announcement(rank)}, {}});
    }
  }

  void contribute(uint64_t chunk) {
    ProgramStep &contribution = step();
    if (chunk == 0) contribution.works.push_back({{}, {announcement(rank_)}});
    if (!exports_send()) {
      const Range all = chunks_.range(chunk), own = chunks_.part(chunk, rank_);
      for (const Range &range : {Range{all.begin, own.begin - all.begin},
                                 Range{own.begin + own.count, all.begin + all.count - own.begin - own.count}})
        copy(contribution,
             area(Memory::contribution, rank_, at_.chunks + chunk, range.begin - all.begin, range.count),
             buffer(Memory::send, rank_, range));
    }
    publish(contribution, Counter::contributed, at_.chunks + chunk + 1);
  }

  [[nodiscard]] Bytes operand(uint64_t chunk, uint32_t rank, Range piece) const {
    if (rank == rank_ || it_.exports_send[rank]) return buffer(Memory::send, rank, piece);
    return area(Memory::contribution, rank, at_.chunks + chunk, piece.begin - chunks_.range(chunk).begin, piece.count);
  }

  /// Calls `reduce` in the same order as TwoShotCall::for_each_order().
  template <class Reduction>
  void for_each_order(Range range, const Reduction &reduce) const {
    if (in_ring_order_) return chunks_.for_each_ring_order(range, reduce);
    reduce(range, 0u);
  }

  void reduce_range(ProgramStep &to, uint64_t chunk, Range range) const {
    const bool copies = streams() && !exports_recv();
    const uint64_t number = at_.chunks + chunk;
    for_each_order(range, [&](Range piece, uint32_t first) {
      Work work;
      for (uint32_t index = 0; index < n_; ++index)
        work.operands.push_back(operand(chunk, (first + index) % n_, piece));
      if (!exports_recv())
        work.outputs.push_back(area(Memory::result, rank_, number, piece.begin - range.begin, piece.count));
      if (!copies) work.outputs.push_back(buffer(Memory::recv, rank_, piece));
      if (piece.count != 0) to.works.push_back(std::move(work));
    });
    if (copies)
      copy(to, buffer(Memory::recv, rank_, range), area(Memory::result, rank_, number, 0, range.count));
  }

  void reduce(uint64_t chunk) {
    ProgramStep &reduction = step();
    for (uint32_t offset = 1; offset < n_; ++offset)
      if (!it_.exports_send[after(offset)] || !exports_recv())
        reduction.waits.push_back({Counter::contributed, after(offset), at_.chunks + chunk + 1});
    reduce_range(reduction, chunk, chunks_.part(chunk, rank_));
    publish(reduction, Counter::reduced, at_.chunks + chunk + 1);
  }

  void gather(uint64_t chunk) {
    for (uint32_t offset = 1; offset < n_; ++offset) {
      const uint32_t rank = after(offset);
      const Range range = chunks_.part(chunk, rank);
      ProgramStep &fetch = step();
      fetch.waits.push_back({Counter::reduced, rank, at_.chunks + chunk + 1});
      copy(fetch, buffer(Memory::recv, rank_, range),
           it_.exports_recv[rank] ? buffer(Memory::recv, rank, range)
                                : area(Memory::result, rank, at_.chunks + chunk, 0, range.count));
    }
  }

  void finish_gathering() {
    at_.chunks += chunks_.count();
    publish(step(), Counter::gathered, at_.chunks);
    if (exports_recv()) wait_for_others(step(), Counter::gathered, at_.chunks);
  }

  void two_shot() {
    if (at_.ring_unsettled) wait_for_others(step(), Counter::gathered, at_.chunks);
    at_.ring_unsettled = false;
    contribute(0);
    const bool meets_first = exports_send() && exports_recv();
    for (uint64_t number = 1; number < chunks_.count() + 2; ++number) {
      if (number == 1 && meets_first) {
        wait_for_announcements();
        if (all_export()) chunks_.enlarge(Chunks::exported_factor(it_.wake));
      }
      if (number < chunks_.count()) contribute(number);
      if (number == 1 && !meets_first) wait_for_announcements();
      if (number - 1 < chunks_.count()) reduce(number - 1);
      if (number >= 2) gather(number - 2);
    }
    finish_gathering();
  }

  void ring() {
    ProgramStep &announce = step();
    announce.works.push_back({{}, {announcement(rank_)}});
    publish(announce, Counter::contributed, at_.chunks + 1);
    wait_for_announcements();
    if (!all_export()) return accumulators();
    in_ring_order_ = true;
    const auto none = [](bool place) { return !place; };
    const bool pair = n_ == 2 && std::all_of(it_.in_place.begin(), it_.in_place.end(), none) && it_.cheap && !it_.wake;
    if (pair && !outgrows_caches()) return exported_whole();
    uint64_t chunk_bytes = Chunks::exported_factor(it_.wake) * it_.geometry.chunk_bytes;
    if (pair) chunk_bytes = 2 * it_.cache_bytes;
    chunks_.set_bytes(chunk_bytes, it_.element_bytes);
    for (uint64_t number = 0; number < chunks_.count() + 1; ++number) {
      if (number < chunks_.count()) reduce(number);
      if (number >= 1) gather(number - 1);
    }
    finish_gathering();
  }

  void exported_whole() {
    chunks_.set_single();
    ProgramStep &reduces = step();
    for (uint32_t offset = 0; offset < n_; ++offset) reduce_range(reduces, 0, chunks_.part(0, after(offset)));
    finish_gathering();
  }

  /// Builds a ring of accumulators. Lane 0 has the hops. Lane 1 copies the finished tiles out.
  void accumulators() {
    program_.lanes.resize(2);
    for (uint64_t tile = 0; tile < it_.tiles.tile_count; ++tile) {
      const uint64_t chunk = at_.chunks + tile;
      for (uint32_t hop = 0; hop < n_; ++hop) add_hop(tile, chunk, hop);
      ProgramStep &fetch = step(1);
      wait_for_all(fetch, Counter::hops_done, (chunk + 1) * n_);
      for (uint32_t offset = 1; offset < n_; ++offset) {
        const Range range = it_.tiles.range(tile, after(offset));
        copy(fetch, buffer(Memory::recv, rank_, range), accumulator(after(offset), chunk, range.count));
      }
      publish(fetch, Counter::gathered, chunk + 1);
    }
    at_.chunks += it_.tiles.tile_count;
    at_.ring_unsettled = true;
  }

  void add_hop(uint64_t tile, uint64_t chunk, uint32_t hop) {
    ProgramStep &to = step(0);
    const bool first = hop == 0, last = hop + 1 == n_;
    if (first && chunk >= exchange_accumulator_count)
      wait_for_all(to, Counter::gathered, chunk - exchange_accumulator_count + 1);
    if (!first) to.waits.push_back({Counter::hops_done, after(n_ - 1), chunk * n_ + hop});
    const uint32_t owner = after(2 * n_ - 1 - hop);
    const Range range = it_.tiles.range(tile, owner);
    const Bytes own = buffer(Memory::send, rank_, range), recv = buffer(Memory::recv, rank_, range);
    const Bytes sum = accumulator(owner, chunk, range.count);
    if (first) copy(to, sum, own);
    if (!first && range.count != 0) {
      Work work{{own, sum}, {sum}};
      if (last && !streams()) work.outputs.push_back(recv);
      to.works.push_back(std::move(work));
    }
    if (last && streams()) copy(to, recv, sum);
    publish(to, Counter::hops_done, chunk * n_ + hop + 1);
  }

  const Operation &it_;
  Position &at_;
  const uint32_t n_, rank_;
  Chunks chunks_;
  bool in_ring_order_ = false;  ///< true for a ring without accumulators
  Program program_;
};

}  // namespace

Program make_program(const Operation &operation, Position &position) { return Writer(operation, position).write(); }

}  // namespace rondo::load_store
