// SPDX-License-Identifier: Apache-2.0
// This file declares the pure parts of `rondo tune --device`: candidates, the parsing of reports of `rondo perf`, and
// results.
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

/// The request of the ranks.
struct DeviceCandidate {
  PlanChoice asked;         ///< AUTO or 0 means that the library chooses
  uint32_t blocks_max = 0;  ///< of a call; 0 for no limit
  uint64_t bytes_max = std::numeric_limits<uint64_t>::max();  ///< the largest size at which it is tried
};
/// Returns the candidates. The first one is the library's own choice.
[[nodiscard]] std::vector<DeviceCandidate> device_candidates(const Group &group, bool quick);

/// Returns the requested sizes up to `bytes_max` with at least one element for each rank.
[[nodiscard]] std::vector<uint64_t> device_sizes(const Options &options, const Group &group, uint64_t bytes_max);

/// One size in a run of `rondo perf`.
struct DeviceResult {
  uint64_t bytes = 0;
  PlanChoice choice;  ///< the choice that was used
  double median_us = 0;
};
/// Parses the JSON of `rondo perf`.
[[nodiscard]] Result<std::vector<DeviceResult>> parse_perf(std::string_view text);
[[nodiscard]] Result<std::vector<DeviceResult>> read_perf_file(const std::string &path);

/// The measured times of a group. If several candidates lead to the same choice at a size, they count as one candidate
/// there.
class DeviceTimes {
 public:
  void add(const DeviceResult &result);
  /// Returns the least time of all candidates at this size, which must have been added.
  [[nodiscard]] double best_us(uint64_t bytes) const;
  [[nodiscard]] std::vector<Series> series() const;

 private:
  std::map<uint64_t, std::vector<std::pair<PlanChoice, std::vector<double>>>> times_;
};

}  // namespace rondo::cli::tune
