// SPDX-License-Identifier: Apache-2.0
// This file computes three results from the measurements: rows, comparisons of choices, and fits. It does no I/O.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>

#include "src/cli/tune/tune.h"
#include "src/cli/tune/tuner_input.h"

namespace rondo::cli::tune {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
/// A further row must save at least this share of the time at one size. Smaller savings would be noise.
constexpr double row_price = 0.03;
/// From this size on the time grows with the size, so the best choice at the last size is best for larger sizes, too.
constexpr uint64_t end_bytes_min = uint64_t{16} << 20;

/// Says whether two choices do the same work. Chunk sizes that are not smaller than the message count as equal.
bool same_work(const PlanChoice &a, const PlanChoice &b, uint64_t bytes) {
  PlanChoice same = a;
  if (a.chunk_bytes >= bytes && b.chunk_bytes >= bytes) same.chunk_bytes = b.chunk_bytes;
  return same == b;
}

using BySize = std::vector<std::span<const Series>>;

BySize by_size(const Measured &measured) {
  BySize sizes;
  const std::span<const Series> all(measured.series);
  for (size_t first = 0, last = 0; first < all.size(); first = last) {
    while (last < all.size() && all[last].bytes == all[first].bytes) ++last;
    sizes.push_back(all.subspan(first, last - first));
  }
  return sizes;
}

const Series &best_of(std::span<const Series> size) {
  return *std::min_element(size.begin(), size.end(),
                           [](const Series &a, const Series &b) { return a.median_us < b.median_us; });
}

double time_of(std::span<const Series> size, const PlanChoice &choice) {
  double time_us = never;  // stays so if the choice was not measured
  for (const Series &series : size)
    if (same_work(series.choice, choice, series.bytes)) time_us = std::min(time_us, series.median_us);
  return time_us;
}

/// The best way to divide the sizes before some index into rows. It has the price of these rows, and the first index
/// and the choice of the last row.
struct Division {
  double price = never;
  size_t begin = 0;
  PlanChoice choice;
};

std::vector<Division> divide(const BySize &sizes, const std::vector<PlanChoice> &choices) {
  std::vector<Division> best(sizes.size() + 1);
  best[0].price = 0;
  for (size_t end = 1; end <= sizes.size(); ++end)
    for (const PlanChoice &choice : choices) {
      double lost = 0;
      for (size_t begin = end; begin-- > 0;) {
        const double ratio = time_of(sizes[begin], choice) / best_of(sizes[begin]).median_us;
        if (!(ratio <= ratio_max)) break;
        lost += ratio - 1;
        const double price = best[begin].price + row_price + lost;
        if (price < best[end].price) best[end] = {price, begin, choice};
      }
    }
  return best;
}

/// Returns the size at which a row ends: usually the geometric mean of its last size and the next size.
uint64_t row_end(const BySize &sizes, size_t end) {
  const uint64_t below = sizes[end - 1][0].bytes;
  if (end == sizes.size()) return below >= end_bytes_min ? TuningRow::any_bytes : 2 * below;
  const auto middle =
      static_cast<uint64_t>(std::sqrt(static_cast<double>(below) * static_cast<double>(sizes[end][0].bytes)));
  return std::max(below, middle);
}

void add_rows(const Measured &measured, std::vector<TuningRow> &rows) {
  const BySize sizes = by_size(measured);
  std::vector<PlanChoice> choices;
  for (const Series &series : measured.series)
    if (std::find(choices.begin(), choices.end(), series.choice) == choices.end()) choices.push_back(series.choice);
  const std::vector<Division> best = divide(sizes, choices);
  std::vector<TuningRow> own;
  for (size_t end = sizes.size(); end > 0; end = best[end].begin)
    own.push_back({measured.group.collective, measured.group.rank_count, measured.group.oversubscribed,
                   row_end(sizes, end), best[end].choice, measured.group.several_hosts, measured.group.buffers});
  rows.insert(rows.end(), own.rbegin(), own.rend());
}

/// Finds alpha and beta with the least squares of the relative error, so that (alpha + beta x) / t is near 1. A
/// negative alpha becomes 0.
void solve(std::span<const std::pair<double, double>> points, Fit &fit) {
  double aa = 0, ab = 0, bb = 0, a = 0, b = 0;
  for (const auto &[bytes, time_us] : points) {
    const double u = 1 / time_us, v = bytes / time_us;
    aa += u * u, ab += u * v, bb += v * v, a += u, b += v;
  }
  const double determinant = aa * bb - ab * ab;
  double alpha = determinant > 0 ? (a * bb - b * ab) / determinant : 0;
  if (alpha < 0) alpha = 0;
  double beta = (b - alpha * ab) / bb;  // the best beta for this alpha
  if (beta <= 0) beta = 0, alpha = a / aa;
  fit.alpha_us = alpha;
  fit.bandwidth_GBps = beta > 0 ? 1e-3 / beta : 0;
  for (const auto &[bytes, time_us] : points)
    fit.error_max = std::max(fit.error_max, std::abs(alpha + beta * bytes - time_us) / time_us);
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::vector<uint64_t> drop_disturbed(Measured &measured) {
  std::vector<uint64_t> lacking;
  for (const auto &size : by_size(measured))
    if (std::all_of(size.begin(), size.end(), [](const Series &it) { return it.quiet_round_count == 0; }))
      lacking.push_back(size[0].bytes);
  std::erase_if(measured.series, [](const Series &it) { return it.quiet_round_count == 0; });
  return lacking;
}

std::vector<TuningRow> build_rows(std::span<const Measured> all) {
  std::vector<TuningRow> rows;
  for (const Measured &measured : all) add_rows(measured, rows);
  std::stable_sort(rows.begin(), rows.end(), [](const TuningRow &a, const TuningRow &b) {
    return std::tuple(a.collective, a.buffers, a.oversubscribed, a.rank_count) <
           std::tuple(b.collective, b.buffers, b.oversubscribed, b.rank_count);
  });
  return rows;
}

namespace {

/// Records a choice at a size. If it was measured there, records the time, too.
void note(std::span<const Series> size, const PlanChoice &choice, PlanChoice &to, std::optional<double> &time_us) {
  to = choice;
  if (const double time = time_of(size, choice); time < never) time_us = time;
}

/// Compares the choice of the table's rows with the choice that the library made during the measurement. It is for
/// devices and several hosts, where this code does not know the slots.
void compare_as_measured(const Measured &measured, const TuningTable &table, std::vector<Comparison> &comparisons) {
  const Group &group = measured.group;
  for (const auto &size : by_size(measured)) {
    Comparison comparison{group, size[0].bytes, best_of(size), {}, {}, {}, {}};
    const auto rows = table.rows_for(group.collective, group.rank_count, group.oversubscribed, group.several_hosts,
                                     group.buffers);
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const TuningRow &it) { return size[0].bytes <= it.bytes_max; });
    if (row != rows.end()) note(size, row->choice, comparison.chosen, comparison.chosen_us);
    for (const auto &[bytes, choice] : measured.built_in)
      if (bytes == size[0].bytes) note(size, choice, comparison.built_in, comparison.built_in_us);
    comparisons.push_back(comparison);
  }
}

}  // namespace

std::vector<Comparison> compare(std::span<const Measured> all, const TuningTable &table, const Config &config) {
  std::vector<Comparison> comparisons;
  for (const Measured &measured : all) {
    if (measured.group.buffers != BufferPlace::host || measured.group.several_hosts) {
      compare_as_measured(measured, table, comparisons);
      continue;
    }
    TunerInput input = tuner_input(config, measured.group.rank_count, measured.group.oversubscribed);
    input.collective = measured.group.collective;
    for (const auto &size : by_size(measured)) {
      Comparison comparison{measured.group, size[0].bytes, best_of(size), {}, {}, {}, {}};
      input.bytes = size[0].bytes;
      const auto choose = [&](const TuningTable *from, PlanChoice &choice, std::optional<double> &time_us) {
        input.table = from;
        if (const auto chosen = choose_plan(input); chosen.ok()) note(size, chosen.value(), choice, time_us);
      };
      choose(&table, comparison.chosen, comparison.chosen_us);
      choose(nullptr, comparison.built_in, comparison.built_in_us);
      comparisons.push_back(comparison);
    }
  }
  return comparisons;
}

double worst_ratio(std::span<const Comparison> comparisons) {
  double worst = 1;
  for (const Comparison &it : comparisons)
    worst = std::max(worst, it.chosen_us ? *it.chosen_us / it.best.median_us : never);
  return worst;
}

std::vector<Fit> fit_all(std::span<const Measured> all) {
  std::vector<Fit> fits;
  for (const Measured &measured : all) {
    std::map<std::tuple<rondo_algorithm_t, rondo_protocol_t, rondo_kernel_t>, std::map<uint64_t, double>> kinds;
    for (const Series &series : measured.series) {
      auto &times = kinds[{series.choice.algorithm, series.choice.protocol, series.choice.kernel}];
      const auto [it, fresh] = times.try_emplace(series.bytes, series.median_us);
      if (!fresh) it->second = std::min(it->second, series.median_us);
    }
    for (const auto &[kind, times] : kinds) {
      if (times.size() < 2) continue;
      Fit fit{measured.group, std::get<0>(kind), std::get<1>(kind), std::get<2>(kind)};
      std::vector<std::pair<double, double>> points;
      for (const auto &[bytes, time_us] : times) points.emplace_back(static_cast<double>(bytes), time_us);
      solve(points, fit);
      fits.push_back(fit);
    }
  }
  return fits;
}

}  // namespace rondo::cli::tune
