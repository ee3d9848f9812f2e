// SPDX-License-Identifier: Apache-2.0
// Packs gradients into fewer bytes, and keeps the remainder. The forms are int8 with a scale for each block, and only
// the largest values.
#pragma once

#include <cstddef>
#include <memory>

#include "bench/trainer/exchange/compression.h"

namespace rondo::train {

class Packing {
 public:
  virtual ~Packing() = default;

  /// Returns the bytes that `count` values take; the same on all ranks, and a multiple of 64.
  [[nodiscard]] virtual size_t packed_bytes(size_t count) const = 0;
  /// Packs values. The rest that the packed form cannot hold stays in `values`.
  virtual void pack(float *values, size_t count, std::byte *packed) = 0;
  /// Adds what is packed to `sums`.
  virtual void add(const std::byte *packed, size_t count, float *sums) const = 0;
};

/// Makes the packing for int8 or top_k.
[[nodiscard]] std::unique_ptr<Packing> make_packing(const Compression &compression);

}  // namespace rondo::train
