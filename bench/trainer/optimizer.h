// SPDX-License-Identifier: Apache-2.0
// AdamW over all parameters, with the learning rate's schedule. Parameters and moments are floats, whatever type the
// gradients had on the wire.
#pragma once

#include "bench/trainer/compute.h"
#include "bench/trainer/shape.h"

namespace rondo::train {

struct Schedule {
  double highest = 1e-3;
  uint64_t warmup = 10, steps = 100;

  /// Rises evenly over the warm-up, then falls along a half cosine to a tenth. Steps count from 0.
  [[nodiscard]] double rate(uint64_t step) const;
};

/// What gradients of this norm are multiplied by so that their norm is at most `most`; 0: no limit.
[[nodiscard]] double clip_scale(double norm, double most);

class Optimizer {
 public:
  Optimizer(const Layout &layout, Compute &compute);

  [[nodiscard]] bool allocated() const { return first_ != nullptr && second_ != nullptr; }
  [[nodiscard]] float *first_moments() const { return first_.get(); }
  [[nodiscard]] float *second_moments() const { return second_.get(); }

  /// @param updates  how many there were before.
  void update(float *parameters, const float *gradients, double gradient_scale, double rate, double decay,
              uint64_t updates);

 private:
  const Layout &layout_;
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
