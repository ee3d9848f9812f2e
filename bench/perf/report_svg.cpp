// SPDX-License-Identifier: Apache-2.0
// The picture: time by size (both logarithmic, with the span from the fastest to the slowest run) beside bandwidth by
// size. One series has a line for each placement; several have a line each.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>

#include "bench/perf/report.h"

namespace rondo::perf {
namespace {

constexpr double picture_width = 1040, panel_width = 400, panel_height = 280;
constexpr double panel_top = 104, first_panel_left = 84, second_panel_left = 600;
constexpr int legend_columns = 4;
constexpr double legend_column_width = 230, legend_row_height = 18;

struct Point {
  double bytes, time_us, min_us, max_us, GBps;
};

struct Line {
  std::string name;
  std::vector<Point> points;
};

std::string number(double value, const char *pattern = "%.1f") {
  char text[64];
  (void)std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string text_at(double x, double y, const char *attributes, const std::string &text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" " + attributes + ">" + text + "</text>\n";
}

std::string line_between(double x1, double y1, double x2, double y2, const char *attributes) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" + number(y2) +
         "\" " + attributes + "/>\n";
}

const char *colour(size_t line) {
  static constexpr std::array colours{"#1f6fb4", "#e0702c", "#2c9a4b", "#b3399a", "#7a5c3d", "#d62f4b", "#5b57c8",
                                      "#1a9ba8", "#8a8d1e", "#4d4d4d"};
  return colours[line % colours.size()];
}

/// Lines beyond the colours are dashed.
const char *dash(size_t line) { return line < 10 ? "" : " stroke-dasharray=\"5 3\""; }

/// 8 B, 64 KiB, 256 MiB
std::string size_label(double bytes) {
  static constexpr std::array units{"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < units.size()) bytes /= 1024, ++unit;
  return number(bytes, "%.3g") + " " + units[unit];
}

/// 1 µs, 100 µs, 10 ms, 1 s
std::string time_label(double time_us) {
  if (time_us < 0.9) return number(time_us * 1e3, "%.3g") + " ns";
  if (time_us < 0.9e3) return number(time_us, "%.3g") + " µs";
  if (time_us < 0.9e6) return number(time_us / 1e3, "%.3g") + " ms";
  return number(time_us / 1e6, "%.3g") + " s";
}

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

Axis size_axis(double low, double high, double left) {
  constexpr double ticks_max = 8;
  Axis axis{.logarithmic = true, .low = low, .high = high, .from = left, .to = left + panel_width, .ticks = {}};
  if (low == high) axis.low /= 2, axis.high *= 2;
  const int first = static_cast<int>(std::ceil(std::log2(axis.low))), last = static_cast<int>(std::log2(axis.high));
  const int step = std::max(1, static_cast<int>(std::ceil((last - first) / ticks_max)));
  for (int power = first; power <= last; power += step)
    axis.ticks.push_back({std::ldexp(1, power), size_label(std::ldexp(1, power))});
  return axis;
}

Axis time_axis(double low, double high) {
  const int first = static_cast<int>(std::floor(std::log10(low)));
  const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(high))));
  Axis axis{.logarithmic = true, .low = std::pow(10, first), .high = std::pow(10, last),
            .from = panel_top + panel_height, .to = panel_top, .ticks = {}};
  for (int power = first; power <= last; ++power)
    axis.ticks.push_back({std::pow(10, power), time_label(std::pow(10, power))});
  return axis;
}

Axis bandwidth_axis(double high) {
  constexpr int ticks_about = 5;
  if (high <= 0) high = 1;
  const double rough = high / ticks_about, decade = std::pow(10, std::floor(std::log10(rough)));
  const double lead = rough / decade;
  const double step = decade * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
  const int count = static_cast<int>(std::ceil(high / step));
  Axis axis{.low = 0, .high = step * count, .from = panel_top + panel_height, .to = panel_top, .ticks = {}};
  for (int tick = 0; tick <= count; ++tick) axis.ticks.push_back({step * tick, number(step * tick, "%.4g")});
  return axis;
}

std::string draw_frame(const Axis &x, const Axis &y, const std::string &title) {
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
  return svg + text_at((x.from + x.to) / 2, y.from + 40, "text-anchor=\"middle\"", "message size");
}

using Value = std::function<double(const Point &)>;

std::string draw_line(const Line &line, size_t index, const Axis &x, const Axis &y, const Value &value) {
  std::string path, dots;
  for (const Point &point : line.points) {
    const std::string at_x = number(x.place(point.bytes)), at_y = number(y.place(value(point)));
    path += (path.empty() ? "" : " ") + at_x + "," + at_y;
    dots += "<circle cx=\"" + at_x + "\" cy=\"" + at_y + "\" r=\"3\" fill=\"" + colour(index) + "\"/>\n";
  }
  return "<polyline points=\"" + path + "\" fill=\"none\" stroke=\"" + colour(index) + "\" stroke-width=\"2\"" +
         dash(index) + "/>\n" + dots;
}

/// The span from the fastest to the slowest run.
std::string draw_band(const Line &line, size_t index, const Axis &x, const Axis &y) {
  std::string up, down;
  for (const Point &point : line.points) {
    const std::string at_x = number(x.place(point.bytes));
    up += at_x + "," + number(y.place(point.max_us)) + " ";
    down = at_x + "," + number(y.place(point.min_us)) + " " + down;
  }
  return "<polygon points=\"" + up + down + "\" fill=\"" + colour(index) + "\" fill-opacity=\"0.13\"/>\n";
}

Line line_of(const Series &series, std::string name, bool in_place, bool bus) {
  Line line{std::move(name), {}};
  for (const Row &row : series.rows) {
    const auto &times = in_place ? row.in_place : row.out_of_place;
    if (!times || row.bytes == 0 || times->min_us <= 0) continue;  // a logarithm has no place for them
    const Bandwidth rate = bandwidth(series.what, row.bytes, *times);
    line.points.push_back({static_cast<double>(row.bytes), times->median_us, times->min_us, times->max_us,
                           bus ? rate.bus_GBps : rate.algorithm_GBps});
  }
  return line;
}

/// @param bus  bus bandwidth; else algorithm bandwidth
std::vector<Line> lines_of(std::span<const Series> all, bool bus) {
  std::vector<Line> lines;
  for (const Series &series : all) {
    const std::string name = std::string(rondo_type_string(series.what.type)) + " " + op_name(series.what);
    Line out_of_place = line_of(series, all.size() == 1 ? "out of place" : name, false, bus);
    Line in_place = line_of(series, all.size() == 1 ? "in place" : name, true, bus);
    const bool both = all.size() == 1;
    if (!in_place.points.empty() && (both || out_of_place.points.empty())) {
      if (!out_of_place.points.empty()) lines.push_back(std::move(out_of_place));
      lines.push_back(std::move(in_place));
    } else if (!out_of_place.points.empty()) {
      lines.push_back(std::move(out_of_place));
    }
  }
  return lines;
}

std::string title_of(std::span<const Series> all) {
  const Case &what = all.front().what;
  std::string title = std::string(rondo_collective_string(what.collective)) + ", " + std::to_string(what.ranks) +
                      (what.ranks == 1 ? " rank" : " ranks") + ", host memory";
  if (all.size() == 1) {
    title += std::string(", ") + rondo_type_string(what.type);
    if (reduces(what.collective)) title += std::string(", ") + op_name(what);
  }
  return title;
}

std::string draw_legend(const std::vector<Line> &lines, double top) {
  std::string svg;
  for (size_t index = 0; index < lines.size(); ++index) {
    const double x = first_panel_left + static_cast<double>(index % legend_columns) * legend_column_width;
    const double y = top + static_cast<double>(index / legend_columns) * legend_row_height;
    svg += "<line x1=\"" + number(x) + "\" y1=\"" + number(y - 4) + "\" x2=\"" + number(x + 22) + "\" y2=\"" +
           number(y - 4) + "\" stroke=\"" + colour(index) + "\" stroke-width=\"3\"" + dash(index) + "/>\n";
    svg += text_at(x + 30, y, "", lines[index].name);
  }
  return svg;
}

constexpr const char *style =
    "<style>text{font:12px sans-serif;fill:#333}.title{font-size:18px;font-weight:bold}.panel{font-size:14px;"
    "font-weight:bold}.grid{stroke:#e3e3e3}.axis{stroke:#555}.note{fill:#777}</style>\n";

}  // namespace

std::string to_svg(std::span<const Series> all) {
  const bool bus = all.empty() || bus_factor(all.front().what.collective, all.front().what.ranks) > 0;
  const std::vector<Line> lines = lines_of(all, bus);
  const double legend_top = panel_top + panel_height + 72;
  const auto legend_rows = static_cast<double>((lines.size() + legend_columns - 1) / legend_columns);
  const double picture_height = legend_top + std::max(1.0, legend_rows) * legend_row_height + 8;
  const std::string size = number(picture_width, "%.0f") + " " + number(picture_height, "%.0f");
  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + size + "\" width=\"" +
                    number(picture_width, "%.0f") + "\" height=\"" + number(picture_height, "%.0f") + "\">\n" + style +
                    "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
  if (!all.empty()) svg += text_at(first_panel_left, 40, "class=\"title\"", title_of(all));
  if (lines.empty()) return svg + text_at(first_panel_left, 80, "", "no size above 0 bytes was measured") + "</svg>\n";
  const char *const note = all.size() == 1 ? "median of the runs; the shade spans the fastest and the slowest"
                                           : "median of the runs";
  svg += text_at(first_panel_left, 62, "class=\"note\"", note);
  Point low = lines.front().points.front(), high = low;
  for (const Line &line : lines) {
    for (const Point &point : line.points) {
      low = {std::min(low.bytes, point.bytes), 0, std::min(low.min_us, point.min_us), 0, 0};
      high = {std::max(high.bytes, point.bytes), 0, 0, std::max(high.max_us, point.max_us),
              std::max(high.GBps, point.GBps)};
    }
  }
  const Axis time = time_axis(low.min_us, high.max_us), rate = bandwidth_axis(high.GBps);
  const Axis left = size_axis(low.bytes, high.bytes, first_panel_left);
  const Axis right = size_axis(low.bytes, high.bytes, second_panel_left);
  svg += draw_frame(left, time, "time");
  svg += draw_frame(right, rate, bus ? "bus bandwidth (GB/s)" : "algorithm bandwidth (GB/s)");
  for (size_t index = 0; index < lines.size() && all.size() == 1; ++index)
    svg += draw_band(lines[index], index, left, time);
  for (size_t index = 0; index < lines.size(); ++index) {
    svg += draw_line(lines[index], index, left, time, [](const Point &point) { return point.time_us; });
    svg += draw_line(lines[index], index, right, rate, [](const Point &point) { return point.GBps; });
  }
  return svg + draw_legend(lines, legend_top) + "</svg>\n";
}

}  // namespace rondo::perf
