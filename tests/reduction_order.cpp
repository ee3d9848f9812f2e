// SPDX-License-Identifier: Apache-2.0
// This file implements the section "Order of rounding" of docs/schedules.md.
#include "tests/reduction_order.h"

#include <algorithm>
#include <functional>

namespace rondo::test {
namespace {

Reduction leaf(uint32_t rank) { return {rank, {}}; }

/// Returns x(c) [x(c-1) [... [x(c+2) x(c+1)]]], where c is `last` and x(r) is the operand of rank r.
Reduction ring(uint32_t rank_count, uint32_t last) {
  Reduction reduce = leaf((last + 1) % rank_count);
  for (uint32_t hop = 2; hop <= rank_count; ++hop) reduce = {0, {leaf((last + hop) % rank_count), reduce}};
  return reduce;
}

/// Returns [[x0 x1] x2] ... in rank order.
Reduction in_rank_order(uint32_t rank_count) {
  Reduction reduce = leaf(0);
  for (uint32_t rank = 1; rank < rank_count; ++rank) reduce = {0, {reduce, leaf(rank)}};
  return reduce;
}

/// Returns [x0 x1 x2 ...].
Reduction rounded_once(uint32_t rank_count) {
  Reduction reduce;
  for (uint32_t rank = 0; rank < rank_count; ++rank) reduce.operands.push_back(leaf(rank));
  return reduce;
}

/// Returns [[x(c) x(c+1)] x(c+2)] ..., where c is the owner.
Reduction from_owner(uint32_t rank_count, uint32_t owner) {
  Reduction reduce = leaf(owner);
  for (uint32_t offset = 1; offset < rank_count; ++offset) reduce = {0, {reduce, leaf((owner + offset) % rank_count)}};
  return reduce;
}

/// Returns V(r): first x(r) or [x(r) x(m+r)], then [V(r) V(r xor d)] for d = m/2, m/4, ... 1. m is `core`.
Reduction halving(uint32_t rank_count, uint32_t rank) {
  uint32_t core = 1;
  while (2 * core <= rank_count) core *= 2;
  const std::function<Reduction(uint32_t, uint32_t)> value = [&](uint32_t at, uint32_t distance) -> Reduction {
    if (distance == core) {
      if (core + at < rank_count) return {0, {leaf(at), leaf(core + at)}};
      return leaf(at);
    }
    return {0, {value(at, 2 * distance), value(at ^ distance, 2 * distance)}};
  };
  return value(rank, 1);
}

uint32_t trailing_zeros(uint32_t position) {
  uint32_t count = 0;
  for (; position % 2 == 0; position /= 2) ++count;
  return count;
}

/// Returns the part of the tree over positions first..last. Its root is the position with the most trailing zero bits.
Reduction tree_part(uint32_t first, uint32_t last, const std::vector<uint32_t> &rank_at) {
  uint32_t top = first;
  for (uint32_t position = first; position <= last; ++position)
    if (trailing_zeros(position) > trailing_zeros(top)) top = position;
  Reduction reduce{0, {leaf(rank_at[top])}};
  if (first < top) reduce.operands.push_back(tree_part(first, top - 1, rank_at));
  if (top < last) reduce.operands.push_back(tree_part(top + 1, last, rank_at));
  return reduce.operands.size() == 1 ? leaf(rank_at[top]) : reduce;
}

Reduction tree(uint32_t rank_count, uint32_t root, bool rooted, bool second) {
  std::vector<uint32_t> rank_at(rank_count);
  const uint32_t base = rooted ? root : 0;
  for (uint32_t distance = 0; distance < rank_count; ++distance) {
    uint32_t position = distance;
    if (second && !rooted) position = rank_count % 2 == 0 ? rank_count - 1 - distance : (distance + 1) % rank_count;
    if (second && rooted && distance > 0)
      position = rank_count % 2 == 1 ? rank_count - distance : distance % (rank_count - 1) + 1;
    rank_at[position] = (base + distance) % rank_count;
  }
  return {0, {leaf(rank_at[0]), tree_part(1, rank_count - 1, rank_at)}};
}

}  // namespace

Reduction reduction_order(rondo_algorithm_t algorithm, rondo_collective_t collective, uint32_t rank_count,
                          uint32_t root, uint32_t channel, uint32_t chunk, rondo_kernel_t kernel) {
  if (rank_count == 1) return leaf(0);
  const bool rooted = collective == RONDO_REDUCE;
  switch (algorithm) {
    case RONDO_ALGORITHM_RING: return ring(rank_count, rooted ? root : chunk);
    case RONDO_ALGORITHM_TREE: return tree(rank_count, root, rooted, channel % 2 == 1);
    case RONDO_ALGORITHM_HALVING_DOUBLING: return halving(rank_count, chunk);
    case RONDO_ALGORITHM_HIERARCHICAL:
      return collective == RONDO_ALL_REDUCE ? from_owner(rank_count, chunk) : ring(rank_count, chunk);
    case RONDO_ALGORITHM_HIERARCHICAL_TREE:  // on one host: the first tree, with the leader as its root
      return tree(rank_count, rooted ? root : channel % rank_count, true, false);
    default: return kernel == RONDO_KERNEL_LOAD_STORE ? rounded_once(rank_count) : in_rank_order(rank_count);
  }
}

uint32_t reduce_chunk_count(rondo_algorithm_t algorithm, rondo_collective_t collective, uint32_t rank_count) {
  if (collective == RONDO_REDUCE_SCATTER) return rank_count;
  switch (algorithm) {
    case RONDO_ALGORITHM_RING: return collective == RONDO_REDUCE ? 1 : rank_count;
    case RONDO_ALGORITHM_HALVING_DOUBLING: {
      uint32_t core = 1;
      while (2 * core <= rank_count) core *= 2;
      return core;
    }
    case RONDO_ALGORITHM_TWO_SHOT: return rank_count;
    case RONDO_ALGORITHM_HIERARCHICAL: return rank_count;  // on one host
    default: return 1;
  }
}

std::string step_text(std::vector<std::string> operands) {
  if (operands.size() >= 2 && operands[1] < operands[0]) std::swap(operands[0], operands[1]);
  std::string text = "(";
  for (const std::string &operand : operands) text += (text.size() > 1 ? " " : "") + operand;
  return text + ")";
}

std::string to_string(const Reduction &reduce) {
  if (reduce.operands.empty()) return std::to_string(reduce.rank);
  std::vector<std::string> texts;
  for (const Reduction &operand : reduce.operands) texts.push_back(to_string(operand));
  return step_text(std::move(texts));
}

}  // namespace rondo::test
