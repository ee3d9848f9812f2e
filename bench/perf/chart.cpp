// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace rondo::perf {
namespace {

constexpr double picture_width = 1040;
constexpr int legend_columns = 4;
constexpr double legend_column_width = 230, legend_row_height = 18;
constexpr double legend_top = panel_top + panel_height + 72;

std::string line_between(double x1, double y1, double x2, double y2, const char *attributes) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
         "\" " + attributes + "/>\n";
}

/// Lines beyond the colours are dashed.
const char *dash(size_t line) { return line < 10 ? "" : " stroke-dasharray=\"5 3\""; }

/// 1 µs, 100 µs, 10 ms, 1 s
std::string time_label(double time_us) {
  if (time_us < 0.9) return number(time_us * 1e3, "%.3g") + " ns";
  if (time_us < 0.9e3) return number(time_us, "%.3g") + " µs";
  if (time_us < 0.9e6) return number(time_us / 1e3, "%.3g") + " ms";
  return number(time_us / 1e6, "%.3g") + " s";
}

constexpr const char *style =
    "<style>text{font:12px sans-serif;fill:#333}.title{font-size:18px;font-weight:bold}.panel{font-size:14px;"
    "font-weight:bold}.grid{stroke:#e3e3e3}.axis{stroke:#555}.note{fill:#777}</style>\n";

}  // namespace

std::string number(double value, const char *pattern) {
  char text[64];
  (void)std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string text_at(double x, double y, const char *attributes, const std::string &text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + attributes + ">" + text + "</text>\n";
}

const char *colour(size_t line) {
  static constexpr std::array colours{"#1f6fb4", "#e0702c", "#2c9a4b", "#b3399a", "#7a5c3d", "#d62f4b", "#5b57c8",
                                      "#1a9ba8", "#8a8d1e", "#4d4d4d"};
  return colours[line % colours.size()];
}

std::string size_label(double bytes) {
  static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < units.size()) bytes /= 1024, ++unit;
  return number(bytes, bytes < 999.5 ? "%.3g" : "%.0f") + " " + units[unit];  // 1020 KiB, not 1.02e+03
}

Axis power_axis(double low, double high, double left, std::string (*label)(double)) {
  constexpr double ticks_max = 8;
  Axis axis{.logarithmic = true, .low = low, .high = high, .from = left, .to = left + panel_width, .ticks = {}};
  if (low == high) axis.low /= 2, axis.high *= 2;
  const int first = static_cast<int>(std::ceil(std::log2(axis.low))), last = static_cast<int>(std::log2(axis.high));
  const int step = std::max(1, static_cast<int>(std::ceil((last - first) / ticks_max)));
  for (int power = first; power <= last; power += step)
    axis.ticks.push_back({std::ldexp(1, power), label(std::ldexp(1, power))});
  return axis;
}

Axis time_axis(double low_us, double high_us) {
  const int first = static_cast<int>(std::floor(std::log10(low_us)));
  const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(high_us))));
  Axis axis{.logarithmic = true, .low = std::pow(10, first), .high = std::pow(10, last),
            .from = panel_top + panel_height, .to = panel_top, .ticks = {}};
  for (int power = first; power <= last; ++power)
    axis.ticks.push_back({std::pow(10, power), time_label(std::pow(10, power))});
  return axis;
}

std::string draw_frame(const Axis &x, const Axis &y, const std::string &title,
                       const std::string &below) {
  std::string svg = text_at(x.from, panel_top - 12, "class=\"panel\"", title);
  for (const Tick &tick : y.ticks) {
    const double at = y.place(tick.value);
    svg += line_between(x.from, at, x.to, at, "class=\"grid\"");
    svg += text_at(x.from - 8, at + 4, "text-anchor=\"end\"", tick.label);
  }
  for (const Tick &tick : x.ticks) {
    const double at = x.place(tick.value);
    svg += line_between(at, y.to, at, y.from, "class=\"grid\"");
    svg += text_at(at, y.from + 18, "text-anchor=\"middle\"", tick.label);
  }
  svg += line_between(x.from, y.from, x.to, y.from, "class=\"axis\"");
  svg += line_between(x.from, y.from, x.from, y.to, "class=\"axis\"");
  return svg + text_at((x.from + x.to) / 2, y.from + 40, "text-anchor=\"middle\"", below);
}

std::string draw_points(std::span<const ChartPoint> points, size_t line, const Axis &x, const Axis &y) {
  std::string path, dots;
  for (const ChartPoint &point : points) {
    const std::string at_x = number(x.place(point.x)), at_y = number(y.place(point.y));
    path += (path.empty() ? "" : " ") + at_x + "," + at_y;
    dots += "<circle cx=\"" + at_x + "\" cy=\"" + at_y + "\" r=\"3\" fill=\"" + colour(line) + "\"/>\n";
  }
  return "<polyline points=\"" + path + "\" fill=\"none\" stroke=\"" + colour(line) + "\" stroke-width=\"2\"" +
         dash(line) + "/>\n" + dots;
}

std::string open_chart(size_t line_count) {
  const auto legend_rows = static_cast<double>((line_count + legend_columns - 1) / legend_columns);
  const double picture_height = legend_top + std::max(1.0, legend_rows) * legend_row_height + 8;
  const std::string size = number(picture_width, "%.0f") + " " + number(picture_height, "%.0f");
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" +
         number(picture_width, "%.0f") + "\" height=\"" + number(picture_height, "%.0f") + "\">\n" + style +
         "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
}

std::string draw_legend(std::span<const std::string> names) {
  std::string svg;
  for (size_t index = 0; index < names.size(); ++index) {
    const double x = first_panel_left + static_cast<double>(index % legend_columns) * legend_column_width;
    const double y = legend_top + static_cast<double>(index / legend_columns) * legend_row_height;
    svg += "<line x1=\"" + number(x) + "\" y1=\"" + number(y - 4) + "\" x2=\"" + number(x + 22) + "\" y2=\"" +
           number(y - 4) + "\" stroke=\"" + colour(index) + "\" stroke-width=\"3\"" + dash(index) + "/>\n";
    svg += text_at(x + 30, y, "", names[index]);
  }
  return svg;
}

}  // namespace rondo::perf
