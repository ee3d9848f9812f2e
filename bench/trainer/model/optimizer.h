// SPDX-License-Identifier: Apache-2.0
// This file declares AdamW and the schedule of its learning rate. Parameters and moments are floats, whatever type
// gradients have on the wire.
#pragma once

#include <vector>

#include "bench/trainer/compute/compute.h"

namespace rondo::train {

struct Schedule {
  double highest = 1e-3;
  uint64_t warmup = 10, steps = 100;

  /// Returns the rate of a step, counted from 0. It rises linearly during the warm-up, then falls along half a cosine
  /// to a tenth.
  [[nodiscard]] double rate(uint64_t step) const;
};

/// Returns the factor that limits the norm of gradients to `most`, for gradients with the given norm. If `most` is 0,
/// there is no limit.
[[nodiscard]] double clip_scale(double norm, double most);

/// Parameters of one tensor that are updated alike: floats [offset, offset + count) of the array of all parameters.
struct Piece {
  size_t offset = 0, count = 0;
  bool decays = false;
};

/// AdamW for all parameters, or for this rank's share.
class Optimizer {
 public:
  /// @param parts  pieces that are updated together, in the order of their offsets
  Optimizer(std::vector<std::vector<Piece>> parts, Compute &compute);

  [[nodiscard]] bool allocated() const { return first_ != nullptr && second_ != nullptr; }
  /// Returns the first moments of all pieces, one after another.
  [[nodiscard]] float *first_moments() const { return first_.get(); }
  [[nodiscard]] float *second_moments() const { return second_.get(); }
  [[nodiscard]] size_t count() const { return count_; }  ///< number of floats in either kind of moments
  [[nodiscard]] size_t part_count() const { return parts_.size(); }
  [[nodiscard]] const std::vector<Piece> &part(size_t index) const { return parts_[index]; }

  /// Updates one part.
  /// @param update  the values for all pieces: gradient_scale, learning_rate, step, and decay for tensors that decay
  void update(size_t part, float *parameters, const float *gradients, AdamUpdate update);

 private:
  std::vector<std::vector<Piece>> parts_;
  std::vector<size_t> begins_;  ///< offset of each part's moments
  size_t count_ = 0;
  Compute &compute_;
  Buffer first_, second_;
};

/// The scale of float16 gradients. It is halved if a gradient becomes infinite, and doubled after growth_steps steps in
/// which all gradients were finite.
struct LossScale {
  double scale = 65'536;
  uint64_t good_steps = 0;

  void step_was(bool finite);
};

}  // namespace rondo::train
