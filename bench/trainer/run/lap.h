// SPDX-License-Identifier: Apache-2.0
// These are two helpers of the trainer's files: the time of a part of a step, and the mean of losses.
#pragma once

#include <cstddef>
#include <vector>

#include "bench/trainer/figures/timeline.h"

namespace rondo::train {

/// Adds the time since `begin_ns` to `sum_ns`. If `spans` is not null, appends a span of that time. @return now.
inline uint64_t lap(uint64_t begin_ns, Part part, uint64_t step, uint64_t &sum_ns, std::vector<Span> *spans) {
  const uint64_t end_ns = now_ns();
  sum_ns += end_ns - begin_ns;
  if (spans != nullptr) spans->push_back({part, 0, step, begin_ns, end_ns, begin_ns});
  return end_ns;
}

inline double mean(const float *values, size_t count) {
  double sum = 0;
  for (size_t at = 0; at < count; ++at) sum += static_cast<double>(values[at]);
  return sum / static_cast<double>(count);
}

}  // namespace rondo::train
