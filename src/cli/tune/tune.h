// SPDX-License-Identifier: Apache-2.0
// The parts of `rondo tune`: what is measured, by real ranks under `rondo run`, and what follows from it. Only
// rank.cpp, load.cpp, machine.cpp and devices.cpp measure; the rest does no I/O. docs/tuning.md explains how and why.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "src/cli/commands.h"
#include "src/sim/sim_network.h"
#include "src/plan/tuner.h"
#include "src/topo/topology.h"

namespace rondo::cli::tune {

/// A choice may be this much slower than the best that was measured beside it.
inline constexpr double ratio_max = 1.10;
/// A candidate that is so much slower than the best is left out of the later rounds.
inline constexpr double hopeless_ratio = 2.5;

/// Returns the median, or 0 without values.
[[nodiscard]] double median(std::vector<double> values);

struct Options {
  std::vector<uint32_t> rank_counts;  ///< ascending, as are the others
  std::vector<rondo_collective_t> collectives{RONDO_ALL_REDUCE};
  std::vector<uint64_t> sizes;  ///< bytes
  uint32_t round_count = 5;
  uint64_t sample_ns = 30'000'000;  ///< of a candidate's runs in a round
  std::string output = "rondo-tuning.json";
  std::string job_path, result_path;  ///< this process is a rank of a job of ours
  bool hosts = false;                 ///< this process is a rank that a launcher started, on one of several hosts
  bool quick = false;                 ///< --quick
  bool keep_disturbed = false;        ///< --keep-disturbed
  std::string device;                 ///< as --device of `rondo perf`; empty to measure host memory
};

/// Returns the options, or the help.
[[nodiscard]] Result<std::variant<Options, std::string>> parse_options(Arguments args);

/// The calls for which the rows of a table hold.
struct Group {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  uint32_t rank_count = 2;
  bool oversubscribed = false;
  BufferPlace buffers = BufferPlace::host;
};

struct SizeJob {
  uint64_t bytes = 0;  ///< of the whole logical vector of float32
  std::vector<PlanChoice> candidates;
};

/// The measurements of one job of ranks.
struct Job {
  Group group;
  uint32_t round_count = 1;
  uint64_t sample_ns = 0;
  std::vector<SizeJob> sizes;
  double part_begin = 0, part_end = 1;  ///< of all that is measured, by estimated time: how far it is
};

/// A candidate at a size. A run is one call; its time is the slowest rank's.
struct Series {
  uint64_t bytes = 0;
  PlanChoice choice;
  double median_us = 0;  ///< over rounds, of the median over the runs of a round
  double min_us = 0, max_us = 0;  ///< of the rounds' medians
  uint32_t round_count = 0, run_count = 0;
  uint32_t quiet_round_count = 0;  ///< rounds in which no other program used the processors; if any, only these count
};

struct Measured {
  Group group;
  std::vector<Series> series;      ///< by ascending bytes
  uint32_t disturbed_count = 0;    ///< rounds that other processes took part in and that had to do
  uint32_t repeated_count = 0;     ///< rounds that were thrown away and measured again
  std::vector<std::pair<uint64_t, PlanChoice>> built_in = {};  ///< on devices: by bytes, what nobody asked for
};

/// Returns every possible algorithm and protocol, with a few chunk sizes and channels. The tuner's choice without a
/// table is always among them. `input` has group, bytes and the sizes of slots.
[[nodiscard]] std::vector<PlanChoice> candidates(TunerInput input);
/// Returns the size nearest to `bytes` that has whole elements, and equally many in each block.
[[nodiscard]] uint64_t rounded_bytes(const Group &group, uint64_t bytes);
[[nodiscard]] std::vector<Job> plan_jobs(const Options &options, const Config &config, uint32_t core_count);
[[nodiscard]] double estimate_seconds(const Job &job);
[[nodiscard]] double estimate_seconds(const Job &job, const SizeJob &size);
/// Returns e.g. "12 %, about 40 s left", if the job's first `done_count` sizes took `elapsed_s`.
[[nodiscard]] std::string progress_of(const Job &job, size_t done_count, double elapsed_s);

[[nodiscard]] nlohmann::ordered_json group_json(const Group &group);
[[nodiscard]] std::string job_text(const Job &job);
[[nodiscard]] Result<Job> read_job(const std::string &path);
[[nodiscard]] nlohmann::ordered_json measured_json(const Measured &measured);
[[nodiscard]] Result<Measured> read_measured(const std::string &path);
[[nodiscard]] Result<void> write_file(const std::string &path, const std::string &text);

/// Runs the job as `rondo run` of this program; with a deadline.
[[nodiscard]] Result<Measured> run_job(const Job &job);
/// Runs one rank of the job.
[[nodiscard]] Result<void> run_rank(const Job &job, const std::string &result_path);

/// Measures by `rondo perf` for `--device`, with ranks as processes and then as threads of one (devices.cpp).
[[nodiscard]] Result<std::vector<Measured>> measure_devices(const Options &options, const Config &config);

/// Processor time that other processes and the hypervisor used.
class Load {
 public:
  explicit Load(std::vector<uint32_t> os_indices) : os_indices_(std::move(os_indices)), begin_(read()) {}
  /// Returns the seconds of busy processors since it was made, or nothing if the system does not say.
  [[nodiscard]] std::optional<double> busy_seconds() const;
  static constexpr double resolution_seconds = 0.02;

 private:
  [[nodiscard]] std::optional<double> read() const;
  std::vector<uint32_t> os_indices_;
  std::optional<double> begin_;
};
/// Returns the busy seconds in the text of /proc/stat; processors are by the system's number.
[[nodiscard]] std::optional<double> busy_seconds_of(std::string_view stat, std::span<const uint32_t> os_indices,
                                                    double ticks_per_second);

/// The rates of a core while all others do the same, with operands that together take `working_set_bytes`.
struct Rates {
  uint64_t working_set_bytes = 0;
  double copy_GBps = 0;
  std::vector<std::pair<rondo_type_t, double>> reduce_GBps;  ///< bytes of one operand reduced into another
};

/// Removes the series that have no quiet round. Returns the sizes of which nothing is left, in ascending order.
[[nodiscard]] std::vector<uint64_t> drop_disturbed(Measured &measured);

/// Costs of the machine itself. A cost is 0 if it could not be measured, e.g. on one core.
struct Costs {
  double latency_us = 0;       ///< a word written on one core is seen on another
  double bandwidth_GBps = 0;   ///< reading what another core has just written
  double handover_us = 0;      ///< one core goes from a thread to another that waits by yielding
  double wake_us = 0;          ///< the same where it sleeps on a futex
  std::vector<Rates> rates;    ///< by ascending working set
};
[[nodiscard]] Costs measure_costs(const Topology &topology, double seconds);

/// time = alpha_us + bytes / bandwidth, for an algorithm and protocol at its best chunk and channels.
struct Fit {
  Group group;
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_AUTO;
  rondo_protocol_t protocol = RONDO_PROTOCOL_AUTO;
  rondo_kernel_t kernel = RONDO_KERNEL_AUTO;
  double alpha_us = 0, bandwidth_GBps = 0;
  double error_max = 0;  ///< the largest |predicted - measured| / measured
};
[[nodiscard]] std::vector<Fit> fit_all(std::span<const Measured> all);

/// Builds rows whose choices are within ratio_max of the best at every size, as few as pay.
[[nodiscard]] std::vector<TuningRow> build_rows(std::span<const Measured> all);

/// The chosen and the best at one size; a choice that was not measured there has no time.
struct Comparison {
  Group group;
  uint64_t bytes = 0;
  Series best;
  PlanChoice chosen, built_in;
  std::optional<double> chosen_us, built_in_us;
};
[[nodiscard]] std::vector<Comparison> compare(std::span<const Measured> all, const TuningTable &table,
                                              const Config &config);
/// Returns the worst ratio over all sizes; infinite if a choice was not measured.
[[nodiscard]] double worst_ratio(std::span<const Comparison> comparisons);
/// Returns the words after "2 ranks", e.g. " as processes, on devices"; they are empty on hosts.
[[nodiscard]] const char *place_text(BufferPlace buffers);
[[nodiscard]] std::string comparison_text(std::span<const Comparison> comparisons);
[[nodiscard]] std::string costs_text(const Costs &costs);

struct Findings {
  Config config;
  Topology topology;
  Costs costs;
  std::vector<Measured> all;
  bool lacks_sizes = false;  ///< some had no quiet round
};

/// The simulator's network for a group and size, fitted to the times that were measured with `simple`, or by
/// load_store.
struct Calibration {
  uint64_t bytes = 0;
  rondo_kernel_t kernel = RONDO_KERNEL_INTERPRETER;  ///< that ran the plans
  sim::Network network;
  double error_max = 0;  ///< the largest |simulated - measured| / measured of an algorithm
};
[[nodiscard]] std::vector<Calibration> calibrate(const Findings &findings, const Measured &measured);

[[nodiscard]] nlohmann::ordered_json row_json(const TuningRow &row);
/// Returns the file: rows, and all that they follow from.
[[nodiscard]] std::string document_text(const Findings &findings, std::span<const TuningRow> rows);

/// Returns e.g. "two_shot/load_store 1x128K".
[[nodiscard]] std::string show(const PlanChoice &choice);

}  // namespace rondo::cli::tune
