// SPDX-License-Identifier: Apache-2.0
// This file draws charts with axes, lines and a legend as SVG, for `rondo perf` and `rondo sim`. Up to eight lines
// share two large panels. If there are more, each line has a small panel. All small panels have the same axes.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace rondo::chart {

inline constexpr double panel_width = 400, panel_height = 280;
inline constexpr double panel_top = 104, first_panel_left = 84, second_panel_left = 600;
inline constexpr size_t shared_line_count_max = 8;

struct Point {
  double x, y;
  bool is_hollow = false;  ///< draws a hollow dot, for a value that matters little
};

struct Tick {
  double value;
  std::string label;
};

/// An axis with ticks, which maps values to positions on the page.
struct Axis {
  bool logarithmic = false;
  double low = 0, high = 1;    ///< values at both ends
  double from = 0, to = 1;     ///< positions of both ends
  std::vector<Tick> ticks;

  [[nodiscard]] double place(double value) const {
    const double part = logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
    return from + std::clamp(part, 0.0, 1.0) * (to - from);
  }
};

[[nodiscard]] const char *colour(size_t line);

/// Returns an axis of powers of two. `label` makes the text of a tick, such as 8, 64K or 256M.
[[nodiscard]] Axis power_axis(double low, double high, double left, std::string (*label)(double));
/// Returns a power_axis() for sizes in bytes.
[[nodiscard]] Axis size_axis(double low, double high, double left);
/// Returns an axis of times, with ticks such as "1 us", "100 us", "10 ms" and "1 s".
[[nodiscard]] Axis time_axis(double low_us, double high_us);
/// Returns an axis from 0, in steps of 1, 2 or 5 times a power of ten.
[[nodiscard]] Axis linear_axis(double high);

[[nodiscard]] std::string draw_title(const std::string &title, const std::string &note);
[[nodiscard]] std::string draw_frame(const Axis &x, const Axis &y, const std::string &title,
                                     const std::string &below);
[[nodiscard]] std::string draw_points(std::span<const Point> points, size_t line, const Axis &x, const Axis &y);
/// Returns the beginning of the picture. Its height includes the legend of `line_count` lines. svg::end closes the
/// picture.
[[nodiscard]] std::string open_chart(size_t line_count);
[[nodiscard]] std::string draw_legend(std::span<const std::string> names);

/// A line of a small panel. Lines with the same number have the same colour in all panels.
struct Curve {
  size_t number = 0;
  std::vector<Point> points;
};
struct SmallPanel {
  std::string title;
  std::vector<Curve> curves;
};
/// Small panels whose curves have the same two axes. The axes' members `from` and `to` are ignored.
struct Section {
  std::string title, below;
  Axis x, y;
  std::vector<SmallPanel> panels;
};

/// Returns the whole picture. Each panel also shows the curves of other panels in grey. `names` has the names of curves
/// by number.
[[nodiscard]] std::string draw_small(const std::string &title, const std::string &note,
                                     std::span<const Section> sections, std::span<const std::string> names);

}  // namespace rondo::chart
