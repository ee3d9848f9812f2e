// SPDX-License-Identifier: Apache-2.0
// This file cuts the gradients into buckets, and a bucket into shares. Both depend only on the layout, so all ranks
// agree.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/trainer/model/optimizer.h"
#include "bench/trainer/model/shape.h"

namespace rondo::train {

/// Gradients that are exchanged together: floats [offset, offset + count), which are the tensors [first, end) of the
/// layout.
struct Bucket {
  size_t first = 0, end = 0, offset = 0, count = 0;
  bool of_experts = false;
};

/// Returns buckets of the floats that the stage updates. A bucket ends where experts begin or end, and before a tensor
/// that would make it larger than `bytes`. A tensor of more than `bytes` has a bucket of its own.
[[nodiscard]] std::vector<Bucket> make_buckets(const Layout &layout, size_t bytes);

/// A rank's share of a bucket. Shares consist of whole vectors of floats and are nearly equal: if the division leaves a
/// remainder, the first ranks have one vector more.
struct Share {
  size_t offset = 0, count = 0;  ///< in floats of the layout
};
[[nodiscard]] Share share_of(const Bucket &bucket, size_t rank, size_t ranks);

/// Returns, for each bucket, the pieces that an optimizer updates: the rank's share, cut at the borders of tensors.
[[nodiscard]] std::vector<std::vector<Piece>> pieces_of(const Layout &layout, const std::vector<Bucket> &buckets,
                                                        size_t rank, size_t ranks);

}  // namespace rondo::train
