// SPDX-License-Identifier: Apache-2.0
// The gradients cut into buckets, and a bucket into shares. Both follow from the layout alone, so all ranks agree.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/trainer/model/optimizer.h"
#include "bench/trainer/model/shape.h"

namespace rondo::train {

/// Gradients that travel together: floats [offset, offset + count), which are tensors [first, end) of the layout.
struct Bucket {
  size_t first = 0, end = 0, offset = 0, count = 0;
  bool of_experts = false;
};

/// A bucket ends before the tensor that would make it larger than `bytes`, and where experts begin or end. A larger
/// tensor has a bucket of its own.
[[nodiscard]] std::vector<Bucket> make_buckets(const Layout &layout, size_t bytes);

/// Shares of a bucket are nearly equal and whole vectors of floats; the first ranks have what is left over.
struct Share {
  size_t offset = 0, count = 0;  ///< floats, counted as the layout's
};
[[nodiscard]] Share share_of(const Bucket &bucket, size_t rank, size_t ranks);

/// Returns what an optimizer updates of each bucket: rank's share of it, in pieces that are of one tensor each.
[[nodiscard]] std::vector<std::vector<Piece>> pieces_of(const Layout &layout, const std::vector<Bucket> &buckets,
                                                        size_t rank, size_t ranks);

}  // namespace rondo::train
