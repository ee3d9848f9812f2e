// SPDX-License-Identifier: Apache-2.0
// This file reduces one operand of every rank, in rank order: ((x0 x1) x2) ... Operands are processed in pieces of 16
// bytes, 8 bytes, or one element. Between operands small floats are kept in float32, and they are rounded once, at the
// end. If there is only one operand, its bytes are copied.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/rank_reduction.h"
#include "cuda/kernels/reduce.h"
#include "src/base/host_device.h"
#include "src/proto/reducer.h"

namespace rondo::device {

/// A piece that is loaded and stored as a vector.
struct VectorPiece {
  using Piece = Vector;
  [[nodiscard]] RONDO_HD static Piece load(const std::byte *at) { return memory::load_vector(at); }
  RONDO_HD static void store(std::byte *at, const Piece &piece) { memory::store_vector(at, piece); }
};
template <class Storage, size_t alignment>
struct ElementPiece {
  using Piece = Storage;
  [[nodiscard]] RONDO_HD static Piece load(const std::byte *at) { return load_aligned<Storage, alignment>(at); }
  RONDO_HD static void store(std::byte *at, const Piece &piece) { store_aligned<alignment>(at, piece); }
};

/// Stands in for a reduction in kernels that copy the bytes of one rank to others, unchanged.
struct RankCopy {
  using Storage = uint8_t;
};
template <class Reduction>
inline constexpr bool is_copy = std::is_same_v<Reduction, RankCopy>;

/// A part of the vector of all ranks. operand(rank) returns the beginning of that rank's part, and output(which) the
/// beginning of one copy of the result.
template <class Operand, class Output>
struct RankOperands {
  const Operand &operand;
  const Output &output;
  uint32_t rank_count;  ///< at least 2, but 1 for a copy
  uint32_t output_count;
  uint32_t divisor;
};

/// Moves the first of `values` to the end, and the others one position forward.
template <uint32_t count, class Value>
RONDO_HD void rotate(Value (&values)[count]) {
  const Value first = values[0];
  RONDO_UNROLL
  for (uint32_t index = 0; index + 1 < count; ++index) values[index] = values[index + 1];
  values[count - 1] = first;
}

/// Calls use(turn) for each of `turns` pieces. With `rotates`, the code of use() exists once, for position 0, because
/// it is long. Before the next piece, bring() moves it to position 0: a variable cannot select a register.
template <uint32_t turns, bool rotates, class Use, class Bring>
RONDO_HD void for_each_turn(const Use &use, const Bring &bring) {
  if constexpr (rotates) {
    RONDO_KEEP_LOOP
    for (uint32_t turn = 0; turn < turns; ++turn) {
      use(0);
      bring();
    }
  } else {
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < turns; ++turn) use(turn);
  }
}

/// Reduces pieces [begin, end) by a group, each thread `turns` pieces at a time. All loads of these pieces, from
/// at_once ranks and the last rank, precede the first use. An output may be an operand: a thread reads all operands of
/// a piece before it writes the piece, and no other thread touches the piece.
template <class Reduction, class Access, uint32_t at_once, uint32_t turns, Group G, class Operands>
RONDO_HD void reduce_pieces(G group, const Operands &of, uint32_t begin, uint32_t end) {
  using Piece = typename Access::Piece;
  constexpr bool rotates = Reduction::is_narrow && turns > 1;
  const uint32_t last = of.rank_count - 1;
  RONDO_KEEP_LOOP
  for (uint32_t first = begin + group.rank(); first < end; first += turns * group.size()) {
    const auto has = [&](uint32_t turn) { return turn == 0 || first + turn * group.size() < end; };
    const auto at = [&](uint32_t turn) { return (first + turn * group.size()) * size_t{sizeof(Piece)}; };
    const auto load = [&](const std::byte *from, Piece(&to)[turns]) {
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < turns; ++turn)
        if (has(turn)) to[turn] = Access::load(from + at(turn));
    };
    note_batch();
    Piece results[turns]{};  // at first the operands of the last rank
    typename Reduction::template Partial<Piece> partial[turns]{};
    load(of.operand(last), results);
    RONDO_KEEP_LOOP
    for (uint32_t rank = 0; rank < last; rank += at_once) {
      Piece operands[at_once][turns]{};
      if (rank != 0) note_batch();
      RONDO_UNROLL
      for (uint32_t each = 0; each < at_once; ++each)
        if (rank + each < last) load(of.operand(rank + each), operands[each]);
      const auto reduce = [&](uint32_t turn) {
        RONDO_UNROLL
        for (uint32_t each = 0; each < at_once; ++each)
          if (rank + each < last)
            partial[turn] = rank + each == 0 ? Reduction::begin(operands[each][turn], of.divisor)
                                             : Reduction::add(partial[turn], operands[each][turn], of.divisor);
      };
      for_each_turn<turns, rotates>(reduce, [&] {
        rotate(partial);
        RONDO_UNROLL
        for (uint32_t each = 0; each < at_once; ++each) rotate(operands[each]);
      });
    }
    const auto finish = [&](uint32_t turn) {
      results[turn] = Reduction::finish(partial[turn], results[turn], of.divisor);
    };
    for_each_turn<turns, rotates>(finish, [&] {
      rotate(partial);
      rotate(results);
    });
    RONDO_KEEP_LOOP
    for (uint32_t which = 0; which < of.output_count; ++which) {
      std::byte *const to = of.output(which);
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < turns; ++turn)
        if (has(turn)) Access::store(to + at(turn), results[turn]);
    }
  }
}

/// Reduces vectors [0, end) of two ranks, without a division, as long as every thread of the group has a full turn.
/// Returns how many vectors it reduced. The loads of the next turn are in flight while a turn is stored. No two threads
/// or turns touch the same vector.
template <class Reduction, uint32_t turns, Group G, class Operands>
[[nodiscard]] RONDO_HD uint32_t reduce_pairs(G group, const Operands &of, uint32_t end) {
  const uint32_t step = turns * group.size(), stop = end / step * step;
  if (stop == 0) return 0;
  const auto place = [&](uint32_t at, uint32_t turn) {
    return (at + group.rank() + turn * group.size()) * size_t{vector_bytes};
  };
  Vector firsts[turns], seconds[turns], results[turns];
  const auto load = [&](uint32_t at) {
    note_batch();
    const std::byte *const first = of.operand(0), *const second = of.operand(1);
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < turns; ++turn) firsts[turn] = memory::load_vector(first + place(at, turn));
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < turns; ++turn) seconds[turn] = memory::load_vector(second + place(at, turn));
  };
  const auto reduce = [&] {
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < turns; ++turn)
      results[turn] = Reduction::add(firsts[turn], seconds[turn], 0);
  };
  const auto store = [&](uint32_t at) {
    RONDO_KEEP_LOOP
    for (uint32_t which = 0; which < of.output_count; ++which) {
      std::byte *const to = of.output(which);
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < turns; ++turn) memory::store_vector(to + place(at, turn), results[turn]);
    }
  };
  load(0);
  RONDO_KEEP_LOOP
  for (uint32_t at = 0; at + step < stop; at += step) {
    reduce();
    load(at + step);
    store(at);
  }
  reduce();
  store(stop - step);
  return stop;
}

/// Reduces vectors [0, end) of small floats of two ranks. Each partial result is used at once. So more vectors can be
/// in flight than in reduce_pieces(), which would run out of registers.
template <class Reduction, uint32_t turns, Group G, class Operands>
RONDO_HD void reduce_wide_pairs(G group, const Operands &of, uint32_t end) {
  RONDO_KEEP_LOOP
  for (uint32_t first = group.rank(); first < end; first += turns * group.size()) {
    const auto has = [&](uint32_t turn) { return turn == 0 || first + turn * group.size() < end; };
    const auto at = [&](uint32_t turn) { return (first + turn * group.size()) * size_t{vector_bytes}; };
    note_batch();
    Vector firsts[turns]{}, results[turns]{};
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < turns; ++turn)
      if (has(turn)) firsts[turn] = memory::load_vector(of.operand(0) + at(turn));
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < turns; ++turn)
      if (has(turn)) results[turn] = memory::load_vector(of.operand(1) + at(turn));
    const auto finish = [&](uint32_t turn) {
      results[turn] = Reduction::finish(Reduction::begin(firsts[turn], of.divisor), results[turn], of.divisor);
    };
    for_each_turn<turns, true>(finish, [&] {
      rotate(firsts);
      rotate(results);
    });
    RONDO_KEEP_LOOP
    for (uint32_t which = 0; which < of.output_count; ++which) {
      std::byte *const to = of.output(which);
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < turns; ++turn)
        if (has(turn)) memory::store_vector(to + at(turn), results[turn]);
    }
  }
}

/// Reduces `count` elements of a part. `addresses` is the bitwise or of the addresses of all operands and outputs;
/// multiples of 16 may be left out.
template <class Reduction, Group G, class Operands>
RONDO_HD void reduce_part(G group, const Operands &of, uint64_t addresses, uint32_t count) {
  using Storage = typename Reduction::Storage;
  if (addresses % sizeof(Storage) != 0)
    return reduce_pieces<Reduction, ElementPiece<Storage, 1>, Reduction::at_once, 1>(group, of, 0, count);
  uint32_t in_vectors = 0;
  if (addresses % vector_bytes == 0 && (Reduction::divides_pieces || of.divisor == 0)) {
    const uint32_t vectors = count * static_cast<uint32_t>(sizeof(Storage)) / vector_bytes;
    in_vectors = vectors * (vector_bytes / static_cast<uint32_t>(sizeof(Storage)));
    // A thread has 8 vectors in flight, so a block of 256 threads has 32 KiB. With few ranks it takes more pieces at a
    // time. Elements of one byte need much code, so then 4 vectors are from the last rank and 4 from one other rank.
    // Partial results of small floats take registers, the smaller the floats the more.
    if constexpr (Reduction::is_wide) {
      if (of.rank_count == 2)
        reduce_wide_pairs<Reduction, 4>(group, of, vectors);
      else
        reduce_pieces<Reduction, VectorPiece, 3, sizeof(Storage) == 1 ? 1 : 2>(group, of, 0, vectors);
    } else if (Reduction::is_narrow || of.rank_count < 4) {
      constexpr uint32_t few = sizeof(Storage) == 1 ? 1 : 2;
      uint32_t done = 0;
      if constexpr (!Reduction::is_narrow)
        if (of.rank_count == 2 && of.divisor == 0) done = reduce_pairs<Reduction, 4>(group, of, vectors);
      reduce_pieces<Reduction, VectorPiece, few, 4>(group, of, done, vectors);
    } else if constexpr (!Reduction::is_narrow) {
      reduce_pieces<Reduction, VectorPiece, 4, 2>(group, of, 0, vectors);
    }
  }
  reduce_pieces<Reduction, ElementPiece<Storage, sizeof(Storage)>, Reduction::at_once, 1>(group, of, in_vectors, count);
}

/// Copies pieces [0, end) from `offset` on. Each thread has as many loads in flight as in a reduction. If an output is
/// the operand, nothing is written there.
template <class Access, Group G, class Operands>
RONDO_HD void copy_pieces(G group, const Operands &of, uint32_t offset, uint32_t end) {
  using Piece = typename Access::Piece;
  constexpr uint32_t turns = 8;
  const std::byte *const from = of.operand(0);
  RONDO_KEEP_LOOP
  for (uint32_t first = group.rank(); first < end; first += turns * group.size()) {
    const auto has = [&](uint32_t turn) { return turn == 0 || first + turn * group.size() < end; };
    const auto at = [&](uint32_t turn) { return offset + (first + turn * group.size()) * size_t{sizeof(Piece)}; };
    note_batch();
    Piece pieces[turns]{};
    RONDO_UNROLL
    for (uint32_t turn = 0; turn < turns; ++turn)
      if (has(turn)) pieces[turn] = Access::load(from + at(turn));
    RONDO_KEEP_LOOP
    for (uint32_t which = 0; which < of.output_count; ++which) {
      std::byte *const to = of.output(which);
      if (to == from) continue;
      RONDO_UNROLL
      for (uint32_t turn = 0; turn < turns; ++turn)
        if (has(turn)) Access::store(to + at(turn), pieces[turn]);
    }
  }
}

/// Copies `bytes` of a part to all outputs. `difference` has the bits in which addresses of outputs differ from the
/// operand's address.
template <Group G, class Operands>
RONDO_HD void copy_part(G group, const Operands &of, uint64_t difference, uint32_t bytes) {
  using Word = ElementPiece<uint32_t, sizeof(uint32_t)>;
  using Byte = ElementPiece<uint8_t, 1>;
  const bool vectors = difference % vector_bytes == 0, words = difference % sizeof(uint32_t) == 0;
  const uint32_t unit = vectors ? vector_bytes : words ? static_cast<uint32_t>(sizeof(uint32_t)) : 1;
  const uint32_t past = static_cast<uint32_t>(GroupArgs::address(of.operand(0))) % unit;
  const uint32_t to_unit = (unit - past) % unit;
  const uint32_t head = to_unit < bytes ? to_unit : bytes;
  const uint32_t count = unit == 1 ? 0 : (bytes - head) / unit;
  if (vectors)
    copy_pieces<VectorPiece>(group, of, head, count);
  else
    copy_pieces<Word>(group, of, head, count);
  copy_pieces<Byte>(group, of, 0, head);
  const uint32_t tail = head + count * unit;
  copy_pieces<Byte>(group, of, tail, bytes - tail);
}

}  // namespace rondo::device
