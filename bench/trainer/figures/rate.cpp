// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/figures/rate.h"

#include <array>
#include <cstdio>

namespace rondo::train {
namespace {

constexpr double rate_unit = 1e12, ns_per_s = 1e9;

/// Returns the number in one format if it is less than `limit`, and otherwise without decimals.
std::string number(double value, double limit, const char *format) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), value < limit ? format : "%.0f", value);
  return text.data();
}

std::string rate_number(double value) { return number(value, 99.95, "%.3g"); }
std::string percent_number(double share) { return number(100 * share, 9.95, "%.1f"); }

}  // namespace

RateFigures rate_figures(std::span<const Round> rounds, bool overlap, double operations, size_t product_rows) {
  const auto rows = static_cast<double>(product_rows);
  std::vector<double> rates, product_rates, shares;
  for (const Round &round : rounds) {
    const uint64_t step_ns = overlap ? round.overlapped_ns : round.plain_ns;
    if (step_ns == 0 || round.product_ns == 0) continue;
    rates.push_back(operations / static_cast<double>(step_ns) * ns_per_s / rate_unit);
    product_rates.push_back(2 * rows * rows * rows / static_cast<double>(round.product_ns) * ns_per_s / rate_unit);
    shares.push_back(rates.back() / product_rates.back());
  }
  RateFigures figures;
  if (rates.empty()) return figures;
  figures.operations = operations;
  figures.product_rows = product_rows;
  figures.rate = estimate(rates);
  figures.product_rate = estimate(product_rates);
  figures.enough = shares.size() >= rounds_min;
  const Estimate share = estimate(shares);
  if (figures.enough && share.width() < share.median) figures.share = share;
  return figures;
}

std::string share_text(const RateFigures &figures) {
  if (!figures.share) return figures.enough ? "too small to tell" : "too few rounds to tell";
  return percent_number(figures.share->median) + " % (" + percent_number(figures.share->low) + " to " +
         percent_number(figures.share->high) + ")";
}

std::string rate_text(const RateFigures &figures) {
  if (figures.operations == 0) return "";
  return rate_number(figures.rate.median) + " TFLOP/s a rank; share of the " +
         rate_number(figures.product_rate.median) +
         " TFLOP/s of one product of " + std::to_string(figures.product_rows) + " rows: " + share_text(figures);
}

}  // namespace rondo::train
