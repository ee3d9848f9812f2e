// SPDX-License-Identifier: Apache-2.0
// These tests cover printed schedules. The JSON has the whole schedule, and drawings have a box per step and an arrow
// per message.
#include <algorithm>
#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "src/plan/print/print.h"
#include "src/plan/schedule.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

/// Reads a step back from its JSON. Finds its links in `schedule`.
Step read_step(const nlohmann::json &json, const Schedule &schedule) {
  const std::map<std::string, StepFlag> flags = {{"acc", step_acc},       {"src", step_src}, {"recv", step_recv},
                                                 {"finish", step_finish}, {"dst", step_dst}, {"send", step_send}};
  const auto link = [&](uint32_t peer) {
    const auto found = std::find(schedule.peers.begin(), schedule.peers.end(), peer);
    return static_cast<LinkIndex>(found - schedule.peers.begin());
  };
  Step step;
  step.chunk = json.at("chunk").get<uint16_t>();
  for (const auto &flag : json.at("flags")) step.flags = static_cast<uint8_t>(step.flags | flags.at(flag));
  for (size_t i = 0; json.contains("recv") && i < json["recv"].size(); ++i) step.recv_link[i] = link(json["recv"][i]);
  for (size_t i = 0; json.contains("send") && i < json["send"].size(); ++i) step.send_link[i] = link(json["send"][i]);
  for (size_t i = 0; json.contains("mean_shifts") && i < json["mean_shifts"].size(); ++i)
    step.mean_shifts |= json["mean_shifts"][i].get<uint32_t>() << (8 * i);
  return step;
}

size_t occurrences(const std::string &text, const std::string &what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("printing: the JSON of every algorithm reads back as the schedules, and drawings show every step") {
  for (const Algorithm &algorithm : algorithms()) {
    ScheduleArgs args;
    args.rank_count = 6;
    args.in_place = true;
    const ScheduleSet set = build_schedules(algorithm.id, args).value();
    const auto json = nlohmann::json::parse(schedule_json(set), nullptr, false);
    REQUIRE(json.is_object());
    size_t step_count = 0, message_count = 0;
    for (size_t rank = 0; rank < 6; ++rank) {
      const Schedule &schedule = set.schedules[rank];
      const auto &lanes = json["schedules"][rank]["lanes"];
      REQUIRE(lanes.size() == schedule.lanes.size());
      for (size_t lane = 0; lane < lanes.size(); ++lane) {
        REQUIRE(lanes[lane].size() == schedule.lanes[lane].size());
        for (size_t index = 0; index < lanes[lane].size(); ++index) {
          const Step &step = schedule.lanes[lane][index];
          CHECK(read_step(lanes[lane][index], schedule) == step);
          ++step_count;
          if (step.flags & step_send) message_count += step.send_link[1] == no_link ? 1 : 2;
        }
      }
    }
    const std::string svg = schedule_svg(set).value(), dot = schedule_dot(set).value();
    CHECK(occurrences(svg, "<g><title>") == step_count);
    CHECK(occurrences(svg, "marker-end") == message_count);
    CHECK(occurrences(dot, "fillcolor") == step_count);
    CHECK(occurrences(dot, " -> ") - occurrences(dot, "style=dotted") == message_count);
    CHECK(occurrences(schedule_text(set), "chunk ") >= step_count);
  }
}

TEST_CASE("printing: drawings stop at 64 ranks and say so") {
  ScheduleArgs args;
  args.rank_count = 64;
  CHECK(schedule_svg(build_schedules(RONDO_ALGORITHM_TREE, args).value()).ok());
  args.rank_count = 65;
  const ScheduleSet set = build_schedules(RONDO_ALGORITHM_TREE, args).value();
  CHECK(schedule_svg(set).error().message ==
        "a drawing has at most 64 ranks, not 65; print it as text or JSON");
  CHECK_FALSE(schedule_dot(set).ok());
}
