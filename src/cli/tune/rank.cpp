// SPDX-License-Identifier: Apache-2.0
// This file is one rank of a job of `rondo tune`. It has a communicator for each candidate, all at the same time. So at
// every size the candidates take turns, round by round, and a drift of the machine affects all of them in the same way.
// It calls only the public interface, so users get what it measures. As in `rondo perf`, a run has fresh inputs, a
// barrier and one timed call, and its time is that of the slowest rank. With more ranks than cores, a run has several
// calls back to back. There a single call would mostly measure when the scheduler runs each rank.
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>

#include "bench/perf/call.h"
#include "src/base/clock.h"
#include "src/base/parse.h"
#include "src/cli/tune/tune.h"
#include "src/cli/tune/comm.h"

namespace rondo::cli::tune {
namespace {

constexpr uint32_t runs_min = 3, runs_max = 200;
constexpr uint64_t large_bytes = 1 << 20;  // from this size on, a run is long enough to warm up
constexpr uint32_t warm_up_runs = 2, small_warm_up_runs = 6;
constexpr uint32_t runs_per_batch = 10;
constexpr double patience = 3;  // if others use the processors, fewer runs are made than would fit
constexpr uint64_t oversubscribed_run_bytes = 16 << 20;  // with more ranks than cores, a run moves this many bytes
constexpr uint64_t oversubscribed_calls_min = 4, oversubscribed_calls_max = 20;
constexpr uint32_t rounds_before_dropping = 2;
constexpr double others_max = 0.10;     // the largest share of processors that others may use in a round

double own_cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval &time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

class Rank {
 public:
  explicit Rank(const Job &job) : job_(job), cores_(static_cast<double>(job.group.rank_count)) {}

  Result<Measured> measure();
  [[nodiscard]] int rank() const { return rank_; }

 private:
  /// A candidate at the current size.
  struct Entry {
    PlanChoice choice;
    rondo_comm_t comm = nullptr;
    uint32_t run_count = 0;
    double run_ns_min = 0;  ///< time of a whole run, with its inputs and barrier; 0 if unknown
    std::vector<double> rounds_us;
  };
  [[nodiscard]] Series series_of(const Entry &entry, const std::vector<bool> &quiet) const;

  Result<void> connect();
  Result<void> find_processors();
  Result<rondo_comm_t> comm_of(const PlanChoice &choice);
  Result<std::vector<Entry>> entries_of(const SizeJob &size);
  Result<void> measure_size(const SizeJob &size, Measured &measured);
  Result<double> run_once(const Entry &entry);
  Result<std::vector<double>> run(const Entry &entry, uint32_t run_count);
  Result<void> run_round(std::vector<Entry> &entries);
  Result<bool> was_disturbed(const Load &load, uint64_t begin_ns, double own_begin_seconds);
  [[nodiscard]] Result<void> reduce(std::vector<double> &values, rondo_op_t op);
  [[nodiscard]] rondo_status_t call(rondo_comm_t comm);

  const Job &job_;
  double cores_;
  int rank_ = 0;
  Comm control_;
  std::vector<std::pair<PlanChoice, Comm>> comms_;
  std::vector<uint32_t> processors_;
  std::vector<float> send_, recv_;
  uint64_t bytes_ = 0;
  uint64_t calls_per_run_ = 1;
};

Result<void> Rank::connect() {
  RONDO_TRY_ASSIGN(control_, make_comm({}));
  int rank_count = 0;
  RONDO_TRY(check(rondo_comm_rank(control_.get(), &rank_), control_.get(), "rondo_comm_rank"));
  RONDO_TRY(check(rondo_comm_size(control_.get(), &rank_count), control_.get(), "rondo_comm_size"));
  if (static_cast<uint32_t>(rank_count) != job_.group.rank_count)
    return Error{RONDO_ERROR_INTERNAL, "the job has " + std::to_string(rank_count) + " ranks, not as many as it says"};
  uint64_t bytes_max = 0;
  for (const SizeJob &size : job_.sizes) bytes_max = std::max(bytes_max, size.bytes);
  send_.resize(bytes_max / sizeof(float));
  recv_.resize(bytes_max / sizeof(float));
  return find_processors();
}

/// Collects the processors of all ranks. Each rank may be bound to some of them.
Result<void> Rank::find_processors() {
  RONDO_TRY_ASSIGN(const Config config, read_config());
  RONDO_TRY_ASSIGN(const Topology topology, discover_topology(config));
  const std::vector<uint32_t> own = allowed_os_indices(topology);
  std::vector<double> highest{0};
  for (const uint32_t processor : own) highest[0] = std::max(highest[0], static_cast<double>(processor));
  RONDO_TRY(reduce(highest, RONDO_MAX));
  std::vector<double> used(static_cast<size_t>(highest[0]) + 1, 0);
  for (const uint32_t processor : own) used[processor] = 1;
  RONDO_TRY(reduce(used, RONDO_MAX));
  for (uint32_t processor = 0; processor < used.size(); ++processor)
    if (used[processor] != 0) processors_.push_back(processor);
  cores_ = static_cast<double>(processors_.size());
  return {};
}

Result<rondo_comm_t> Rank::comm_of(const PlanChoice &choice) {
  for (const auto &[known, comm] : comms_)
    if (known == choice) return comm.get();
  RONDO_TRY_ASSIGN(Comm comm, make_comm(choice));
  comms_.emplace_back(choice, std::move(comm));
  return comms_.back().second.get();
}

/// Returns the candidates with their communicators. If the library has another plan than the requested one, it returns
/// an error, because the plan would be measured under a wrong name.
Result<std::vector<Rank::Entry>> Rank::entries_of(const SizeJob &size) {
  std::vector<Entry> entries;
  const size_t elements = size.bytes / sizeof(float);
  const bool blocks = in_blocks(job_.group.collective);
  for (const PlanChoice &choice : size.candidates) {
    RONDO_TRY_ASSIGN(rondo_comm_t comm, comm_of(choice));
    rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
    RONDO_TRY(check(rondo_comm_query_plan(comm, job_.group.collective,
                                          blocks ? elements / job_.group.rank_count : elements, RONDO_FLOAT32, &plan),
                    comm, "rondo_comm_query_plan"));
    const PlanChoice real{plan.algorithm, plan.protocol, plan.channels, plan.chunk_bytes, plan.kernel};
    if (real != choice)
      return Error{RONDO_ERROR_INTERNAL, "asked for " + show(choice) + ", the ranks would use " + show(real)};
    entries.push_back({choice, comm, 0, 0, {}});
  }
  return entries;
}

rondo_status_t Rank::call(rondo_comm_t comm) {
  const perf::Case what{job_.group.collective, RONDO_FLOAT32, RONDO_SUM, 0, static_cast<int>(job_.group.rank_count)};
  const perf::Pointers at{reinterpret_cast<std::byte *>(send_.data()), reinterpret_cast<std::byte *>(recv_.data())};
  return perf::make_call(what, perf::shape_of(what, rank_, bytes_), at, comm, nullptr);
}

Result<void> Rank::reduce(std::vector<double> &values, rondo_op_t op) {
  return check(
      rondo_all_reduce(values.data(), values.data(), values.size(), RONDO_FLOAT64, op, control_.get(), nullptr),
      control_.get(), "rondo_all_reduce");
}

Result<double> Rank::run_once(const Entry &entry) {
  const auto input = static_cast<float>(rank_ + 1);
  std::fill_n(send_.begin(), bytes_ / sizeof(float), input);
  RONDO_TRY(check(rondo_barrier(control_.get(), nullptr), control_.get(), "rondo_barrier"));
  const uint64_t begin_ns = now_ns();
  for (uint64_t number = 0; number < calls_per_run_; ++number)
    RONDO_TRY(check(call(entry.comm), entry.comm, rondo_collective_string(job_.group.collective)));
  return static_cast<double>(now_ns() - begin_ns) * 1e-3 / static_cast<double>(calls_per_run_);
}

Result<std::vector<double>> Rank::run(const Entry &entry, uint32_t run_count) {
  std::vector<double> times_us;
  double passed_ns = 0;
  while (times_us.size() < run_count && passed_ns < patience * static_cast<double>(job_.sample_ns)) {
    std::vector<double> batch;
    const uint64_t begin_ns = now_ns();
    for (size_t i = std::min<size_t>(run_count - times_us.size(), runs_per_batch); i > 0; --i) {
      RONDO_TRY_ASSIGN(const double time_us, run_once(entry));
      batch.push_back(time_us);
    }
    batch.push_back(static_cast<double>(now_ns() - begin_ns));
    RONDO_TRY(reduce(batch, RONDO_MAX));  // including the time so far, so that all ranks stop at the same run
    passed_ns += batch.back();
    times_us.insert(times_us.end(), batch.begin(), batch.end() - 1);
  }
  return times_us;
}

Result<void> Rank::run_round(std::vector<Entry> &entries) {
  for (Entry &entry : entries) {
    std::vector<double> run_ns_min(1, std::numeric_limits<double>::max());
    for (uint32_t i = 0; i < (bytes_ < large_bytes ? small_warm_up_runs : warm_up_runs); ++i) {
      const uint64_t begin_ns = now_ns();
      RONDO_TRY(run_once(entry));
      run_ns_min[0] = std::min(run_ns_min[0], static_cast<double>(now_ns() - begin_ns));
    }
    RONDO_TRY(reduce(run_ns_min, RONDO_MAX));  // so that every rank makes the same number of runs
    if (entry.run_ns_min == 0 || run_ns_min[0] < entry.run_ns_min) entry.run_ns_min = run_ns_min[0];
    entry.run_count = static_cast<uint32_t>(
        std::clamp(static_cast<double>(job_.sample_ns) / entry.run_ns_min, double{runs_min}, double{runs_max}));
    RONDO_TRY_ASSIGN(auto times_us, run(entry, entry.run_count));
    entry.rounds_us.push_back(median(std::move(times_us)));
  }
  return {};
}

/// Says whether other processes disturbed the round. All ranks get the same answer.
Result<bool> Rank::was_disturbed(const Load &load, uint64_t begin_ns, double own_begin_seconds) {
  const auto busy = load.busy_seconds();
  // Rank 0 reports the use of the machine. The use by the ranks themselves is summed.
  std::vector<double> sums{own_cpu_seconds() - own_begin_seconds, rank_ == 0 ? busy.value_or(0) : 0,
                           rank_ == 0 ? static_cast<double>(now_ns() - begin_ns) * 1e-9 : 0};
  RONDO_TRY(reduce(sums, RONDO_SUM));
  const double others = sums[1] - sums[0];
  return others > others_max * cores_ * sums[2] + cores_ * Load::resolution_seconds;
}

Result<void> Rank::measure_size(const SizeJob &size, Measured &measured) {
  bytes_ = size.bytes;
  if (job_.group.oversubscribed)
    calls_per_run_ =
        std::clamp<uint64_t>(oversubscribed_run_bytes / size.bytes, oversubscribed_calls_min, oversubscribed_calls_max);
  RONDO_TRY_ASSIGN(std::vector<Entry> all, entries_of(size));
  std::vector<Entry> active = std::move(all), dropped;
  std::vector<bool> quiet;  // by round
  uint32_t repeats_left = job_.round_count;
  for (uint32_t round = 0; round < job_.round_count;) {
    const Load load(processors_);
    const uint64_t begin_ns = now_ns();
    const double own_begin_seconds = own_cpu_seconds();
    RONDO_TRY(run_round(active));
    RONDO_TRY_ASSIGN(const bool disturbed, was_disturbed(load, begin_ns, own_begin_seconds));
    if (disturbed && repeats_left > 0) {
      --repeats_left;
      ++measured.repeated_count;
      for (Entry &entry : active) entry.rounds_us.pop_back();
      continue;
    }
    if (disturbed) ++measured.disturbed_count;
    quiet.push_back(!disturbed);
    if (++round != rounds_before_dropping || round == job_.round_count) continue;
    double best_us = median(active[0].rounds_us);
    for (const Entry &entry : active) best_us = std::min(best_us, median(entry.rounds_us));
    const auto kept = std::stable_partition(active.begin(), active.end(), [&](const Entry &entry) {
      return median(entry.rounds_us) <= hopeless_ratio * best_us;
    });
    dropped.assign(std::make_move_iterator(kept), std::make_move_iterator(active.end()));
    active.erase(kept, active.end());
  }
  active.insert(active.end(), dropped.begin(), dropped.end());
  for (const Entry &entry : active) measured.series.push_back(series_of(entry, quiet));
  return {};
}

Series Rank::series_of(const Entry &entry, const std::vector<bool> &quiet) const {
  std::vector<double> times_us;
  for (size_t round = 0; round < entry.rounds_us.size(); ++round)
    if (quiet[round]) times_us.push_back(entry.rounds_us[round]);
  const auto quiet_count = static_cast<uint32_t>(times_us.size());
  if (times_us.empty()) times_us = entry.rounds_us;
  const auto [least, most] = std::minmax_element(times_us.begin(), times_us.end());
  return {bytes_, entry.choice, median(times_us), *least, *most, static_cast<uint32_t>(entry.rounds_us.size()),
          entry.run_count, quiet_count};
}

Result<Measured> Rank::measure() {
  RONDO_TRY(connect());
  Measured measured;
  measured.group = job_.group;
  const uint64_t begin_ns = now_ns();
  size_t done_count = 0;
  for (const SizeJob &size : job_.sizes) {
    const size_t before = measured.series.size();
    RONDO_TRY(measure_size(size, measured));
    if (rank_ != 0) continue;
    const auto best =
        std::min_element(measured.series.begin() + static_cast<std::ptrdiff_t>(before), measured.series.end(),
                         [](const Series &a, const Series &b) { return a.median_us < b.median_us; });
    const std::string progress = progress_of(job_, ++done_count, static_cast<double>(now_ns() - begin_ns) * 1e-9);
    std::fprintf(stderr, "  %8s  %zu candidates, best %s: %.1f us (%s)\n", show_bytes(size.bytes).c_str(),
                 size.candidates.size(), show(best->choice).c_str(), best->median_us, progress.c_str());
  }
  for (const auto &[choice, comm] : comms_)
    RONDO_TRY(check(rondo_comm_finalize(comm.get()), comm.get(), "rondo_comm_finalize"));
  RONDO_TRY(check(rondo_comm_finalize(control_.get()), control_.get(), "rondo_comm_finalize"));
  return measured;
}

}  // namespace

Result<void> run_rank(const Job &job, const std::string &result_path) {
  Rank rank(job);
  RONDO_TRY_ASSIGN(const Measured measured, rank.measure());
  if (rank.rank() != 0) return {};  // all ranks have the same result
  return write_file(result_path, measured_json(measured).dump());
}

}  // namespace rondo::cli::tune
