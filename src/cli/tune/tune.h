// SPDX-License-Identifier: Apache-2.0
// This file declares the parts of `rondo tune`, which measures candidates by `rondo perf` and computes a table. Only
// runs.cpp, devices.cpp and machine.cpp measure; the other files do no I/O. docs/tuning.md explains how and why.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "src/cli/commands.h"
#include "src/cli/hosts/host_list.h"
#include "src/sim/sim_network.h"
#include "src/plan/tuner.h"
#include "src/topo/topology.h"

namespace rondo::cli::tune {

/// A choice may be slower than the best measured choice by this factor.
inline constexpr double ratio_max = 1.10;
/// A candidate that is slower than the best by this factor is left out of later rounds.
inline constexpr double hopeless_ratio = 2.5;

/// Returns the median, or 0 without values.
[[nodiscard]] double median(std::vector<double> values);

struct Options {
  std::vector<uint32_t> rank_counts;  ///< ascending, like the next two lists
  std::vector<rondo_collective_t> collectives{RONDO_ALL_REDUCE};
  std::vector<uint64_t> sizes;  ///< bytes
  uint32_t round_count = 5;
  std::string output = "rondo-tuning.json";
  std::string hosts;                    ///< like --hosts of `rondo run`; empty for ranks on this host
  std::vector<HostShare> host_shares;   ///< the hosts that `hosts` names
  bool quick = false;                   ///< --quick
  bool keep_disturbed = false;          ///< --keep-disturbed
  std::string device;                   ///< like --device of `rondo perf`; empty for host memory
};

/// Returns the options, or the help.
[[nodiscard]] Result<std::variant<Options, std::string>> parse_options(Arguments args);

/// The calls to which the rows of a table apply.
struct Group {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  uint32_t rank_count = 2;
  bool oversubscribed = false;
  BufferPlace buffers = BufferPlace::host;
  bool several_hosts = false;
};

/// The measurements of a candidate at a size. A run is one call, and its time is the slowest rank's time.
struct Series {
  uint64_t bytes = 0;
  PlanChoice choice;
  double median_us = 0;  ///< the median over rounds of each round's median
  double min_us = 0, max_us = 0;  ///< over the medians of the rounds
  uint32_t round_count = 0, run_count = 0;
  uint32_t quiet_round_count = 0;  ///< rounds without other programs on the processors; if any, only they count
};

struct Measured {
  Group group;
  std::vector<Series> series;      ///< by ascending bytes
  uint32_t disturbed_count = 0;    ///< disturbed runs that had to be used
  uint32_t repeated_count = 0;     ///< runs that were discarded and repeated
  std::vector<std::pair<uint64_t, PlanChoice>> built_in = {};  ///< the library's own choice, by bytes
};

/// Returns the size nearest to `bytes` at which every block has the same number of whole elements.
[[nodiscard]] uint64_t rounded_bytes(const Group &group, uint64_t bytes);

[[nodiscard]] nlohmann::ordered_json group_json(const Group &group);
[[nodiscard]] nlohmann::ordered_json measured_json(const Measured &measured);
[[nodiscard]] Result<void> write_file(const std::string &path, const std::string &text);

/// The rates of a core while all other cores do the same. The operands together take `working_set_bytes`.
struct Rates {
  uint64_t working_set_bytes = 0;
  double copy_GBps = 0;
  std::vector<std::pair<rondo_type_t, double>> reduce_GBps;  ///< bytes of one operand that is reduced into another
};

/// Removes the series without a quiet round. Returns the sizes that then have no series, in ascending order.
[[nodiscard]] std::vector<uint64_t> drop_disturbed(Measured &measured);

/// Costs of the machine itself. A cost is 0 if it could not be measured, for instance on one core.
struct Costs {
  double latency_us = 0;       ///< until one core sees a word that another wrote
  double bandwidth_GBps = 0;   ///< rate of reading what another core has just written
  double handover_us = 0;      ///< until a core switches to a thread that waits by yielding
  double wake_us = 0;          ///< the same for a thread that sleeps on a futex
  std::vector<Rates> rates;    ///< by ascending working set
};
[[nodiscard]] Costs measure_costs(const Topology &topology, double seconds);

/// The fit time = alpha_us + bytes / bandwidth, for an algorithm and protocol with their best chunk and channels.
struct Fit {
  Group group;
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_AUTO;
  rondo_protocol_t protocol = RONDO_PROTOCOL_AUTO;
  rondo_kernel_t kernel = RONDO_KERNEL_AUTO;
  double alpha_us = 0, bandwidth_GBps = 0;
  double error_max = 0;  ///< the largest |predicted - measured| / measured
};
[[nodiscard]] std::vector<Fit> fit_all(std::span<const Measured> all);

/// Builds as few rows as possible whose choices are within ratio_max of the best at every size.
[[nodiscard]] std::vector<TuningRow> build_rows(std::span<const Measured> all);

/// The chosen and the best candidate at one size. A choice that was not measured at that size has no time.
struct Comparison {
  Group group;
  uint64_t bytes = 0;
  Series best;
  PlanChoice chosen, built_in;
  std::optional<double> chosen_us, built_in_us;
};
[[nodiscard]] std::vector<Comparison> compare(std::span<const Measured> all, const TuningTable &table,
                                              const Config &config);
/// Returns the worst ratio over all sizes. It is infinite if a choice was not measured.
[[nodiscard]] double worst_ratio(std::span<const Comparison> comparisons);
/// Returns the words that follow "2 ranks", such as " as processes, on devices", or "" for host memory.
[[nodiscard]] const char *place_text(BufferPlace buffers);
[[nodiscard]] std::string comparison_text(std::span<const Comparison> comparisons);
[[nodiscard]] std::string costs_text(const Costs &costs);

struct Findings {
  Config config;
  Topology topology;
  Costs costs;
  std::vector<Measured> all;
  bool lacks_sizes = false;  ///< some sizes had no quiet round
};

/// The simulator's network for a group and size. It was fitted to the times with `simple`, or to the times of
/// load_store.
struct Calibration {
  uint64_t bytes = 0;
  rondo_kernel_t kernel = RONDO_KERNEL_INTERPRETER;  ///< the kernel that ran the plans
  sim::Network network;
  double error_max = 0;  ///< the largest |simulated - measured| / measured of an algorithm
};
[[nodiscard]] std::vector<Calibration> calibrate(const Findings &findings, const Measured &measured);

[[nodiscard]] nlohmann::ordered_json row_json(const TuningRow &row);
/// Returns the text of the file: the rows, and everything from which they were computed.
[[nodiscard]] std::string document_text(const Findings &findings, std::span<const TuningRow> rows);

/// Returns text such as "two_shot/load_store 1x128K".
[[nodiscard]] std::string show(const PlanChoice &choice);

}  // namespace rondo::cli::tune
