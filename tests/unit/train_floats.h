// SPDX-License-Identifier: Apache-2.0
// This file compares arrays of floats for tests of the trainer, and gradients with finite differences.
//
// Let f be a function of an array x, and v a random direction. Then (sum(w * f(x + h v)) - sum(w * f(x - h v))) / 2h
// must be the product of v and the gradient that the backward function computes for output gradients w. One direction
// covers all elements at once; several are drawn.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "bench/trainer/compute/compute.h"
#include "bench/trainer/model/random.h"
#include "tests/catch.h"

namespace rondo::train_test {

using Floats = std::vector<float>;

/// Returns the Euclidean norm of the difference, divided by the norm of `other`.
inline double distance(const Floats &one, const Floats &other) {
  double sum = 0, size = 0;
  for (size_t at = 0; at < one.size(); ++at) {
    sum += std::pow(static_cast<double>(one[at]) - static_cast<double>(other[at]), 2);
    size += std::pow(static_cast<double>(other[at]), 2);
  }
  return std::sqrt(sum / size);
}

inline Floats random_floats(size_t count, uint64_t seed, double deviation = 1.0) {
  train::Random random(seed);
  Floats values(count);
  for (float &value : values) value = static_cast<float>(deviation * random.normal());
  return values;
}

/// Returns zeros in memory of the host.
inline train::Buffer floats(size_t count) {
  return {new float[count](), [](float *end) { delete[] end; }};
}

inline double dot(const Floats &x, const Floats &y) {
  double sum = 0;
  for (size_t at = 0; at < x.size(); ++at) sum += static_cast<double>(x[at]) * static_cast<double>(y[at]);
  return sum;
}

/// Checks `gradient` against loss(x) by finite differences along random directions. The bound allows for the errors of
/// the difference (h^2) and of rounding (1 / h).
inline void check_gradient(const std::string &what, const Floats &x, const Floats &gradient,
                           const std::function<double(const Floats &)> &loss, double h = 1e-2) {
  REQUIRE(gradient.size() == x.size());
  const double size = std::sqrt(dot(gradient, gradient));
  CHECK(size > 0);
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    // The derivative is largest along the gradient itself. The other directions differ from it by a random angle.
    Floats direction = random_floats(x.size(), 77 * seed);
    const double length = std::sqrt(dot(direction, direction));
    for (size_t at = 0; at < x.size(); ++at)
      direction[at] = static_cast<float>(direction[at] / length + (seed % 2 ? gradient[at] / size : 0.0));
    Floats above = x, below = x;
    for (size_t at = 0; at < x.size(); ++at) {
      above[at] += static_cast<float>(h * direction[at]);
      below[at] -= static_cast<float>(h * direction[at]);
    }
    const double found = (loss(above) - loss(below)) / (2 * h);
    INFO(what << ", direction " << seed << ": difference " << found << ", gradient " << dot(gradient, direction));
    CHECK(std::abs(found - dot(gradient, direction)) < 0.01 * size);
  }
}

}  // namespace rondo::train_test
