// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/exchange/bucket.h"

#include <algorithm>

namespace rondo::train {

std::vector<Bucket> make_buckets(const Layout &layout, size_t bytes) {
  const size_t most = std::max<size_t>(bytes / sizeof(float), 1);
  std::vector<Bucket> buckets;
  for (size_t index = 0; index < layout.tensors.size(); ++index) {
    const Tensor &tensor = layout.tensors[index];
    if (tensor.offset >= layout.trained) break;
    if (buckets.empty() || buckets.back().count + tensor.count > most ||
        buckets.back().of_experts != tensor.of_experts)
      buckets.push_back({index, index, tensor.offset, 0, tensor.of_experts});
    buckets.back().end = index + 1;
    buckets.back().count += tensor.count;
  }
  return buckets;
}

Share share_of(const Bucket &bucket, size_t rank, size_t ranks) {
  constexpr size_t vector_floats = 16;  // the kernels' unit; every tensor is a multiple of it
  const size_t vectors = bucket.count / vector_floats, each = vectors / ranks, rest = vectors % ranks;
  const size_t before = rank * each + std::min(rank, rest);
  return {bucket.offset + before * vector_floats, (each + (rank < rest ? 1 : 0)) * vector_floats};
}

std::vector<std::vector<Piece>> pieces_of(const Layout &layout, const std::vector<Bucket> &buckets, size_t rank,
                                          size_t ranks) {
  std::vector<std::vector<Piece>> parts;
  for (const Bucket &bucket : buckets) {
    const Share share = share_of(bucket, rank, ranks);
    auto &pieces = parts.emplace_back();
    for (size_t index = bucket.first; index < bucket.end; ++index) {
      const Tensor &tensor = layout.tensors[index];
      const size_t begin = std::max(tensor.offset, share.offset);
      const size_t end = std::min(tensor.offset + tensor.count, share.offset + share.count);
      if (begin < end) pieces.push_back({begin, end - begin, tensor.decays()});
    }
  }
  return parts;
}

}  // namespace rondo::train
