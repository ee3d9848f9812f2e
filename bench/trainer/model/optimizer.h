// SPDX-License-Identifier: Apache-2.0
// AdamW, with the learning rate's schedule. Parameters and moments are floats, whatever type the
// gradients had on the wire.
#pragma once

#include <vector>

#include "bench/trainer/compute/compute.h"

namespace rondo::train {

struct Schedule {
  double highest = 1e-3;
  uint64_t warmup = 10, steps = 100;

  /// Rises evenly over the warm-up, then falls along a half cosine to a tenth. Steps count from 0.
  [[nodiscard]] double rate(uint64_t step) const;
};

/// Returns the factor for gradients of this norm that makes their norm at most `most`. If `most` is 0, there is no
/// limit.
[[nodiscard]] double clip_scale(double norm, double most);

/// Parameters that are updated alike: floats [offset, offset + count) of all, within one tensor.
struct Piece {
  size_t offset = 0, count = 0;
  bool decays = false;
};

/// AdamW for all parameters, or for the share of them that this rank updates.
class Optimizer {
 public:
  /// @param parts  pieces that are updated together, in the order of their offsets.
  Optimizer(std::vector<std::vector<Piece>> parts, Compute &compute);

  [[nodiscard]] bool allocated() const { return first_ != nullptr && second_ != nullptr; }
  /// Returns the moments of all pieces, one after another.
  [[nodiscard]] float *first_moments() const { return first_.get(); }
  [[nodiscard]] float *second_moments() const { return second_.get(); }
  [[nodiscard]] size_t count() const { return count_; }  ///< floats in each of them
  [[nodiscard]] size_t part_count() const { return parts_.size(); }
  [[nodiscard]] const std::vector<Piece> &part(size_t index) const { return parts_[index]; }

  /// Updates one part.
  /// @param update  the same for all pieces: gradient_scale, learning_rate, step, and decay where there is any.
  void update(size_t part, float *parameters, const float *gradients, AdamUpdate update);

 private:
  std::vector<std::vector<Piece>> parts_;
  std::vector<size_t> begins_;  ///< of the parts' moments
  size_t count_ = 0;
  Compute &compute_;
  Buffer first_, second_;
};

/// The scale of float16 gradients: halved when one of them became infinite, doubled after 200 steps without that.
struct LossScale {
  double scale = 65'536;
  uint64_t good_steps = 0;

  void step_was(bool finite);
};

}  // namespace rondo::train
