// SPDX-License-Identifier: Apache-2.0
// This file draws a schedule in space and time. A rank (and lane) is a column, time goes down, a step is a box, and a
// message is an arrow.
#include <algorithm>
#include <string>

#include "src/console/svg.h"
#include "src/plan/print/print.h"

namespace rondo {
namespace {

using print_parts::Mark;

constexpr int column_width = 116, row_height = 58, box_width = 98, box_height = 30;
constexpr int left = 52, top = 108, legend_y = 52, legend_width = 250;

class Drawing {
 public:
  explicit Drawing(const ScheduleSet &set) : set_(set), marks_(print_parts::lay_out(set)) {
    for (const Schedule &schedule : set.schedules) {
      first_column_.push_back(column_count_);
      column_count_ += static_cast<int>(schedule.lanes.size());
    }
    for (const Mark &mark : marks_) row_count_ = std::max(row_count_, static_cast<int>(mark.time) + 1);
    // The picture is as wide as its columns, but at least so wide that a row of the legend has two entries.
    width_ = std::max(left + column_count_ * column_width + 12, 2 * legend_width + 40);
    legend_columns_ = (width_ - 40) / legend_width;
    const int count = static_cast<int>(print_parts::phase_looks.size());
    legend_rows_ = (count + legend_columns_ - 1) / legend_columns_;
  }

  [[nodiscard]] std::string draw() {
    const int height = y_of(row_count_) + 10;
    open(height);
    add_legend();
    add_columns(height);
    for (const Mark &mark : marks_) add_messages(mark);
    for (const Mark &mark : marks_) add_box(mark);
    return text_ + std::string(svg::end);
  }

 private:
  [[nodiscard]] int x_of(uint32_t rank, uint32_t lane) const {
    return left + (first_column_[rank] + static_cast<int>(lane)) * column_width + column_width / 2;
  }
  [[nodiscard]] int y_of(int row) const { return top + legend_rows_ * 22 + row * row_height; }
  [[nodiscard]] const Step &step_of(const Mark &mark) const {
    return set_.schedules[mark.rank].lanes[mark.lane][mark.step];
  }
  void add_text(int x, int y, const std::string &content, const char *style) {
    text_ += svg::text(x, y, content, style);
  }

  void open(int height) {
    text_ = svg::begin(width_, height, "font-family=\"sans-serif\" font-size=\"11\"") +
            "<defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" "
            "orient=\"auto\"><path d=\"M0 0L8 4L0 8z\" fill=\"#444\"/></marker></defs>\n";
    add_text(20, 28, print_parts::title(set_), "font-size=\"16\" font-weight=\"bold\"");
  }

  void add_legend() {
    for (int i = 0; i < static_cast<int>(print_parts::phase_looks.size()); ++i) {
      const auto &look = print_parts::phase_looks[static_cast<size_t>(i)];
      const int x = 20 + i % legend_columns_ * legend_width, y = legend_y + i / legend_columns_ * 22;
      text_ += svg::rectangle(x, y, 16, 14, "stroke=\"#555\" fill=\"" + std::string(look.fill) + "\"");
      add_text(x + 22, y + 11, look.meaning, "");
    }
    add_text(20, legend_y + legend_rows_ * 22 + 12,
             "box: chunk and flags of a step; arrow: a message; dashed arrow: to itself; time runs downwards",
             "fill=\"#555\"");
  }

  void add_columns(int height) {
    for (uint32_t rank = 0; rank < set_.schedules.size(); ++rank)
      for (uint32_t lane = 0; lane < set_.schedules[rank].lanes.size(); ++lane) {
        const int x = x_of(rank, lane);
        add_text(x, y_of(0) - 14, print_parts::lane_name(set_, rank, lane),
                 "text-anchor=\"middle\" font-weight=\"bold\"");
        text_ += svg::line(x, y_of(0) - 8, x, height - 8, "stroke=\"#ccc\"");
      }
    for (int row = 0; row < row_count_; ++row)
      add_text(14, y_of(row) + box_height / 2 + 4, std::to_string(row), "fill=\"#888\"");
  }

  void add_messages(const Mark &mark) {
    for (const uint32_t index : mark.messages) {
      const Mark &to = marks_[index];
      const int x = x_of(mark.rank, mark.lane), y = y_of(static_cast<int>(mark.time)) + box_height;
      const int to_x = x_of(to.rank, to.lane), to_y = y_of(static_cast<int>(to.time));
      const bool loop_back = to.rank == mark.rank;
      const auto place = [](int at_x, int at_y) { return std::to_string(at_x) + " " + std::to_string(at_y); };
      std::string way = "M" + place(x, y);
      if (loop_back)  // drawn beside the column
        way += "C" + place(x + 62, y) + " " + place(x + 62, to_y) + " " + place(to_x, to_y);
      else
        way += "L" + place(to_x, to_y);
      text_ += svg::path(way, std::string("fill=\"none\" stroke=\"#444\" stroke-opacity=\"0.75\" "
                                          "marker-end=\"url(#tip)\"") +
                                  (loop_back ? " stroke-dasharray=\"4 3\"" : ""));
    }
  }

  void add_box(const Mark &mark) {
    const Step &step = step_of(mark);
    const int x = x_of(mark.rank, mark.lane), y = y_of(static_cast<int>(mark.time));
    text_ += "<g><title>rank " + std::to_string(mark.rank) + ", step " + std::to_string(mark.step) + ": " +
             print_parts::words(set_.schedules[mark.rank], step) + "</title>" +
             svg::rectangle(x - box_width / 2, y, box_width, box_height,
                            "rx=\"4\" stroke=\"#555\" fill=\"" + std::string(print_parts::look_of(step).fill) + "\"");
    add_text(x, y + 12, "chunk " + std::to_string(step.chunk), "text-anchor=\"middle\"");
    add_text(x, y + 25, flag_words(step), "text-anchor=\"middle\" font-size=\"9\" fill=\"#333\"");
    text_ += "</g>\n";
  }

  /// Returns short words for the box of a step: the operands, then the destinations.
  [[nodiscard]] static std::string flag_words(const Step &step) {
    std::string words;
    const auto add = [&](const char *word) { words += (words.empty() ? "" : "+") + std::string(word); };
    if (step.flags & step_acc) add("acc");
    if (step.flags & step_src) add("src");
    if (step.flags & step_recv) add(step.recv_link[1] != no_link ? "2 recv" : "recv");
    words += " \xE2\x86\x92 ";  // an arrow
    if (step.flags & step_dst) words += (step.flags & step_send) != 0 ? "dst, " : "dst";
    if (step.flags & step_send) words += step.send_link[1] != no_link ? "2 send" : "send";
    return words;
  }

  const ScheduleSet &set_;
  std::vector<Mark> marks_;
  std::vector<int> first_column_;
  int column_count_ = 0, row_count_ = 0, width_ = 0, legend_columns_ = 1, legend_rows_ = 1;
  std::string text_;
};

}  // namespace

Result<std::string> schedule_svg(const ScheduleSet &set) {
  RONDO_TRY(print_parts::check_drawable(set));
  return Drawing(set).draw();
}

}  // namespace rondo
