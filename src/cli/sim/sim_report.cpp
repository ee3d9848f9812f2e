// SPDX-License-Identifier: Apache-2.0
// Prints the results of `rondo sim` as text, JSON and a picture.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "src/base/spelling.h"
#include "src/cli/sim/sim.h"
#include "src/console/chart.h"
#include "src/console/svg.h"

namespace rondo::cli {
namespace {

using Json = nlohmann::ordered_json;

double time_us(const sim::SimResult &result) {
  return static_cast<double>(result.outcome.time_ps) / sim::ps_per_us;
}

std::string digits(double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.3f", value);
  return text.data();
}

std::string case_name(const sim::SimCase &what) {
  const uint64_t ranks = what.network.rank_count(), nodes = what.network.nodes.size();
  return counted(ranks, "rank") + " on " + counted(nodes, "node");
}

std::string how(const sim::SimCase &what, const sim::SimResult &result) {
  const uint64_t ranks = what.network.rank_count();
  std::string text = result.representatives == ranks
                         ? "every rank"
                         : counted(result.representatives, "rank") + ", and the others behave as they do";
  text += ", " + counted(result.outcome.move_count, "slice") + " of steps";
  const uint64_t skipped = result.outcome.skipped_tile_count;
  if (skipped != 0) text += ", without " + counted(skipped, "tile") + " that ";
  if (skipped != 0) text += result.exact ? "repeat" : "were extrapolated from those before (an estimate)";
  return text;
}

std::string crossings_text(const SimComparison &comparison) {
  std::string text;
  const std::vector<Crossing> crossings = find_crossings(comparison);
  for (size_t index = 0; index < crossings.size(); ++index) {
    const std::string name = rondo_algorithm_string(crossings[index].algorithm);
    const bool last = index + 1 == crossings.size();
    text += index == 0 ? "fastest    " : "           ";
    text += name + (last ? (index == 0 ? " at every size" : " beyond")
                         : " up to about " + show_bytes_near(crossings[index + 1].from_bytes)) + "\n";
  }
  for (size_t index = 0; index < comparison.left_out.size(); ++index)
    text += std::string(index == 0 ? "left out   " : "           ") + comparison.left_out[index] + "\n";
  return text;
}

Json lines_json(const SimComparison &comparison, const char *x) {
  Json lines = Json::object();
  for (const SimLine &line : comparison.lines) {
    Json points = Json::array();
    for (const SimPoint &point : line.points)
      points.push_back({{x, static_cast<uint64_t>(point.x)}, {"time_us", point.time_us}});
    lines[rondo_algorithm_string(line.algorithm)] = points;
  }
  return lines;
}

std::string rank_label(double ranks) { return svg::number(ranks); }

std::string draw_panel(const SimComparison &comparison, const chart::Axis &x, const chart::Axis &y,
                       const std::vector<rondo_algorithm_t> &order) {
  std::string svg;
  for (const SimLine &line : comparison.lines) {
    std::vector<chart::Point> points;
    for (const SimPoint &point : line.points) points.push_back({point.x, point.time_us});
    const auto index = std::find(order.begin(), order.end(), line.algorithm) - order.begin();
    svg += chart::draw_points(points, static_cast<size_t>(index), x, y);
  }
  return svg;
}

}  // namespace

std::string sim_text(const sim::SimCase &what, const sim::SimResult &result, const SimComparison &comparison) {
  const PlanChoice &plan = result.plan;
  const double bandwidth = static_cast<double>(what.bytes) / std::max(time_us(result), 1e-6) / 1e3;
  const bool ll = plan.protocol == RONDO_PROTOCOL_LL;
  std::string text = std::string(rondo_algorithm_string(plan.algorithm)) + " " +
                     rondo_collective_string(what.collective) + ", " + case_name(what) + ", " + show_bytes(what.bytes) +
                     " bytes\n";
  const bool by_slots = plan.kernel != RONDO_KERNEL_LOAD_STORE;
  text += "plan       " + std::string(plan.way()) + ", " + counted(plan.channels, "channel") + ", chunks of " +
          show_bytes(plan.chunk_bytes);
  if (by_slots)
    text += ", " + std::to_string(what.network.slot_count) + " slots of " +
            show_bytes(ll ? what.network.ll_slot_bytes : what.network.slot_bytes);
  text += "\n";
  text += "time       " + digits(time_us(result)) + " us, algbw " + digits(bandwidth) + " GB/s\n";
  text += "steps      " + std::to_string(result.outcome.step_count) +
          (by_slots ? " in the longest chain of a tile\n" : " of a rank\n");
  for (size_t link = 0; link < sim::link_class_count; ++link) {
    const uint64_t bytes = result.outcome.link_bytes[link];
    if (bytes == 0) continue;
    std::string name = sim::link_class_string(static_cast<sim::LinkClass>(link));
    name.resize(11, ' ');
    text += name + show_volume(static_cast<double>(bytes)) + " over links, " +
            show_volume(static_cast<double>(bytes) / static_cast<double>(what.network.rank_count())) + " a rank\n";
  }
  return text + "simulated  " + how(what, result) + "\n" + crossings_text(comparison);
}

std::string sim_json(const sim::SimCase &what, const sim::SimResult &result, const SimComparison &comparison) {
  Json bytes = Json::object();
  for (size_t link = 0; link < sim::link_class_count; ++link)
    bytes[sim::link_class_string(static_cast<sim::LinkClass>(link))] = result.outcome.link_bytes[link];
  Json crossings = Json::array();
  for (const Crossing &crossing : find_crossings(comparison))
    crossings.push_back({{"from_bytes", static_cast<uint64_t>(crossing.from_bytes)},
                         {"algorithm", rondo_algorithm_string(crossing.algorithm)}});
  const Json document{{"ranks", what.network.rank_count()},
                      {"algorithm", rondo_algorithm_string(result.plan.algorithm)},
                      {"bytes", what.bytes},
                      {"time_us", time_us(result)},
                      {"steps", result.outcome.step_count},
                      {"bytes_per_link", bytes},
                      {"collective", rondo_collective_string(what.collective)},
                      {"protocol", rondo_protocol_string(result.plan.protocol)},
                      {"kernel", rondo_kernel_string(result.plan.kernel)},
                      {"channels", result.plan.channels},
                      {"chunk_bytes", result.plan.chunk_bytes},
                      {"exact", result.exact},
                      {"simulated_ranks", result.representatives},
                      {"fastest", crossings},
                      {"by_size", lines_json(comparison, "bytes")},
                      {"left_out", comparison.left_out}};
  return document.dump(2) + "\n";
}

std::string sim_svg(const sim::SimCase &what, const SimComparison &by_size, const SimComparison &by_ranks) {
  std::vector<rondo_algorithm_t> order;
  std::vector<std::string> names;
  double low_us = INFINITY, high_us = 0, low_bytes = INFINITY, high_bytes = 0, high_ranks = 4;
  for (const SimComparison *comparison : {&by_size, &by_ranks})
    for (const SimLine &line : comparison->lines) {
      if (std::find(order.begin(), order.end(), line.algorithm) == order.end()) {
        order.push_back(line.algorithm);
        names.emplace_back(rondo_algorithm_string(line.algorithm));
      }
      for (const SimPoint &point : line.points) {
        low_us = std::min(low_us, point.time_us), high_us = std::max(high_us, point.time_us);
        if (comparison == &by_ranks) high_ranks = std::max(high_ranks, point.x);
        if (comparison == &by_size) low_bytes = std::min(low_bytes, point.x);
        if (comparison == &by_size) high_bytes = std::max(high_bytes, point.x);
      }
    }
  const bool empty = by_size.lines.empty() || by_ranks.lines.empty();
  std::string svg = chart::open_chart(names.size());
  svg += chart::draw_title(std::string(rondo_collective_string(what.collective)) + ", simulated",
                           empty ? "nothing could be simulated" : "");
  if (empty) return svg + std::string(svg::end);
  const chart::Axis time = chart::time_axis(low_us, high_us);
  const chart::Axis left = chart::size_axis(low_bytes, high_bytes, chart::first_panel_left);
  const chart::Axis right = chart::power_axis(2, high_ranks, chart::second_panel_left, rank_label);
  svg += chart::draw_frame(left, time, "time, " + case_name(what), "message size");
  svg += chart::draw_frame(right, time, "time, " + show_bytes(what.bytes), "ranks");
  svg += draw_panel(by_size, left, time, order) + draw_panel(by_ranks, right, time, order);
  return svg + chart::draw_legend(names) + std::string(svg::end);
}

}  // namespace rondo::cli
