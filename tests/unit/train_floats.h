// SPDX-License-Identifier: Apache-2.0
// This file compares arrays of floats, for tests of the trainer.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

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

}  // namespace rondo::train_test
