// SPDX-License-Identifier: Apache-2.0
// This file measures candidates by runs of `rondo perf`. A run measures one candidate at all its sizes and verifies the
// results. On devices, calls are replayed from a graph. Candidates take turns, round by round, so a change of the
// machine's speed affects all of them. The report of perf says what the library really chose: for instance, a candidate
// limits the number of blocks, but the library may use fewer.
#include "src/cli/tune/runs.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <span>

#include "src/base/clock.h"
#include "src/base/parse.h"
#include "src/cli/tune/child.h"
#include "src/cli/tune/tuner_input.h"
#include "src/console/progress.h"

namespace rondo::cli::tune {
namespace {

constexpr uint32_t run_seconds_max = 300;  // limit of one run of perf

std::string text_of_file(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Returns the error message of perf, without the warnings before it.
std::string failure_in(const std::string &path) {
  std::istringstream text(text_of_file(path));
  std::string line, last;
  while (std::getline(text, line)) {
    if (line.starts_with("rondo perf:")) return line;
    if (!line.empty()) last = line;
  }
  return last;
}

std::string show(const Candidate &candidate) {
  if (candidate.asked == PlanChoice{}) return "auto";
  std::string text = std::string(rondo_algorithm_string(candidate.asked.algorithm)) + "/" + candidate.asked.way();
  if (candidate.asked.channels != 0) text += " " + std::to_string(candidate.asked.channels) + "x";
  if (candidate.asked.chunk_bytes != 0)
    text += (candidate.asked.channels != 0 ? "" : " ") + show_bytes(candidate.asked.chunk_bytes);
  if (candidate.blocks_max != 0) text += ", " + std::to_string(candidate.blocks_max) + " blocks at most";
  return text;
}

/// Returns the factor between sizes, because perf takes sizes as first, last and factor. Returns 0 if no factor fits.
uint64_t factor_of(std::span<const uint64_t> sizes) {
  if (sizes.size() < 2) return 2;
  const uint64_t factor = sizes[1] / sizes[0];
  for (size_t at = 1; at < sizes.size(); ++at) {
    const bool next = sizes[at] == sizes[at - 1] * factor;
    const bool last = at + 1 == sizes.size() && sizes[at] < sizes[at - 1] * factor;
    if (!next && !last) return 0;
  }
  return std::max<uint64_t>(factor, 2);
}

/// Divides the sizes into runs of perf: one if a factor fits, otherwise one for each size.
std::vector<std::span<const uint64_t>> runs_of(std::span<const uint64_t> sizes) {
  if (factor_of(sizes) != 0) return {sizes};
  std::vector<std::span<const uint64_t>> runs;
  for (size_t at = 0; at < sizes.size(); ++at) runs.push_back(sizes.subspan(at, 1));
  return runs;
}

/// Returns the device to use. Threads that share one device use the first one that the user named.
std::string device_of(const Options &options, const Group &group) {
  if (group.buffers != BufferPlace::shared_device) return options.device;
  const std::string first = options.device.substr(0, options.device.find(','));
  return first.find(':') == std::string::npos ? first + ":0" : first;
}

using Words = std::vector<std::string>;

/// Returns the beginning of the command, which starts the ranks.
Words launch_words(const Options &options, const Group &group, const std::string &program) {
  const bool threads = group.buffers != BufferPlace::host && group.buffers != BufferPlace::device;
  Words words{program, "run"};
  if (group.several_hosts) words.insert(words.end(), {"--hosts", options.hosts});
  else words.insert(words.end(), {"-n", threads ? "1" : std::to_string(group.rank_count)});
  words.insert(words.end(), {"--timeout", std::to_string(run_seconds_max), "--", program, "perf",
                             rondo_collective_string(group.collective)});
  if (threads) words.insert(words.end(), {"--ranks", std::to_string(group.rank_count)});
  return words;
}

Words words_of(const Options &options, const Group &group, const Candidate &candidate, const std::string &program,
               std::span<const uint64_t> sizes) {
  Words words = launch_words(options, group, program);
  const auto add = [&](const char *name, const std::string &value) { words.insert(words.end(), {name, value}); };
  words.insert(words.end(), {"--out-of-place-only", "-T", "60", "--json", "-"});
  add("-b", std::to_string(sizes.front()));
  add("-e", std::to_string(sizes.back()));
  add("-f", std::to_string(factor_of(sizes)));
  if (group.buffers == BufferPlace::host) {
    add("-n", options.quick ? "3" : "10");
    add("-w", "2");
    if (group.oversubscribed) add("-m", "5");  // a single call would mostly measure when the scheduler runs each rank
  } else {
    add("--device", device_of(options, group));
    words.emplace_back("--graph");
    if (options.quick)
      for (const auto &[name, count] : {std::pair("-n", "3"), {"-w", "1"}, {"-m", "5"}}) add(name, count);
  }
  const PlanChoice &asked = candidate.asked;
  if (asked.algorithm != RONDO_ALGORITHM_AUTO) add("--algorithm", rondo_algorithm_string(asked.algorithm));
  if (asked.protocol != RONDO_PROTOCOL_AUTO) add("--protocol", rondo_protocol_string(asked.protocol));
  if (asked.kernel != RONDO_KERNEL_AUTO) add("--kernel", rondo_kernel_string(asked.kernel));
  if (asked.channels != 0) add("--channels", std::to_string(asked.channels));
  if (asked.chunk_bytes != 0) add("--chunk-bytes", std::to_string(asked.chunk_bytes));
  if (candidate.blocks_max != 0) add("--max-ctas", std::to_string(candidate.blocks_max));
  return words;
}

/// A candidate, and its turns so far.
struct Entry {
  Candidate candidate;
  std::vector<uint64_t> sizes;        ///< sizes at which the candidate is still tried; without any, it takes no turns
  std::vector<PerfResult> results{};  ///< results of the latest turn
};

class Runs {
 public:
  Runs(const Options &options, const Group &group, const std::vector<Candidate> &candidates, std::string program,
       const SignalsHeld &signals)
      : options_(options), group_(group), program_(std::move(program)), signals_(signals) {
    for (const Candidate &candidate : candidates)
      if (auto sizes = sizes_of(options, group, candidate); !sizes.empty())
        entries_.push_back({candidate, std::move(sizes)});
  }

  /// Measures all candidates.
  /// @param part_begin, part_end  which part of the whole work this is, for the progress. The whole work began at
  /// begin_ns.
  [[nodiscard]] Result<Measured> measure(double part_begin, double part_end, uint64_t begin_ns);

 private:
  [[nodiscard]] Result<void> take_turn(Entry &entry);
  [[nodiscard]] Result<void> run(Entry &entry, std::span<const uint64_t> sizes);
  void leave_out_hopeless();

  const Options &options_;
  Group group_;
  std::string program_;
  const SignalsHeld &signals_;
  std::vector<Entry> entries_;
  PerfTimes times_;
  uint32_t repeated_count_ = 0, disturbed_count_ = 0;
};

/// Runs perf once. If this machine does not support the candidate, logs that and leaves the candidate out. If the run
/// fails or has wrong results, the measurement ends with an error.
Result<void> Runs::run(Entry &entry, std::span<const uint64_t> sizes) {
  const Folder folder;
  RONDO_TRY(folder.made());
  const std::string result_path = folder.path() + "/result.json", errors_path = folder.path() + "/errors";
  RONDO_TRY_ASSIGN(const int status, execute(signals_, words_of(options_, group_, entry.candidate, program_, sizes),
                                             result_path, errors_path));
  if (status != 0) {
    const std::string what = show(entry.candidate) + ": rondo perf ended with status " + std::to_string(status) + ": " +
                             failure_in(errors_path);
    const bool is_own_choice = &entry == &entries_.front();
    if (is_own_choice && status == exit_usage) return invalid_argument(what);  // for example, the device does not exist
    if (is_own_choice || status != exit_usage) return Error{RONDO_ERROR_REMOTE, what};
    std::fprintf(stderr, "  left out: %s\n", what.c_str());
    entry.sizes.clear();
    entry.results.clear();
    return {};
  }
  RONDO_TRY_ASSIGN(const PerfReport report, parse_perf(text_of_file(result_path)));
  if (group_.several_hosts) group_.oversubscribed = report.oversubscribed;
  entry.results.insert(entry.results.end(), report.results.begin(), report.results.end());
  return {};
}

/// Measures a candidate once. A turn on host memory that other programs disturbed is repeated once.
Result<void> Runs::take_turn(Entry &entry) {
  const auto is_disturbed = [&] {
    return std::ranges::any_of(entry.results, [](const PerfResult &result) { return result.disturbed; });
  };
  for (bool repeated = false;; repeated = true) {  // twice at most
    entry.results.clear();
    const std::vector<uint64_t> sizes = entry.sizes;
    for (const auto &part : runs_of(sizes))
      if (!entry.sizes.empty()) RONDO_TRY(run(entry, part));
    if (repeated || group_.buffers != BufferPlace::host || !is_disturbed()) break;
    ++repeated_count_;
  }
  disturbed_count_ += is_disturbed() ? 1 : 0;
  for (const PerfResult &result : entry.results) times_.add(result);
  return {};
}

/// Leaves out a candidate's sizes before the first and after the last size at which it is not much slower than the best
/// candidate. A disturbed result counts as not much slower.
void Runs::leave_out_hopeless() {
  for (Entry &entry : entries_) {
    if (&entry == &entries_.front() || entry.results.size() != entry.sizes.size()) continue;
    const auto hopes = [&](const PerfResult &result) {
      return result.disturbed || result.median_us <= hopeless_ratio * times_.best_us(result.bytes);
    };
    const auto first = std::ranges::find_if(entry.results, hopes);
    const auto last = std::find_if(entry.results.rbegin(), entry.results.rend(), hopes).base();
    const std::vector<uint64_t> all = entry.sizes;
    entry.sizes.clear();
    for (auto at = first; at < last; ++at) entry.sizes.push_back(all[static_cast<size_t>(at - entry.results.begin())]);
  }
}

Result<Measured> Runs::measure(double part_begin, double part_end, uint64_t begin_ns) {
  std::fprintf(stderr, "%s, %u ranks%s%s: %zu candidates\n", rondo_collective_string(group_.collective),
               group_.rank_count, place_text(group_.buffers), group_.several_hosts ? " on several hosts" : "",
               entries_.size());
  Measured measured;
  for (uint32_t round = 0; round < options_.round_count; ++round) {
    for (size_t at = 0; at < entries_.size(); ++at) {
      Entry &entry = entries_[(at + round) % entries_.size()];
      if (entry.sizes.empty()) continue;
      RONDO_TRY(take_turn(entry));
      if (entry.sizes.empty()) continue;
      const double own_part = (round + static_cast<double>(at + 1) / static_cast<double>(entries_.size())) /
                              options_.round_count;
      const double part = part_begin + own_part * (part_end - part_begin);
      const double elapsed_s = static_cast<double>(now_ns() - begin_ns) * 1e-9;
      std::fprintf(stderr, "  %s (%s)\n", show(entry.candidate).c_str(),
                   console::progress_text(part, elapsed_s).c_str());
    }
    if (round == 0) leave_out_hopeless();
  }
  measured.group = group_;
  measured.series = times_.series();
  measured.repeated_count = repeated_count_;
  measured.disturbed_count = disturbed_count_;
  for (const PerfResult &result : entries_.front().results)
    measured.built_in.emplace_back(result.bytes, result.choice);
  return measured;
}

uint32_t host_count_of(const Options &options, const Group &group) {
  return group.several_hosts ? static_cast<uint32_t>(options.host_shares.size()) : 1;
}

}  // namespace

void PerfTimes::add(const PerfResult &result) {
  auto &choices = times_[result.bytes];
  const auto found = std::find_if(choices.begin(), choices.end(),
                                  [&](const auto &known) { return known.first == result.choice; });
  if (found != choices.end()) found->second.push_back(result);
  else choices.push_back({result.choice, {result}});
}

double PerfTimes::best_us(uint64_t bytes) const {
  double best = 0;
  for (const auto &[choice, results] : times_.at(bytes))
    for (const PerfResult &result : results) best = best == 0 ? result.median_us : std::min(best, result.median_us);
  return best;
}

std::vector<Series> PerfTimes::series() const {
  std::vector<Series> all;
  for (const auto &[bytes, choices] : times_)
    for (const auto &[choice, results] : choices) {
      std::vector<double> values;
      for (const PerfResult &result : results)
        if (!result.disturbed) values.push_back(result.median_us);
      const auto quiet_count = static_cast<uint32_t>(values.size());
      if (values.empty())
        for (const PerfResult &result : results) values.push_back(result.median_us);
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      const auto count = static_cast<uint32_t>(results.size());
      all.push_back({bytes, choice, median(values), *least, *most, count, count, quiet_count});
    }
  return all;
}

std::vector<uint64_t> sizes_of(const Options &options, const Group &group, const Candidate &candidate) {
  const uint64_t bytes_min = std::max(candidate.bytes_min, rounded_bytes(group, 1));
  std::vector<uint64_t> sizes;
  for (const uint64_t bytes : options.sizes)
    if (bytes >= bytes_min && bytes <= candidate.bytes_max) sizes.push_back(bytes);
  return sizes;
}

Result<std::vector<Group>> host_groups(const Options &options, uint32_t core_count) {
  std::vector<uint32_t> rank_counts = options.rank_counts;
  if (!options.hosts.empty()) {
    rank_counts = {0};
    for (const HostShare &share : options.host_shares) rank_counts[0] += share.rank_count;
  }
  std::vector<Group> groups;
  for (const uint32_t rank_count : rank_counts)
    for (const rondo_collective_t collective : options.collectives) {
      Group group{collective, rank_count, options.hosts.empty() && rank_count > core_count};
      group.several_hosts = !options.hosts.empty();
      if (!sizes_of(options, group, {}).empty()) groups.push_back(group);
    }
  if (groups.empty()) return invalid_argument("--sizes: all are smaller than an element of each rank");
  return groups;
}

Result<std::vector<Measured>> measure_groups(const Options &options, const Config &config,
                                             const std::vector<Group> &groups) {
  RONDO_TRY_ASSIGN(const std::string program, own_program());
  const uint64_t begin_ns = now_ns();
  const SignalsHeld signals;  // also between the runs, so that a signal ends this program in one way
  std::vector<Measured> all;
  for (size_t at = 0; at < groups.size(); ++at) {
    const Group &group = groups[at];
    const auto part_of = [&](size_t done) { return static_cast<double>(done) / static_cast<double>(groups.size()); };
    const auto candidates =
        group.buffers == BufferPlace::host
            ? host_candidates(options, group, tuner_input(config, group.rank_count, group.oversubscribed,
                                                          host_count_of(options, group)))
            : device_candidates(group, options.quick);
    Runs runs(options, group, candidates, program, signals);
    RONDO_TRY_ASSIGN(Measured measured, runs.measure(part_of(at), part_of(at + 1), begin_ns));
    all.push_back(std::move(measured));
  }
  return all;
}

}  // namespace rondo::cli::tune
