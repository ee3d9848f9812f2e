// SPDX-License-Identifier: Apache-2.0
// This file computes the shape of trees (src/plan/tree.cpp draws it): the parent of each position, and the rank or host
// at that position.
#pragma once

#include <bit>

#include "src/plan/build.h"

namespace rondo {

/// The lanes of an all-reduce. Sums go up and results go down at the same time.
inline constexpr uint32_t lane_up = 0, lane_down = 1;

/// A binary tree over the positions 0 to count - 1.
struct Tree {
  uint32_t count;

  [[nodiscard]] uint32_t parent(uint32_t position) const {
    const uint32_t unit = lowest_bit(position);
    const uint32_t above = (position - unit) | (2 * unit);
    return above < count ? above : position - unit;
  }

  /// Returns the children of `position`, the lower one first.
  [[nodiscard]] Peers children(uint32_t position) const {
    Peers found;
    uint32_t half = position == 0 ? std::bit_ceil(count) / 2 : lowest_bit(position) / 2;
    if (position != 0 && half != 0) found.add(position - half);
    while (half != 0 && position + half >= count) half /= 2;
    if (half != 0) found.add(position + half);
    return found;
  }

  /// Returns the sum of weight(position) over the subtree of `position`, which includes `position`.
  template <class Weight>
  [[nodiscard]] uint32_t total(uint32_t position, const Weight &weight) const {
    uint32_t sum = weight(position);
    const Peers below = children(position);
    for (uint32_t i = 0; i < below.count; ++i) sum += total(below.ranks[i], weight);
    return sum;
  }

 private:
  [[nodiscard]] static uint32_t lowest_bit(uint32_t position) { return uint32_t{1} << std::countr_zero(position); }
};

/// Maps ranks to positions in a tree and back. In the first tree, a rank's position is its distance from the root.
struct TreePlacement {
  uint32_t root, count;
  bool second;   ///< true for the second tree
  bool rooted;   ///< true if the root is at position 0

  [[nodiscard]] uint32_t position(uint32_t rank) const {
    const uint32_t distance = ring_rank(rank, count - root, count);
    if (!second) return distance;
    if (!rooted) return count % 2 == 0 ? count - 1 - distance : ring_rank(distance, 1, count);
    if (distance == 0) return 0;
    return count % 2 == 1 ? count - distance : distance % (count - 1) + 1;
  }

  [[nodiscard]] uint32_t rank(uint32_t position) const { return ring_rank(distance(position), root, count); }

  [[nodiscard]] Peers ranks(Peers positions) const {
    for (uint32_t i = 0; i < positions.count; ++i) positions.ranks[i] = rank(positions.ranks[i]);
    return positions;
  }

 private:
  [[nodiscard]] uint32_t distance(uint32_t position) const {
    if (!second) return position;
    if (!rooted) return count % 2 == 0 ? count - 1 - position : ring_rank(position, count - 1, count);
    if (position == 0) return 0;
    return count % 2 == 1 ? count - position : (position + count - 3) % (count - 1) + 1;
  }
};

}  // namespace rondo
