// SPDX-License-Identifier: Apache-2.0
// This file formats the results of `rondo tune` for people.
#include <array>
#include <cstdio>

#include "src/base/parse.h"
#include "src/cli/tune/tune.h"

namespace rondo::cli::tune {
namespace {

std::string ratio_text(std::optional<double> time_us, double best_us) {
  if (!time_us) return "-";
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", *time_us / best_us);
  return text.data();
}

}  // namespace

const char *place_text(BufferPlace buffers) {
  if (buffers == BufferPlace::host) return "";
  if (buffers == BufferPlace::device) return " as processes, on devices";
  return buffers == BufferPlace::shared_device ? " as threads of a process, on one device"
                                               : " as threads of a process, on devices that reach each other";
}

std::string comparison_text(std::span<const Comparison> comparisons) {
  std::string out;
  std::array<char, 240> line{};
  const Group *group = nullptr;
  for (const Comparison &it : comparisons) {
    if (group == nullptr || group->collective != it.group.collective || group->rank_count != it.group.rank_count ||
        group->buffers != it.group.buffers) {
      std::snprintf(line.data(), line.size(), "\n%s, %u ranks%s%s\n  %8s  %-30s %11s  %-30s %6s  %-30s %6s\n",
                    rondo_collective_string(it.group.collective), it.group.rank_count,
                    it.group.oversubscribed ? ", more than there are cores" : "", place_text(it.group.buffers), "bytes",
                    "best", "us", "chosen", "ratio", "without the table", "ratio");
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
  if (costs.rates.empty()) return {};  // the costs were not measured
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(),
                "core to core %.3f us, reading another core's data %.1f GB/s, a core handed over in %.2f us "
                "(from sleep: %.2f us)\n",
                costs.latency_us, costs.bandwidth_GBps, costs.handover_us, costs.wake_us);
  std::string out = text.data();
  for (const Rates &rates : costs.rates) {
    std::snprintf(text.data(), text.size(), "each core, all at work, within %s bytes, in GB/s: copies %.1f, reduces",
                  show_bytes(rates.working_set_bytes).c_str(), rates.copy_GBps);
    out += text.data();
    for (const auto &[type, rate] : rates.reduce_GBps) {
      std::snprintf(text.data(), text.size(), " %s %.1f", rondo_type_string(type), rate);
      out += text.data();
    }
    out += "\n";
  }
  return out;
}

}  // namespace rondo::cli::tune
