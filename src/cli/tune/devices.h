// SPDX-License-Identifier: Apache-2.0
// The pure parts of `rondo tune --device`: the candidates, the reports of `rondo perf`, and the result.
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

/// The request that the ranks get.
struct DeviceCandidate {
  PlanChoice asked;         ///< AUTO and 0 where the library is free
  uint32_t blocks_max = 0;  ///< of a call; 0 for no limit
  uint64_t bytes_max = std::numeric_limits<uint64_t>::max();  ///< up to which it is tried
};
/// Returns the candidates. The first one is the library's own choice.
[[nodiscard]] std::vector<DeviceCandidate> device_candidates(const Group &group, bool quick);

/// Returns the requested sizes up to `bytes_max` that have an element for each rank at least.
[[nodiscard]] std::vector<uint64_t> device_sizes(const Options &options, const Group &group, uint64_t bytes_max);

/// A size in a run of `rondo perf`.
struct DeviceResult {
  uint64_t bytes = 0;
  PlanChoice choice;  ///< what was used
  double median_us = 0;
};
/// Parses the JSON of `rondo perf`.
[[nodiscard]] Result<std::vector<DeviceResult>> parse_perf(std::string_view text);
[[nodiscard]] Result<std::vector<DeviceResult>> read_perf_file(const std::string &path);

/// The measured times of a group. If candidates lead to the same choice at a size, they count as one there.
class DeviceTimes {
 public:
  void add(const DeviceResult &result);
  /// Returns the least time of all at this size, which has been added.
  [[nodiscard]] double best_us(uint64_t bytes) const;
  [[nodiscard]] std::vector<Series> series() const;

 private:
  std::map<uint64_t, std::vector<std::pair<PlanChoice, std::vector<double>>>> times_;
};

}  // namespace rondo::cli::tune
