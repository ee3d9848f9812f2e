// SPDX-License-Identifier: Apache-2.0
// This file is `rondo tune --device`, which tunes calls on buffers of CUDA devices. A candidate is measured by a run of
// `rondo perf` over all sizes, with calls replayed from a graph. perf also verifies the results. Candidates take turns,
// round by round. The report of perf says what the library really chose, because, for instance, blocks are limited and
// not requested.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <span>

#include "cuda/driver/driver.h"
#include "src/base/clock.h"
#include "src/base/parse.h"
#include "src/cli/tune/child.h"
#include "src/cli/tune/devices.h"
#include "src/console/command_line.h"
#include "src/console/progress.h"
#include "src/plan/algorithm.h"
#include "src/plan/tuner_load_store.h"

namespace rondo::cli::tune {
namespace {

constexpr uint64_t KiB = 1024;
constexpr uint64_t ll_bytes_max = 256 * KiB;   // ll moves two bytes for each
constexpr uint64_t post_bytes_max = 64 * KiB;  // the most that a one_shot of load_store takes on a device
constexpr uint32_t run_seconds_max = 300;      // limit of one run of perf

void add_interpreted(std::vector<DeviceCandidate> &list, const Algorithm &algorithm, bool quick) {
  for (const uint64_t chunk_bytes : {64 * KiB, 256 * KiB}) {
    if (quick && chunk_bytes != 64 * KiB) continue;
    list.push_back({{algorithm.id, RONDO_PROTOCOL_SIMPLE, 0, chunk_bytes, RONDO_KERNEL_INTERPRETER}});
  }
  list.push_back({{algorithm.id, RONDO_PROTOCOL_LL, 0, 16 * KiB, RONDO_KERNEL_INTERPRETER}, 0, ll_bytes_max});
}

void add_load_store(std::vector<DeviceCandidate> &list, const Group &group, bool quick) {
  const bool all_reduce = group.collective == RONDO_ALL_REDUCE;
  const auto candidate = [](rondo_algorithm_t algorithm, uint32_t blocks_max) {
    return DeviceCandidate{{algorithm, RONDO_PROTOCOL_AUTO, 0, 0, RONDO_KERNEL_LOAD_STORE}, blocks_max};
  };
  for (const uint32_t blocks_max : {0u, 64u, 16u, 4u, 1u}) {
    if (quick && blocks_max != 0 && blocks_max != 4) continue;
    const rondo_algorithm_t whole = all_reduce ? RONDO_ALGORITHM_TWO_SHOT : load_store_algorithm(group.collective);
    if (all_reduce) {
      list.push_back(candidate(RONDO_ALGORITHM_ONE_SHOT, blocks_max));
      list.back().bytes_max = post_bytes_max;
    }
    list.push_back(candidate(whole, blocks_max));
  }
}

/// Returns the error message of perf, without the warnings before it.
std::string failure_in(const std::string &path) {
  std::ifstream file(path);
  std::string line, last;
  while (std::getline(file, line)) {
    if (line.starts_with("rondo perf:")) return line;
    if (!line.empty()) last = line;
  }
  return last;
}

std::string show(const DeviceCandidate &candidate) {
  if (candidate.asked == PlanChoice{}) return "auto";
  std::string text = std::string(rondo_algorithm_string(candidate.asked.algorithm)) + "/" + candidate.asked.way();
  if (candidate.asked.chunk_bytes != 0) text += " " + show_bytes(candidate.asked.chunk_bytes);
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

/// Returns the device to use. Threads that share one device use the first one that the user named.
std::string device_of(const Options &options, const Group &group) {
  if (group.buffers != BufferPlace::shared_device) return options.device;
  const std::string first = options.device.substr(0, options.device.find(','));
  return first.find(':') == std::string::npos ? first + ":0" : first;
}

std::vector<std::string> words_of(const Options &options, const Group &group, const DeviceCandidate &candidate,
                                  const std::string &program, const std::string &result_path) {
  const std::vector<uint64_t> sizes = device_sizes(options, group, candidate.bytes_max);
  const bool threads = group.buffers != BufferPlace::device;
  const std::string ranks = std::to_string(group.rank_count);
  std::vector<std::string> words{program, "run", "-n", threads ? "1" : ranks, "--timeout",
                                 std::to_string(run_seconds_max), "--", program, "perf",
                                 rondo_collective_string(group.collective), "--device", device_of(options, group),
                                 "--graph", "--out-of-place-only", "-T", "60", "--json", result_path};
  const auto add = [&](const char *name, const std::string &value) { words.insert(words.end(), {name, value}); };
  if (threads) add("--ranks", ranks);
  add("-b", std::to_string(sizes.front()));
  add("-e", std::to_string(sizes.back()));
  add("-f", std::to_string(factor_of(sizes)));
  if (options.quick)
    for (const auto &[name, count] : {std::pair("-n", "3"), {"-w", "1"}, {"-m", "5"}}) add(name, count);
  const PlanChoice &asked = candidate.asked;
  if (asked.algorithm != RONDO_ALGORITHM_AUTO) add("--algorithm", rondo_algorithm_string(asked.algorithm));
  if (asked.protocol != RONDO_PROTOCOL_AUTO) add("--protocol", rondo_protocol_string(asked.protocol));
  if (asked.kernel != RONDO_KERNEL_AUTO) add("--kernel", rondo_kernel_string(asked.kernel));
  if (asked.chunk_bytes != 0) add("--chunk-bytes", std::to_string(asked.chunk_bytes));
  if (candidate.blocks_max != 0) add("--max-ctas", std::to_string(candidate.blocks_max));
  return words;
}

/// A candidate, and its turns so far.
struct Entry {
  DeviceCandidate candidate;
  bool active = true;
  std::vector<DeviceResult> results;  ///< of its latest turn
};

class Devices {
 public:
  Devices(const Options &options, const Group &group, std::string program)
      : options_(options), group_(group), program_(std::move(program)) {
    for (const DeviceCandidate &candidate : device_candidates(group, options.quick))
      if (!device_sizes(options, group, candidate.bytes_max).empty()) entries_.push_back({candidate, true, {}});
  }

  /// Measures all candidates.
  /// @param part_begin, part_end  which part of the whole work this is, for the progress. The whole work began at
  /// begin_ns.
  [[nodiscard]] Result<Measured> measure(double part_begin, double part_end, uint64_t begin_ns);

 private:
  [[nodiscard]] Result<void> take_turn(Entry &entry);
  void leave_out_hopeless();

  const Options &options_;
  Group group_;
  std::string program_;
  std::vector<Entry> entries_;
  DeviceTimes times_;
};

/// Measures a candidate once. If this machine does not support the candidate, it is reported and left out. If it fails
/// or has wrong results, the measurement ends.
Result<void> Devices::take_turn(Entry &entry) {
  const Folder folder;
  RONDO_TRY(folder.made());
  const std::string result_path = folder.path() + "/result.json", errors_path = folder.path() + "/errors";
  RONDO_TRY_ASSIGN(const int status,
                   execute(words_of(options_, group_, entry.candidate, program_, result_path), errors_path));
  if (status != 0) {
    const std::string what = show(entry.candidate) + ": rondo perf ended with status " + std::to_string(status) + ": " +
                             failure_in(errors_path);
    const bool is_own_choice = &entry == &entries_.front();
    if (is_own_choice && status == exit_usage) return invalid_argument(what);  // as a device that does not exist
    if (is_own_choice || status != exit_usage) return Error{RONDO_ERROR_REMOTE, what};
    std::fprintf(stderr, "  left out: %s\n", what.c_str());
    entry.active = false;
    return {};
  }
  RONDO_TRY_ASSIGN(entry.results, read_perf_file(result_path));
  for (const DeviceResult &result : entry.results) times_.add(result);
  return {};
}

void Devices::leave_out_hopeless() {
  for (Entry &entry : entries_)
    entry.active = entry.active && std::any_of(entry.results.begin(), entry.results.end(), [&](const auto &result) {
                     return result.median_us <= hopeless_ratio * times_.best_us(result.bytes);
                   });
}

Result<Measured> Devices::measure(double part_begin, double part_end, uint64_t begin_ns) {
  std::fprintf(stderr, "%s, %u ranks%s: %zu candidates\n", rondo_collective_string(group_.collective),
               group_.rank_count, place_text(group_.buffers), entries_.size());
  for (uint32_t round = 0; round < options_.round_count; ++round) {
    for (size_t at = 0; at < entries_.size(); ++at) {
      Entry &entry = entries_[(at + round) % entries_.size()];
      if (!entry.active) continue;
      RONDO_TRY(take_turn(entry));
      if (!entry.active) continue;
      const double own_part = (round + static_cast<double>(at + 1) / static_cast<double>(entries_.size())) /
                              options_.round_count;
      const double part = part_begin + own_part * (part_end - part_begin);
      const double elapsed_s = static_cast<double>(now_ns() - begin_ns) * 1e-9;
      std::fprintf(stderr, "  %s (%s)\n", show(entry.candidate).c_str(),
                   console::progress_text(part, elapsed_s).c_str());
    }
    if (round == 0) leave_out_hopeless();
  }
  Measured measured;
  measured.group = group_;
  measured.series = times_.series();
  for (const DeviceResult &result : entries_.front().results)
    measured.built_in.emplace_back(result.bytes, result.choice);
  return measured;
}

}  // namespace

std::vector<DeviceCandidate> device_candidates(const Group &group, bool quick) {
  std::vector<DeviceCandidate> list{{}};
  for (const Algorithm &algorithm : algorithms()) {
    const bool hierarchical =
        algorithm.id == RONDO_ALGORITHM_HIERARCHICAL || algorithm.id == RONDO_ALGORITHM_HIERARCHICAL_TREE;
    if (hierarchical || !algorithm.supports(group.collective) || group.rank_count > algorithm.rank_count_max) continue;
    add_interpreted(list, algorithm, quick);
  }
  add_load_store(list, group, quick);
  return list;
}

void DeviceTimes::add(const DeviceResult &result) {
  auto &choices = times_[result.bytes];
  const auto found = std::find_if(choices.begin(), choices.end(),
                                  [&](const auto &known) { return known.first == result.choice; });
  if (found != choices.end()) found->second.push_back(result.median_us);
  else choices.push_back({result.choice, {result.median_us}});
}

double DeviceTimes::best_us(uint64_t bytes) const {
  double best = 0;
  for (const auto &[choice, values] : times_.at(bytes)) {
    const double least = *std::min_element(values.begin(), values.end());
    best = best == 0 ? least : std::min(best, least);
  }
  return best;
}

std::vector<Series> DeviceTimes::series() const {
  std::vector<Series> all;
  for (const auto &[bytes, choices] : times_)
    for (const auto &[choice, values] : choices) {
      const auto [least, most] = std::minmax_element(values.begin(), values.end());
      const auto count = static_cast<uint32_t>(values.size());
      all.push_back({bytes, choice, median(values), *least, *most, count, count});
    }
  return all;
}

std::vector<uint64_t> device_sizes(const Options &options, const Group &group, uint64_t bytes_max) {
  const uint64_t bytes_min = rounded_bytes(group, 1);
  std::vector<uint64_t> sizes;
  for (const uint64_t bytes : options.sizes)
    if (bytes >= bytes_min && bytes <= bytes_max) sizes.push_back(bytes);
  return sizes;
}

namespace {

/// Returns the devices that ranks use in turn.
Result<std::vector<int>> ordinals_of(const Options &options, const cuda::CudaDriver &driver) {
  std::vector<int> ordinals = console::parse_cuda_devices(options.device).value_or(std::vector<int>{0});
  if (!ordinals.empty()) return ordinals;
  RONDO_TRY_ASSIGN(const auto devices, cuda::cuda_devices(driver));
  for (const cuda::CudaDevice &device : devices) ordinals.push_back(device.ordinal);
  return ordinals;
}

/// Says whether this number of ranks is on several devices, each of which reaches all others. Threads need that to
/// share their buffers.
bool are_linked(const cuda::CudaDriver &driver, std::span<const int> ordinals, uint32_t rank_count) {
  const auto used = ordinals.first(std::min<size_t>(rank_count, ordinals.size()));
  bool several = false;
  for (const int from : used)
    for (const int to : used) {
      if (from != to && !cuda::has_native_atomics(driver, from, to)) return false;
      several = several || from != to;
    }
  return several;
}

}  // namespace

Result<std::vector<Measured>> measure_devices(const Options &options, const Config &config) {
  if (factor_of(options.sizes) == 0)
    return invalid_argument("--sizes: with --device they are FROM-TO/FACTOR, each the one before times the factor");
  RONDO_TRY_ASSIGN(const cuda::CudaDriver *const driver, cuda::cuda_driver(config.cuda_library));
  RONDO_TRY_ASSIGN(const std::vector<int> ordinals, ordinals_of(options, *driver));
  std::vector<Group> groups;
  for (const BufferPlace buffers : {BufferPlace::device, BufferPlace::shared_device, BufferPlace::peer_devices})
    for (const uint32_t rank_count : options.rank_counts)
      for (const rondo_collective_t collective : options.collectives)
        if (buffers != BufferPlace::peer_devices || are_linked(*driver, ordinals, rank_count))
          groups.push_back({collective, rank_count, false, buffers});
  const bool can_share = config.device_executor != RONDO_DEVICE_EXECUTOR_COPY &&
                         config.device_launch != DeviceLaunch::shared;
  if (!can_share) {
    std::fputs(
        "rondo tune: measures no ranks as threads, because with these settings one kernel runs them, or copies do\n",
        stderr);
    std::erase_if(groups, [](const Group &group) { return group.buffers != BufferPlace::device; });
  }
  std::erase_if(groups, [&](const Group &group) {
    return device_sizes(options, group, std::numeric_limits<uint64_t>::max()).empty();
  });
  if (groups.empty()) return invalid_argument("--sizes: all are smaller than an element of each rank");
  RONDO_TRY_ASSIGN(const std::string program, own_program());
  const uint64_t begin_ns = now_ns();
  std::vector<Measured> all;
  for (size_t at = 0; at < groups.size(); ++at) {
    const auto part_of = [&](size_t done) { return static_cast<double>(done) / static_cast<double>(groups.size()); };
    Devices devices(options, groups[at], program);
    RONDO_TRY_ASSIGN(Measured measured, devices.measure(part_of(at), part_of(at + 1), begin_ns));
    all.push_back(std::move(measured));
  }
  return all;
}

}  // namespace rondo::cli::tune
