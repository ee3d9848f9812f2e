// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/figures/pipeline.h"

#include <algorithm>
#include <cstdio>

namespace rondo::train {

double idle_share(const std::vector<StageTimes> &ranks) {
  uint64_t longest_ns = 0, computation_ns = 0;
  for (const StageTimes &rank : ranks) {
    longest_ns = std::max(longest_ns, rank.passes_ns);
    computation_ns += rank.computation_ns;
  }
  if (longest_ns == 0) return 0;
  return 1.0 - static_cast<double>(computation_ns) / static_cast<double>(longest_ns * ranks.size());
}

PipelineFigures pipeline_figures(size_t stages, size_t passes, const std::vector<double> &idle_shares) {
  PipelineFigures figures;
  figures.ideal = static_cast<double>(stages - 1) / static_cast<double>(passes + stages - 1);
  if (idle_shares.empty()) return figures;
  figures.idle = estimate(idle_shares);
  figures.told = idle_shares.size() >= rounds_min && figures.idle.width() < figures.ideal;
  return figures;
}

std::string pipeline_text(const PipelineFigures &figures) {
  char text[160];
  const double percent = 100;
  if (figures.told) {
    std::snprintf(text, sizeof text, "stages idle %.0f %% of the passes (%.0f to %.0f), ideally %.0f %%",
                  percent * figures.idle.median, percent * figures.idle.low, percent * figures.idle.high,
                  percent * figures.ideal);
  } else {
    std::snprintf(text, sizeof text, "stages ideally idle %.0f %% of the passes; measured: too small to tell",
                  percent * figures.ideal);
  }
  return text;
}

}  // namespace rondo::train
