// SPDX-License-Identifier: Apache-2.0
// What `rondo tune` tells people.
#include <array>
#include <cstdio>

#include "src/base/parse.h"
#include "src/cli/tune.h"

namespace rondo::cli::tune {
namespace {

std::string ratio_text(std::optional<double> time_us, double best_us) {
  if (!time_us) return "-";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", *time_us / best_us);
  return text.data();
}

}  // namespace

std::string comparison_text(std::span<const Comparison> comparisons) {
  std::string out;
  std::array<char, 240> line{};
  const Group *group = nullptr;
  for (const Comparison &it : comparisons) {
    if (group == nullptr || group->collective != it.group.collective || group->rank_count != it.group.rank_count) {
      std::snprintf(line.data(), line.size(), "\n%s, %u ranks%s\n  %8s  %-30s %11s  %-30s %6s  %-30s %6s\n",
                    rondo_collective_string(it.group.collective), it.group.rank_count,
                    it.group.oversubscribed ? ", more than there are cores" : "", "bytes", "best", "us", "chosen",
                    "ratio", "without the table", "ratio");
      out += line.data();
    }
    group = &it.group;
    std::snprintf(line.data(), line.size(), "  %8s  %-30s %11.1f  %-30s %6s  %-30s %6s\n", show_bytes(it.bytes).c_str(),
                  show(it.best.choice).c_str(), it.best.median_us, show(it.chosen).c_str(),
                  ratio_text(it.chosen_us, it.best.median_us).c_str(), show(it.built_in).c_str(),
                  ratio_text(it.built_in_us, it.best.median_us).c_str());
    out += line.data();
  }
  std::snprintf(line.data(), line.size(),
                "\nThe worst choice takes %.2f times the best at its size (at most %.2f is wanted).\n",
                worst_ratio(comparisons), ratio_max);
  return out + line.data();
}

std::string costs_text(const Costs &costs) {
  std::array<char, 400> text{};
  std::snprintf(
      text.data(), text.size(),
      "core to core %.3f us, reading another core's data %.1f GB/s, copying %.1f GB/s in the caches and %.1f in "
      "memory, a core handed over in %.2f us (from sleep: %.2f us); folding",
      costs.latency_us, costs.bandwidth_GBps, costs.copy_GBps, costs.memory_copy_GBps, costs.handover_us,
      costs.wake_us);
  std::string out = text.data();
  for (const auto &[type, rate] : costs.fold_GBps) {
    std::snprintf(text.data(), text.size(), "%s %s %.1f GB/s", &type == &costs.fold_GBps.front().first ? "" : ",",
                  rondo_type_string(type), rate);
    out += text.data();
  }
  return out + "\n";
}

}  // namespace rondo::cli::tune
