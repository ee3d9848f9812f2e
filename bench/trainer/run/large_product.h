// SPDX-License-Identifier: Apache-2.0
// This class times one large product, beside whose rate the report shows the rate of the run.
#pragma once

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/lanes/group.h"

namespace rondo::train {

class LargeProduct {
 public:
  explicit LargeProduct(Compute &compute) : compute_(compute) {}

  /// Chooses a size that takes rank 0 a millisecond, but at most rows_max rows. All ranks call it at once.
  [[nodiscard]] Outcome open(Group &group);
  /// Returns the rows and columns of its matrices; 0 if a rank has not enough memory.
  [[nodiscard]] size_t rows() const { return rows_; }
  /// Measures the mean time of several products in a row.
  [[nodiscard]] Outcome measure(uint64_t &time_ns);

 private:
  static constexpr size_t rows_min = 256, rows_max = 8192;

  /// Allocates matrices of random numbers. Returns false if no memory is left.
  [[nodiscard]] bool allocate(size_t rows);
  [[nodiscard]] Outcome multiply(size_t times, uint64_t &time_ns);

  Compute &compute_;
  size_t rows_ = 0;
  Buffer a_, b_, c_;  ///< factors a_ and b_, and the result
};

}  // namespace rondo::train
