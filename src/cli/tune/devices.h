// SPDX-License-Identifier: Apache-2.0
// The parts of `rondo tune --device` that are pure: what is tried, what `rondo perf` reports, and what that comes to.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/cli/tune/tune.h"

namespace rondo::cli::tune {

/// What the ranks are asked for.
struct DeviceCandidate {
  PlanChoice asked;         ///< AUTO and 0 where the library is free
  uint32_t blocks_max = 0;  ///< of a call; 0: no limit
  uint64_t bytes_max = std::numeric_limits<uint64_t>::max();  ///< up to which it is tried
};
/// The first one is what the library does by itself.
[[nodiscard]] std::vector<DeviceCandidate> device_candidates(const Group &group, bool quick);

/// Of the sizes that are asked for, those that have an element for each rank at least, up to `bytes_max`.
[[nodiscard]] std::vector<uint64_t> device_sizes(const Options &options, const Group &group, uint64_t bytes_max);

/// A size in a run of `rondo perf`.
struct DeviceResult {
  uint64_t bytes = 0;
  PlanChoice choice;  ///< what was used
  double median_us = 0;
};
/// From the JSON of `rondo perf`.
[[nodiscard]] Result<std::vector<DeviceResult>> parse_perf(std::string_view text);
[[nodiscard]] Result<std::vector<DeviceResult>> read_perf_file(const std::string &path);

/// What was measured of a group. Candidates that came to the same choice at a size are one there.
class DeviceTimes {
 public:
  void add(const DeviceResult &result);
  /// The least of all at this size, which has been added.
  [[nodiscard]] double best_us(uint64_t bytes) const;
  [[nodiscard]] std::vector<Series> series() const;

 private:
  std::map<uint64_t, std::vector<std::pair<PlanChoice, std::vector<double>>>> times_;
};

}  // namespace rondo::cli::tune
