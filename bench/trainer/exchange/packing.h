// SPDX-License-Identifier: Apache-2.0
// This file packs gradients into fewer bytes, and keeps the remainder. The forms are int8 with a scale for each block,
// and top-k, which sends only the largest values.
#pragma once

#include <cstddef>
#include <memory>

#include "bench/trainer/exchange/compression.h"

namespace rondo::train {

class Packing {
 public:
  virtual ~Packing() = default;

  /// Returns the packed size of `count` values in bytes. It is equal on all ranks, and a multiple of 64.
  [[nodiscard]] virtual size_t packed_bytes(size_t count) const = 0;
  /// Packs values. What the packed form cannot represent stays in `values`.
  virtual void pack(float *values, size_t count, std::byte *packed) = 0;
  /// Adds the packed values to `sums`.
  virtual void add(const std::byte *packed, size_t count, float *sums) const = 0;
};

/// Makes the packing for int8 or top_k.
[[nodiscard]] std::unique_ptr<Packing> make_packing(const Compression &compression);

}  // namespace rondo::train
