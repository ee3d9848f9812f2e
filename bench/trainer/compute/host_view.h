// SPDX-License-Identifier: Apache-2.0
// This file gives the host a view of a backend's array. If the backend uses host memory, the view is the array itself.
// Otherwise it is a copy.
#pragma once

#include <vector>

#include "bench/trainer/compute/compute.h"

namespace rondo::train {

class HostView {
 public:
  HostView(Compute &compute, float *values, size_t count) : HostView(compute, values, count, true) {}
  HostView(Compute &compute, const float *values, size_t count)
      : HostView(compute, const_cast<float *>(values), count, true) {}
  /// Returns a view that the caller will write as a whole. The present values are not copied.
  [[nodiscard]] static HostView to_fill(Compute &compute, float *values, size_t count) {
    return {compute, values, count, false};
  }

  [[nodiscard]] float *get() { return on_host_ ? values_ : copy_.data(); }
  /// Copies the values back to the array.
  void write_back() {
    if (!on_host_) compute_.write(copy_.data(), values_, copy_.size());
  }

 private:
  HostView(Compute &compute, float *values, size_t count, bool read)
      : compute_(compute), values_(values), on_host_(compute.on_host()) {
    if (on_host_) return;
    copy_.resize(count);
    if (read) compute.read(values, copy_.data(), count);
  }

  Compute &compute_;
  float *values_;
  bool on_host_;
  std::vector<float> copy_;
};

}  // namespace rondo::train
