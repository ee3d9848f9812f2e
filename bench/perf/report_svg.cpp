// SPDX-License-Identifier: Apache-2.0
// The picture: time by size (both logarithmic, with the span from the fastest to the slowest run) beside bandwidth by
// size. One series has a line for each placement; several have a line each.
#include <algorithm>
#include <cmath>
#include <functional>

#include "bench/perf/chart.h"
#include "bench/perf/report.h"

namespace rondo::perf {
namespace {

struct Point {
  double bytes, time_us, min_us, max_us, GBps;
};

struct Line {
  std::string name;
  std::vector<Point> points;
};

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

using Value = std::function<double(const Point &)>;

std::string draw_line(const Line &line, size_t index, const Axis &x, const Axis &y, const Value &value) {
  std::vector<ChartPoint> points;
  for (const Point &point : line.points) points.push_back({point.bytes, value(point)});
  return draw_points(points, index, x, y);
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

}  // namespace

std::string to_svg(std::span<const Series> all) {
  const bool bus = all.empty() || bus_factor(all.front().what.collective, all.front().what.ranks) > 0;
  const std::vector<Line> lines = lines_of(all, bus);
  std::vector<std::string> names;
  for (const Line &line : lines) names.push_back(line.name);
  std::string svg = open_chart(names.size());
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
  const Axis left = power_axis(low.bytes, high.bytes, first_panel_left);
  const Axis right = power_axis(low.bytes, high.bytes, second_panel_left);
  svg += draw_frame(left, time, "time", "message size");
  svg += draw_frame(right, rate, bus ? "bus bandwidth (GB/s)" : "algorithm bandwidth (GB/s)",
                    "message size");
  for (size_t index = 0; index < lines.size() && all.size() == 1; ++index)
    svg += draw_band(lines[index], index, left, time);
  for (size_t index = 0; index < lines.size(); ++index) {
    svg += draw_line(lines[index], index, left, time, [](const Point &point) { return point.time_us; });
    svg += draw_line(lines[index], index, right, rate, [](const Point &point) { return point.GBps; });
  }
  return svg + draw_legend(names) + "</svg>\n";
}

}  // namespace rondo::perf
