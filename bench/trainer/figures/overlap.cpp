// SPDX-License-Identifier: Apache-2.0
#include "bench/trainer/figures/overlap.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace rondo::train {
namespace {

/// Returns how many of `count` sorted values to leave out at each end, so that the others enclose the true median. The
/// median is outside with a probability of at most 5 %. Returns 0 if there are too few values.
size_t values_outside(size_t count) {
  constexpr double doubt = 0.05;
  double each = std::pow(0.5, static_cast<double>(count));  // probability of exactly `below` values under the median
  double tail = 0;
  for (size_t below = 0; below < count; ++below) {
    tail += each;
    if (2 * tail > doubt) return below;
    each *= static_cast<double>(count - below) / static_cast<double>(below + 1);
  }
  return 0;
}

template <class Get>
std::vector<double> of_rounds(std::span<const Round> rounds, const Get &get) {
  std::vector<double> values;
  for (const Round &round : rounds) values.push_back(get(round));
  return values;
}

Estimate scaled(const Estimate &value, double factor) {
  return {value.median * factor, value.low * factor, value.high * factor};
}

[[gnu::format(printf, 1, 2)]] std::string print(const char *format, ...) {
  char text[200];
  va_list values;
  va_start(values, format);
  (void)std::vsnprintf(text, sizeof text, format, values);
  va_end(values);
  return text;
}

std::string time_text(double us) { return us < 1000 ? print("%.0f us", us) : print("%.1f ms", us / 1000); }

/// Returns a percentage with one decimal if it is small, otherwise with none.
std::string percent(double share) {
  const double value = 100 * std::fabs(share);
  return value < 9.95 ? print("%.1f", value) : print("%.0f", value);
}

std::string text_of(const std::optional<Estimate> &value, const char *unit) {
  if (!value) return "too small to tell";
  return print("%.2f (%.2f to %.2f)%s", value->median, value->low, value->high, unit);
}

const char *direction(double share) { return share < 0 ? "more" : "less"; }

std::string difference_text(const Estimate &less, bool told) {
  if (!told)
    return "too small to tell (between " + percent(less.low) + " % " + direction(less.low) + " and " +
           percent(less.high) + " % " + direction(less.high) + ")";
  const auto [least, most] = std::minmax({std::fabs(less.low), std::fabs(less.high)});
  return percent(less.median) + " % " + direction(less.median) + " (" + percent(least) + " to " + percent(most) + ")";
}

}  // namespace

double Round::slowdown() const {
  return passes_alone_ns > 0 ? static_cast<double>(passes_beside_ns) / static_cast<double>(passes_alone_ns) : 0.0;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

Estimate estimate(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t outside = std::max<size_t>(values_outside(values.size()), 1);
  return {median(values), values[outside - 1], values[values.size() - outside]};
}

OverlapFigures overlap_figures(std::span<const Round> rounds, bool overlap, size_t ranks) {
  using State = OverlapFigures::State;
  const auto us = [&](uint64_t Round::*member) {
    return estimate(of_rounds(rounds, [&](const Round &round) { return static_cast<double>(round.*member) / 1e3; }));
  };
  OverlapFigures figures;
  figures.plain_us = us(&Round::plain_ns);
  if (figures.plain_us.median <= 0) return figures;
  figures.state = State::off;
  if (!overlap) return figures;
  figures.step_us = us(&Round::overlapped_ns);
  figures.state = State::one_rank;
  if (ranks < 2) return figures;
  figures.state = rounds.size() < rounds_min ? State::too_few_rounds : State::measured;

  const auto hidden_us = [](const Round &round) {
    return (static_cast<double>(round.plain_ns) - static_cast<double>(round.overlapped_ns)) / 1e3;
  };
  figures.hidden_us = estimate(of_rounds(rounds, hidden_us));
  figures.less = estimate(of_rounds(rounds, [&](const Round &round) {
    return 1e3 * hidden_us(round) / static_cast<double>(round.plain_ns);
  }));
  // The share is computed from the two times that are printed beside it, so that readers can check it.
  figures.less.median = 1 - figures.step_us.median / figures.plain_us.median;
  figures.less.low = std::min(figures.less.low, figures.less.median);
  figures.less.high = std::max(figures.less.high, figures.less.median);
  figures.hideable_us = estimate(of_rounds(rounds, [](const Round &round) {
    return static_cast<double>(std::min(round.backward_ns, round.gradients_ns)) / 1e3;
  }));
  if (figures.state != State::measured) return figures;
  figures.less_told = figures.less.low > 0 || figures.less.high < 0;
  const double noise_us =
      std::max({figures.step_us.width(), figures.plain_us.width(), figures.hidden_us.width()});
  if (figures.hideable_us.median > noise_us && figures.hidden_us.low <= figures.hideable_us.median)
    figures.efficiency = scaled(figures.hidden_us, 1 / figures.hideable_us.median);
  const Estimate slowdown = estimate(of_rounds(rounds, [](const Round &round) { return round.slowdown(); }));
  if (slowdown.low > 1) figures.slowdown = slowdown;
  return figures;
}

std::string headline(const OverlapFigures &figures) {
  using State = OverlapFigures::State;
  const std::string step = time_text(figures.step_us.median), plain = time_text(figures.plain_us.median);
  const std::string both = "a step takes " + step + " with overlap, " + plain + " without: ";
  switch (figures.state) {
    case State::not_measured: return "";
    case State::off:
      return "a step takes " + plain + " without overlap (" + time_text(figures.plain_us.low) + " to " +
             time_text(figures.plain_us.high) + ")";
    case State::one_rank: return "a step takes " + step + "; one rank has nothing to overlap";
    case State::too_few_rounds:
      return both + "too few rounds to tell (--measure " + std::to_string(rounds_min) + " or more can tell)";
    case State::measured: break;
  }
  return both + difference_text(figures.less, figures.less_told);
}

std::string efficiency_text(const OverlapFigures &figures) {
  return figures.state == OverlapFigures::State::measured ? text_of(figures.efficiency, "") : "";
}

std::string slowdown_text(const OverlapFigures &figures) {
  return figures.state == OverlapFigures::State::measured ? text_of(figures.slowdown, " times as long") : "";
}

}  // namespace rondo::train
