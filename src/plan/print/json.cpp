// SPDX-License-Identifier: Apache-2.0
// This file prints schedules as JSON:
// `{algorithm, collective, ..., schedules: [{rank, chunk_count, lanes: [[{chunk, ...}]]}]}`.
#include <nlohmann/json.hpp>

#include "src/plan/print/print.h"

namespace rondo {
namespace {

using nlohmann::ordered_json;

ordered_json peers_of(const Schedule &schedule, const LinkIndex (&links)[2]) {
  ordered_json ranks = ordered_json::array();
  for (const LinkIndex link : links)
    if (link != no_link) ranks.push_back(schedule.peers[link]);
  return ranks;
}

ordered_json step_json(const Schedule &schedule, const Step &step) {
  ordered_json flags = ordered_json::array();
  const std::pair<StepFlag, const char *> names[] = {{step_acc, "acc"},       {step_src, "src"}, {step_recv, "recv"},
                                                     {step_finish, "finish"}, {step_dst, "dst"}, {step_send, "send"}};
  for (const auto &[flag, name] : names)
    if ((step.flags & flag) != 0) flags.push_back(name);
  ordered_json json = {{"chunk", step.chunk}, {"flags", flags}};
  if (step.flags & step_recv) json["recv"] = peers_of(schedule, step.recv_link);
  if (step.flags & step_send) json["send"] = peers_of(schedule, step.send_link);
  for (MeanShifts left = step.mean_shifts; left != 0; left >>= 8) json["mean_shifts"].push_back(left & 0xFF);
  json["phase"] = print_parts::look_of(step).name;
  return json;
}

}  // namespace

std::string schedule_json(const ScheduleSet &set) {
  ordered_json document = {{"algorithm", rondo_algorithm_string(set.algorithm)},
                           {"collective", rondo_collective_string(set.args.collective)},
                           {"ranks", set.args.rank_count},
                           {"root", set.args.root},
                           {"channel", set.args.channel},
                           {"in_place", set.args.in_place},
                           {"chunks", set.schedules[0].chunk_count},
                           {"schedules", ordered_json::array()}};
  for (size_t rank = 0; rank < set.schedules.size(); ++rank) {
    ordered_json lanes = ordered_json::array();
    for (const Lane &lane : set.schedules[rank].lanes) {
      ordered_json steps = ordered_json::array();
      for (const Step &step : lane) steps.push_back(step_json(set.schedules[rank], step));
      lanes.push_back(std::move(steps));
    }
    document["schedules"].push_back({{"rank", rank}, {"lanes", std::move(lanes)}});
  }
  return document.dump(2, ' ', true, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rondo
