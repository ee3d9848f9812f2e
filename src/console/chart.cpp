// SPDX-License-Identifier: Apache-2.0
#include "src/console/chart.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "src/base/spelling.h"
#include "src/console/svg.h"

namespace rondo::chart {
namespace {

constexpr double picture_width = 1040;
constexpr int legend_columns = 4;
constexpr double legend_column_width = 230, legend_row_height = 18;
constexpr double legend_top = panel_top + panel_height + 72;

constexpr int small_columns = 4;
constexpr double small_width = 190, small_height = 110, small_column_width = 238, small_row_height = 172;
constexpr double small_left = 66, section_head = 48;
constexpr size_t small_tick_count_max = 4;

/// Returns the dashes of a line whose number exceeds the number of colours.
const char *dash(size_t line) { return line < 10 ? "" : " stroke-dasharray=\"5 3\""; }

std::string three_digits(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", value);
  return text.data();
}

constexpr const char *style =
    "<style>text{font:12px sans-serif;fill:#333}.title{font-size:18px;font-weight:bold}.panel{font-size:14px;"
    "font-weight:bold}.small{font-size:10px}.grid{stroke:#e3e3e3}.axis{stroke:#555}.note{fill:#777}</style>\n";

std::string begin(double height) { return svg::begin(picture_width, height) + style; }

std::string draw_names(std::span<const std::string> names, double top) {
  std::string text;
  for (size_t index = 0; index < names.size(); ++index) {
    const double x = first_panel_left + static_cast<double>(index % legend_columns) * legend_column_width;
    const double y = top + static_cast<double>(index / legend_columns) * legend_row_height;
    text += svg::line(x, y - 4, x + 22, y - 4,
                      "stroke=\"" + std::string(colour(index)) + "\" stroke-width=\"3\"" + dash(index));
    text += svg::text(x + 30, y, names[index]);
  }
  return text;
}

double legend_height(size_t count) {
  return static_cast<double>(std::max<size_t>(1, (count + legend_columns - 1) / legend_columns)) * legend_row_height;
}

std::string places(std::span<const Point> points, const Axis &x, const Axis &y) {
  std::string list;
  for (const Point &point : points)
    list += (list.empty() ? "" : " ") + svg::number(x.place(point.x)) + "," + svg::number(y.place(point.y));
  return list;
}

/// Places an axis between `from` and `to`, with as many ticks as a small panel has room for.
Axis placed(Axis axis, double from, double to) {
  axis.from = from;
  axis.to = to;
  const size_t every = (axis.ticks.size() + small_tick_count_max - 1) / small_tick_count_max;
  std::vector<Tick> ticks;
  for (size_t index = 0; index < axis.ticks.size(); index += std::max<size_t>(every, 1))
    ticks.push_back(axis.ticks[index]);
  axis.ticks = std::move(ticks);
  return axis;
}

std::string draw_dot(const Point &point, const std::string &ink, const Axis &x, const Axis &y) {
  return svg::circle(x.place(point.x), y.place(point.y), 3,
                     point.is_hollow ? "fill=\"#fff\" stroke=\"" + ink + "\"" : "fill=\"" + ink + "\"");
}

std::string draw_small_frame(const Axis &x, const Axis &y, const std::string &title) {
  std::string text = svg::text(x.from, y.to - 6, title, "class=\"panel\"");
  for (const Tick &tick : y.ticks) {
    text += svg::line(x.from, y.place(tick.value), x.to, y.place(tick.value), "class=\"grid\"");
    text += svg::text(x.from - 5, y.place(tick.value) + 3, tick.label, "text-anchor=\"end\" class=\"small\"");
  }
  for (const Tick &tick : x.ticks)
    text += svg::text(x.place(tick.value), y.from + 13, tick.label, "text-anchor=\"middle\" class=\"small\"");
  return text + svg::line(x.from, y.from, x.to, y.from, "class=\"axis\"") +
         svg::line(x.from, y.from, x.from, y.to, "class=\"axis\"");
}

std::string draw_section(const Section &section, double top) {
  std::string text = svg::text(first_panel_left, top + 18, section.title + " by " + section.below, "class=\"title\"");
  for (size_t index = 0; index < section.panels.size(); ++index) {
    const double left = small_left + static_cast<double>(index % small_columns) * small_column_width;
    const double above = top + section_head + static_cast<double>(index / small_columns) * small_row_height;
    const Axis x = placed(section.x, left, left + small_width);
    const Axis y = placed(section.y, above + small_height, above);
    text += draw_small_frame(x, y, section.panels[index].title);
    for (size_t other = 0; other < section.panels.size(); ++other)
      for (const Curve &curve : section.panels[other].curves)
        if (other != index)
          text += svg::polyline(places(curve.points, x, y), "fill=\"none\" stroke=\"#ddd\"");
    for (const Curve &curve : section.panels[index].curves) {
      const std::string ink = colour(curve.number);
      text += svg::polyline(places(curve.points, x, y),
                            "fill=\"none\" stroke=\"" + ink + "\" stroke-width=\"2\"" + dash(curve.number));
      for (const Point &point : curve.points)
        if (point.is_hollow) text += draw_dot(point, ink, x, y);
    }
  }
  return text;
}

double section_height(const Section &section) {
  const size_t rows = (section.panels.size() + small_columns - 1) / small_columns;
  return section_head + static_cast<double>(rows) * small_row_height;
}

}  // namespace

const char *colour(size_t line) {
  static constexpr std::array colours{"#1f6fb4", "#e0702c", "#2c9a4b", "#b3399a", "#7a5c3d", "#d62f4b", "#5b57c8",
                                      "#1a9ba8", "#8a8d1e", "#4d4d4d"};
  return colours[line % colours.size()];
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

Axis size_axis(double low, double high, double left) { return power_axis(low, high, left, show_bytes_near); }

Axis time_axis(double low_us, double high_us) {
  const int first = static_cast<int>(std::floor(std::log10(low_us)));
  const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(high_us))));
  Axis axis{.logarithmic = true, .low = std::pow(10, first), .high = std::pow(10, last),
            .from = panel_top + panel_height, .to = panel_top, .ticks = {}};
  for (int power = first; power <= last; ++power)
    axis.ticks.push_back({std::pow(10, power), show_duration(std::pow(10, power))});
  return axis;
}

Axis linear_axis(double high) {
  constexpr int ticks_about = 5;
  if (high <= 0) high = 1;
  const double rough = high / ticks_about, decade = std::pow(10, std::floor(std::log10(rough)));
  const double lead = rough / decade;
  const double step = decade * (lead <= 1 ? 1 : lead <= 2 ? 2 : lead <= 5 ? 5 : 10);
  const int count = static_cast<int>(std::ceil(high / step));
  Axis axis{.low = 0, .high = step * count, .from = panel_top + panel_height, .to = panel_top, .ticks = {}};
  for (int tick = 0; tick <= count; ++tick) axis.ticks.push_back({step * tick, three_digits(step * tick)});
  return axis;
}

std::string draw_title(const std::string &title, const std::string &note) {
  std::string text = svg::text(first_panel_left, 40, title, "class=\"title\"");
  return note.empty() ? text : text + svg::text(first_panel_left, 62, note, "class=\"note\"");
}

std::string draw_frame(const Axis &x, const Axis &y, const std::string &title,
                       const std::string &below) {
  std::string text = svg::text(x.from, panel_top - 12, title, "class=\"panel\"");
  for (const Tick &tick : y.ticks) {
    const double at = y.place(tick.value);
    text += svg::line(x.from, at, x.to, at, "class=\"grid\"");
    text += svg::text(x.from - 8, at + 4, tick.label, "text-anchor=\"end\"");
  }
  for (const Tick &tick : x.ticks) {
    const double at = x.place(tick.value);
    text += svg::line(at, y.to, at, y.from, "class=\"grid\"");
    text += svg::text(at, y.from + 18, tick.label, "text-anchor=\"middle\"");
  }
  text += svg::line(x.from, y.from, x.to, y.from, "class=\"axis\"");
  text += svg::line(x.from, y.from, x.from, y.to, "class=\"axis\"");
  return text + svg::text((x.from + x.to) / 2, y.from + 40, below, "text-anchor=\"middle\"");
}

std::string draw_points(std::span<const Point> points, size_t line, const Axis &x, const Axis &y) {
  const std::string ink = colour(line);
  std::string dots;
  for (const Point &point : points) dots += draw_dot(point, ink, x, y);
  return svg::polyline(places(points, x, y), "fill=\"none\" stroke=\"" + ink + "\" stroke-width=\"2\"" + dash(line)) +
         dots;
}

std::string open_chart(size_t line_count) { return begin(legend_top + legend_height(line_count) + 8); }

std::string draw_legend(std::span<const std::string> names) { return draw_names(names, legend_top); }

std::string draw_small(const std::string &title, const std::string &note, std::span<const Section> sections,
                       std::span<const std::string> names) {
  constexpr double head = 84;
  double height = head + legend_height(names.size());
  for (const Section &section : sections) height += section_height(section);
  std::string text = begin(height) + draw_title(title, note) + draw_names(names, head);
  double top = head + legend_height(names.size());
  for (const Section &section : sections) {
    text += draw_section(section, top);
    top += section_height(section);
  }
  return text + std::string(svg::end);
}

}  // namespace rondo::chart
