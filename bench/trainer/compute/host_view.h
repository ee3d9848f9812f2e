// SPDX-License-Identifier: Apache-2.0
// An array of a backend as the host sees it: itself if the backend's memory is the host's, otherwise a copy.
#pragma once

#include <vector>

#include "bench/trainer/compute/compute.h"

namespace rondo::train {

class HostView {
 public:
  HostView(Compute &compute, float *values, size_t count) : HostView(compute, values, count, true) {}
  HostView(Compute &compute, const float *values, size_t count)
      : HostView(compute, const_cast<float *>(values), count, true) {}
  /// Returns a view that will be written as a whole; its present values do not count.
  [[nodiscard]] static HostView to_fill(Compute &compute, float *values, size_t count) {
    return {compute, values, count, false};
  }

  [[nodiscard]] float *get() { return on_host_ ? values_ : copy_.data(); }
  /// Takes a copy to where it is from.
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
