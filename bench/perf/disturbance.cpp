// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/disturbance.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <set>

namespace rondo::perf {
namespace {

// Above one of these values, the times of a row also measure other programs.
constexpr double waited_max = 0.1;
constexpr double others_max = 0.1;
constexpr double stolen_max = 0.02;
constexpr double idle_min = 0.5;  ///< idle processors; with at least as many, other programs take none from a rank
/// The host's counters tick every 10 ms, so they mean nothing over a shorter time.
constexpr uint64_t host_window_ns = 100'000'000;

uint64_t clock_of(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

/// Returns the first line of a file under /proc; "" if it cannot be read.
std::array<char, 512> first_line(const char *path) {
  std::array<char, 512> line{};
  std::FILE *file = std::fopen(path, "re");
  if (file == nullptr) return line;
  if (std::fgets(line.data(), static_cast<int>(line.size()), file) == nullptr) line[0] = '\0';
  (void)std::fclose(file);
  return line;
}

}  // namespace

LoadReading read_load() {
  LoadReading reading;
  reading.time_ns = clock_ns();
  reading.process_ns = clock_of(CLOCK_PROCESS_CPUTIME_ID);
  unsigned long long ran = 0, waited = 0;
  if (std::sscanf(first_line("/proc/thread-self/schedstat").data(), "%llu %llu", &ran, &waited) == 2)
    reading.waited_ns = waited;
  unsigned long long user = 0, nice = 0, system = 0, idle = 0, io = 0, hard = 0, soft = 0, steal = 0;
  if (std::sscanf(first_line("/proc/stat").data(), "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system,
                  &idle, &io, &hard, &soft, &steal) == 8) {
    const auto tick_ns = static_cast<uint64_t>(1e9 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
    reading.busy_ns = (user + nice + system + hard + soft) * tick_ns;
    reading.idle_ns = (idle + io) * tick_ns;
    reading.stolen_ns = steal * tick_ns;
  }
  return reading;
}

Disturbance judge_load(const LoadReading &before, const LoadReading &after, uint64_t job_ns, bool oversubscribed) {
  Disturbance found;
  const auto since = [&](uint64_t LoadReading::*counter) {
    return static_cast<double>(after.*counter - std::min(after.*counter, before.*counter));
  };
  const double window_ns = since(&LoadReading::time_ns);
  if (window_ns <= 0) return found;
  // The kernel counts a wait when it ends, so the count may include a time before the window.
  if (!oversubscribed) found.waited = std::min(since(&LoadReading::waited_ns) / window_ns, 1.0);
  found.marked = found.waited > waited_max;
  if (window_ns < static_cast<double>(host_window_ns)) return found;
  const double busy_ns = since(&LoadReading::busy_ns), idle_ns = since(&LoadReading::idle_ns);
  const double stolen_ns = since(&LoadReading::stolen_ns);
  found.others = std::max(busy_ns - static_cast<double>(job_ns), 0.0) / window_ns;
  const double all_ns = busy_ns + idle_ns + stolen_ns;
  if (all_ns > 0) found.stolen = stolen_ns / all_ns;
  const bool busy = idle_ns / window_ns < idle_min;
  found.marked = found.marked || (busy && found.others > others_max) || found.stolen > stolen_max;
  return found;
}

Outcome find_disturbance(Group &group, std::span<const Member> members, const LoadReading &before, bool oversubscribed,
                         Disturbance &found) {
  const LoadReading after = read_load();
  const auto own = static_cast<size_t>(group.rank());
  std::vector<double> used_ns(members.size());
  used_ns[own] = static_cast<double>(after.process_ns - before.process_ns);
  if (auto failure = group.max(used_ns)) return failure;
  double job_ns = 0;
  std::set<int64_t> counted;  // ranks that are threads share their process's time
  for (size_t rank = 0; rank < members.size(); ++rank)
    if (std::strcmp(members[rank].host, members[own].host) == 0 && counted.insert(members[rank].process).second)
      job_ns += used_ns[rank];
  const Disturbance mine = judge_load(before, after, static_cast<uint64_t>(job_ns), oversubscribed);
  std::array<double, 4> worst{mine.waited, mine.others, mine.stolen, mine.marked ? 1.0 : 0.0};
  if (auto failure = group.max(worst)) return failure;
  found = {worst[0], worst[1], worst[2], worst[3] > 0};
  return std::nullopt;
}

}  // namespace rondo::perf
