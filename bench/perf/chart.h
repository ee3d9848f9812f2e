// SPDX-License-Identifier: Apache-2.0
// A picture of two panels with axes, lines and a legend, as SVG: of `rondo perf` and `rondo sim`.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace rondo::perf {

inline constexpr double panel_width = 400, panel_height = 280;
inline constexpr double panel_top = 104, first_panel_left = 84, second_panel_left = 600;

struct ChartPoint {
  double x, y;
};

struct Tick {
  double value;
  std::string label;
};

/// Values to places on the page, with ticks.
struct Axis {
  bool logarithmic = false;
  double low = 0, high = 1;    ///< values at the ends
  double from = 0, to = 1;     ///< places of the ends
  std::vector<Tick> ticks;

  [[nodiscard]] double place(double value) const {
    const double part = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + std::clamp(part, 0.0, 1.0) * (to - from);
  }
};

[[nodiscard]] std::string number(double value, const char *pattern = "%.1f");
[[nodiscard]] std::string text_at(double x, double y, const char *attributes, const std::string &text);
[[nodiscard]] const char *colour(size_t line);

/// Powers of two. `label` is what a tick is called; sizes are 8 B, 64 KiB, 256 MiB.
[[nodiscard]] std::string size_label(double bytes);
[[nodiscard]] Axis power_axis(double low, double high, double left, std::string (*label)(double) = size_label);
/// 1 µs, 100 µs, 10 ms, 1 s
[[nodiscard]] Axis time_axis(double low_us, double high_us);

[[nodiscard]] std::string draw_frame(const Axis &x, const Axis &y, const std::string &title,
                                     const std::string &below);
[[nodiscard]] std::string draw_points(std::span<const ChartPoint> points, size_t line, const Axis &x, const Axis &y);
/// The head of the picture, which is as high as so many lines' legend needs; close it with "</svg>".
[[nodiscard]] std::string open_chart(size_t line_count);
[[nodiscard]] std::string draw_legend(std::span<const std::string> names);

}  // namespace rondo::perf
