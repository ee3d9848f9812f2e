// SPDX-License-Identifier: Apache-2.0
// This file declares how `rondo tune` measures: by runs of `rondo perf`, one for each candidate and round.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "src/cli/tune/tune.h"

namespace rondo::cli::tune {

inline constexpr uint64_t KiB = 1024;
/// The most bytes for which ll is tried. It moves two bytes for each byte, so it is slow even below this size.
inline constexpr uint64_t ll_bytes_max = 256 * KiB;

/// A choice that the ranks request, and the sizes at which the choice is tried.
struct Candidate {
  PlanChoice asked;         ///< AUTO or 0 means that the library chooses
  uint32_t blocks_max = 0;  ///< the most blocks of a call on a device; 0 for no limit
  uint64_t bytes_max = std::numeric_limits<uint64_t>::max();
  uint64_t bytes_min = 0;
};
/// Returns the candidates for buffers on devices. Here and in host_candidates(), the library's own choice is first.
[[nodiscard]] std::vector<Candidate> device_candidates(const Group &group, bool quick);
/// Returns the candidates for host memory. `input` has the sizes of slots. At no size do two candidates do the same.
[[nodiscard]] std::vector<Candidate> host_candidates(const Options &options, const Group &group, TunerInput input);

/// Returns those requested sizes at which the candidate has at least one element for each rank.
[[nodiscard]] std::vector<uint64_t> sizes_of(const Options &options, const Group &group, const Candidate &candidate);

/// The result for one size in a run of `rondo perf`.
struct PerfResult {
  uint64_t bytes = 0;
  PlanChoice choice;  ///< the choice that was used
  double median_us = 0;
  bool disturbed = false;  ///< other programs used the processors meanwhile
};
struct PerfReport {
  std::vector<PerfResult> results;
  bool oversubscribed = false;
};
/// Parses the JSON of `rondo perf`.
[[nodiscard]] Result<PerfReport> parse_perf(std::string_view text);

/// The measured times of a group. If several candidates lead to the same choice at a size, their times at that size are
/// one series.
class PerfTimes {
 public:
  void add(const PerfResult &result);
  /// Returns the least time of all candidates at this size, which must have been added.
  [[nodiscard]] double best_us(uint64_t bytes) const;
  /// Returns the series by ascending size. If a choice has undisturbed times, only these count.
  [[nodiscard]] std::vector<Series> series() const;

 private:
  std::map<uint64_t, std::vector<std::pair<PlanChoice, std::vector<PerfResult>>>> times_;
};

/// Measures the groups, one after the other.
[[nodiscard]] Result<std::vector<Measured>> measure_groups(const Options &options, const Config &config,
                                                           const std::vector<Group> &groups);

/// Returns the groups of `--device`. Ranks are processes first, and then threads of one process.
[[nodiscard]] Result<std::vector<Group>> device_groups(const Options &options, const Config &config);
/// Returns the groups of ranks on this host, or on the hosts of `--hosts`.
[[nodiscard]] Result<std::vector<Group>> host_groups(const Options &options, uint32_t core_count);

}  // namespace rondo::cli::tune
