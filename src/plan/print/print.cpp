// SPDX-License-Identifier: Apache-2.0
// This file prints schedules as a table and as Graphviz, and has the code that all printers share.
#include "src/plan/print/print.h"

#include <algorithm>

#include "src/base/spelling.h"
#include "src/plan/block_lanes.h"
#include "src/plan/schedule.h"
#include "src/plan/verify/parts.h"

namespace rondo {

using print_parts::Mark;

namespace print_parts {

Phase phase_of(const Step &step) {
  if ((step.flags & step_finish) != 0) return Phase::finish;
  if ((step.flags & step_recv) == 0) return (step.flags & step_send) != 0 ? Phase::send : Phase::local;
  const bool reduces = (step.flags & (step_src | step_acc)) != 0 || step.recv_link[1] != no_link;
  return reduces ? Phase::reduce : Phase::move;
}

const PhaseLook &look_of(const Step &step) { return phase_looks[static_cast<size_t>(phase_of(step))]; }

namespace {

std::string ends(const Schedule &schedule, const LinkIndex (&links)[2]) {
  std::string text = "(" + std::to_string(schedule.peers[links[0]]);
  if (links[1] != no_link) text += "," + std::to_string(schedule.peers[links[1]]);
  return text + ")";
}

/// Computes the times of the marks, in rounds, until no time changes. A schedule without a deadlock needs at most as
/// many rounds as its longest chain has steps.
void set_times(std::vector<Mark> &marks) {
  bool changed = true;
  for (size_t round = 0; changed && round <= marks.size(); ++round) {
    changed = false;
    const auto raise = [&](Mark &mark, uint32_t time) {
      if (mark.time >= time) return;
      mark.time = time;
      changed = true;
    };
    for (size_t i = 0; i < marks.size(); ++i) {
      if (i + 1 < marks.size() && marks[i + 1].rank == marks[i].rank && marks[i + 1].lane == marks[i].lane)
        raise(marks[i + 1], marks[i].time + 1);
      for (const uint32_t receiver : marks[i].messages) raise(marks[receiver], marks[i].time + 1);
    }
  }
}

}  // namespace

std::string lane_name(const ScheduleSet &set, uint32_t rank, uint32_t lane) {
  const Schedule &schedule = set.schedules[rank];
  const std::string name = "rank " + std::to_string(rank);
  if (schedule.lanes.size() == 1) return name;
  if (!exchanges_blocks(set.args.collective)) return name + (lane == 0 ? " up" : " down");
  const Step &step = schedule.lanes[lane].front();
  const bool sends = (step.flags & step_send) != 0;
  if (!sends && (step.flags & step_recv) == 0) return name + " own";
  if (schedule.lanes[lane].size() == 2) return name + " with " + std::to_string(schedule.peers[step.send_link[0]]);
  const LinkIndex link = (sends ? step.send_link : step.recv_link)[0];
  return name + (sends ? " to " : " from ") + std::to_string(schedule.peers[link]);
}

std::string words(const Schedule &schedule, const Step &step) {
  std::string text;
  const auto add = [&](const std::string &word) { text += (text.empty() ? "" : " ") + word; };
  if (step.flags & step_acc) add("acc");
  if (step.flags & step_src) add("src");
  if (step.flags & step_recv) add("recv" + ends(schedule, step.recv_link));
  if (step.flags & step_finish) add("finish");
  if (step.flags & step_dst) add("dst");
  if (step.flags & step_send) add("send" + ends(schedule, step.send_link));
  return text;
}

std::vector<Mark> lay_out(const ScheduleSet &set) {
  VerifyArgs args;
  args.schedules = set.schedules;
  verify_parts::Graph graph;
  if (verify_parts::resolve_links(args, graph)) return {};
  std::vector<Mark> marks;
  for (const verify_parts::Node &node : graph.nodes) {
    Mark mark{node.rank, graph.lanes[node.lane].index, node.step, 0, {}};
    for (const uint32_t sink : node.sink)
      if (sink != verify_parts::none) mark.messages.push_back(sink);
    marks.push_back(std::move(mark));
  }
  set_times(marks);
  return marks;
}

Result<void> check_drawable(const ScheduleSet &set) {
  if (set.schedules.size() <= drawing_rank_count_max) return {};
  return invalid_argument("a drawing has at most " + std::to_string(drawing_rank_count_max) + " ranks, not " +
                          std::to_string(set.schedules.size()) + "; print it as text or JSON");
}

std::string title(const ScheduleSet &set) {
  const ScheduleArgs &args = set.args;
  std::string text = std::string(rondo_algorithm_string(set.algorithm)) + " " +
                     rondo_collective_string(args.collective) + ", " + counted(args.rank_count, "rank");
  if (has_root(args.collective)) text += ", root " + std::to_string(args.root);
  text += ", channel " + std::to_string(args.channel) + (args.in_place ? ", in place" : ", out of place");
  return text;
}

}  // namespace print_parts

Result<ScheduleSet> build_schedules(rondo_algorithm_t algorithm, ScheduleArgs args) {
  ScheduleSet set{algorithm, args, {}};
  for (args.rank = 0; args.rank < std::max(args.rank_count, 1u); ++args.rank) {
    RONDO_TRY_ASSIGN(auto schedule, build_schedule(algorithm, args));
    set.schedules.push_back(std::move(schedule));
  }
  return set;
}

std::string schedule_text(const ScheduleSet &set) {
  const uint32_t chunk_count = set.schedules[0].chunk_count;
  std::string text = print_parts::title(set) + "; " + counted(chunk_count, "chunk") + " a tile\n";
  text += "A step reduces what it reads: acc (the receive buffer), src (the send buffer), recv(R) (a slot of R).\n"
          "It writes dst (the receive buffer) and send(R) (a slot to R). finish: the reduction is complete.\n";
  if (trades_blocks(traits_of(set.args.collective)))
    text += "Chunk D is the block for the D-th rank after its sender.\n";
  for (size_t rank = 0; rank < set.schedules.size(); ++rank) {
    const Schedule &schedule = set.schedules[rank];
    for (size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
      text += "rank " + std::to_string(rank);
      if (schedule.lanes.size() > 1) text += ", lane " + std::to_string(lane);
      text += schedule.lanes[lane].empty() ? ": nothing\n" : "\n";
      for (size_t index = 0; index < schedule.lanes[lane].size(); ++index) {
        const Step &step = schedule.lanes[lane][index];
        std::string line = "  " + std::to_string(index);
        line.resize(std::max<size_t>(line.size() + 1, 7), ' ');
        line += "chunk " + std::to_string(step.chunk);
        line.resize(std::max<size_t>(line.size() + 2, 19), ' ');
        line += print_parts::words(schedule, step);
        line.resize(std::max<size_t>(line.size() + 2, 56), ' ');
        text += line + print_parts::look_of(step).name + "\n";
      }
    }
  }
  return text;
}

Result<std::string> schedule_dot(const ScheduleSet &set) {
  RONDO_TRY(print_parts::check_drawable(set));
  const auto name = [](const Mark &mark) {
    return "r" + std::to_string(mark.rank) + "_" + std::to_string(mark.lane) + "_" + std::to_string(mark.step);
  };
  const std::vector<Mark> marks = print_parts::lay_out(set);
  std::string text = "digraph schedule {\n  label=\"" + print_parts::title(set) +
                     "\";\n  node [shape=box, style=filled, fontname=\"sans-serif\", fontsize=10];\n";
  for (const Mark &mark : marks) {
    const Schedule &schedule = set.schedules[mark.rank];
    const Step &step = schedule.lanes[mark.lane][mark.step];
    if (mark.step == 0) text += "  // rank " + std::to_string(mark.rank) + ", lane " + std::to_string(mark.lane) + "\n";
    text += "  " + name(mark) + " [label=\"rank " + std::to_string(mark.rank) + "\\nchunk " +
            std::to_string(step.chunk) + "\\n" + print_parts::words(schedule, step) + "\", fillcolor=\"" +
            print_parts::look_of(step).fill + "\"];\n";
    if (mark.step > 0) {
      Mark before = mark;
      --before.step;
      text += "  " + name(before) + " -> " + name(mark) + " [style=dotted, weight=10];\n";
    }
    for (const uint32_t receiver : mark.messages)
      text += "  " + name(mark) + " -> " + name(marks[receiver]) + " [label=\"" + std::to_string(step.chunk) + "\"];\n";
  }
  return text + "}\n";
}

}  // namespace rondo
