// SPDX-License-Identifier: Apache-2.0
// This file draws the picture: time by size beside bandwidth by size. Time and size have logarithmic axes, and the time
// shows the range from the fastest to the slowest run. A single series has a line for each placement. Each of several
// series has one line. If there are many series, each type has a small panel.
#include <algorithm>
#include <cmath>
#include <functional>

#include "bench/perf/perf_report.h"
#include "src/console/chart.h"
#include "src/console/svg.h"

namespace rondo::perf {
namespace {

struct Point {
  double bytes, time_us, min_us, max_us, GBps;
  bool disturbed = false;
};

struct Line {
  std::string name, type, op;
  std::vector<Point> points;
};

using Value = std::function<double(const Point &)>;

std::vector<chart::Point> points_of(const Line &line, const Value &value) {
  std::vector<chart::Point> points;
  for (const Point &point : line.points) points.push_back({point.bytes, value(point), point.disturbed});
  return points;
}

std::string draw_line(const Line &line, size_t index, const chart::Axis &x, const chart::Axis &y, const Value &value) {
  return chart::draw_points(points_of(line, value), index, x, y);
}

/// Draws the range from the fastest to the slowest run.
std::string draw_band(const Line &line, size_t index, const chart::Axis &x, const chart::Axis &y) {
  std::string up, down;
  for (const Point &point : line.points) {
    const std::string at_x = svg::number(x.place(point.bytes));
    up += at_x + "," + svg::number(y.place(point.max_us)) + " ";
    down = at_x + "," + svg::number(y.place(point.min_us)) + " " + down;
  }
  return svg::polygon(up + down, "fill=\"" + std::string(chart::colour(index)) + "\" fill-opacity=\"0.13\"");
}

Line line_of(const Series &series, std::string name, bool in_place, bool bus) {
  Line line{std::move(name), rondo_type_string(series.what.type), op_name(series.what), {}};
  for (const Row &row : series.rows) {
    const auto &times = in_place ? row.in_place : row.out_of_place;
    if (!times || row.bytes == 0 || times->min_us <= 0) continue;  // a logarithmic axis cannot show them
    const Bandwidth rate = bandwidth(series.what, row.bytes, *times);
    line.points.push_back({static_cast<double>(row.bytes), times->median_us, times->min_us, times->max_us,
                           bus ? rate.bus_GBps : rate.algorithm_GBps, row.disturbance.marked});
  }
  return line;
}

/// Returns the lines of bandwidth and time.
/// @param bus  true for bus bandwidth, false for algorithm bandwidth
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
  std::string title = std::string(name_of(what.collective)) + ", " + std::to_string(what.ranks) +
                      (what.ranks == 1 ? " rank" : " ranks") + ", host memory";
  if (all.size() == 1) {
    title += std::string(", ") + rondo_type_string(what.type);
    if (traits_of(what.collective).reduces) title += std::string(", ") + op_name(what);
  }
  return title;
}

/// Returns the note about hollow dots, or "" if there are none.
std::string disturbed_note(const std::vector<Line> &lines) {
  for (const Line &line : lines)
    if (std::ranges::any_of(line.points, &Point::disturbed)) return "; hollow dots: other programs disturbed the row";
  return "";
}

/// Axes on which all lines fit.
struct Axes {
  chart::Axis time, rate;
  double low_bytes = 0, high_bytes = 0;
};

Axes axes_of(const std::vector<Line> &lines) {
  Point low = lines.front().points.front(), high = low;
  for (const Line &line : lines) {
    for (const Point &point : line.points) {
      low = {std::min(low.bytes, point.bytes), 0, std::min(low.min_us, point.min_us), 0, 0};
      high = {std::max(high.bytes, point.bytes), 0, 0, std::max(high.max_us, point.max_us),
              std::max(high.GBps, point.GBps)};
    }
  }
  return {chart::time_axis(low.min_us, high.max_us), chart::linear_axis(high.GBps), low.bytes, high.bytes};
}

double time_of(const Point &point) { return point.time_us; }
double rate_of(const Point &point) { return point.GBps; }

std::string large_panels(const std::vector<Line> &lines, const Axes &axes, const char *rate_title, bool shaded) {
  const chart::Axis left = chart::size_axis(axes.low_bytes, axes.high_bytes, chart::first_panel_left);
  const chart::Axis right = chart::size_axis(axes.low_bytes, axes.high_bytes, chart::second_panel_left);
  std::string svg = chart::draw_frame(left, axes.time, "time", "message size");
  svg += chart::draw_frame(right, axes.rate, rate_title, "message size");
  for (size_t index = 0; index < lines.size() && shaded; ++index)
    svg += draw_band(lines[index], index, left, axes.time);
  for (size_t index = 0; index < lines.size(); ++index) {
    svg += draw_line(lines[index], index, left, axes.time, time_of);
    svg += draw_line(lines[index], index, right, axes.rate, rate_of);
  }
  return svg;
}

/// Returns the index of `name` in the list, and appends it if it is new.
size_t place_in(std::vector<std::string> &list, const std::string &name) {
  const auto found = std::find(list.begin(), list.end(), name);
  if (found != list.end()) return static_cast<size_t>(found - list.begin());
  list.push_back(name);
  return list.size() - 1;
}

/// Draws a panel for each type, with a colour for each operation.
std::string small_panels(const std::vector<Line> &lines, const Axes &axes, const char *rate_title,
                         const std::string &title) {
  const chart::Axis size = chart::size_axis(axes.low_bytes, axes.high_bytes, 0);
  std::vector<chart::Section> sections{{"time", "message size", size, axes.time, {}},
                                       {rate_title, "message size", size, axes.rate, {}}};
  std::vector<std::string> types, ops;
  for (const Line &line : lines) {
    const size_t type = place_in(types, line.type), op = place_in(ops, line.op);
    for (chart::Section &section : sections)
      if (type == section.panels.size()) section.panels.push_back({line.type, {}});
    sections[0].panels[type].curves.push_back({op, points_of(line, time_of)});
    sections[1].panels[type].curves.push_back({op, points_of(line, rate_of)});
  }
  return chart::draw_small(title, "median of the runs; grey: the other types" + disturbed_note(lines), sections, ops);
}

}  // namespace

std::string to_svg(std::span<const Series> all) {
  const bool bus = all.empty() || bus_factor(all.front().what.collective, all.front().what.ranks) > 0;
  const char *const rate_title = bus ? "bus bandwidth (GB/s)" : "algorithm bandwidth (GB/s)";
  const std::vector<Line> lines = lines_of(all, bus);
  const std::string title = all.empty() ? "" : title_of(all);
  if (lines.empty())
    return chart::open_chart(0) + chart::draw_title(title, "no size above 0 bytes was measured") +
           std::string(svg::end);
  const Axes axes = axes_of(lines);
  if (lines.size() > chart::shared_line_count_max) return small_panels(lines, axes, rate_title, title);
  std::vector<std::string> names;
  for (const Line &line : lines) names.push_back(line.name);
  const bool one = all.size() == 1;
  return chart::open_chart(names.size()) +
         chart::draw_title(title, (one ? "median of the runs; the shade spans the fastest and the slowest"
                                       : "median of the runs") + disturbed_note(lines)) +
         large_panels(lines, axes, rate_title, one) + chart::draw_legend(names) + std::string(svg::end);
}

}  // namespace rondo::perf
