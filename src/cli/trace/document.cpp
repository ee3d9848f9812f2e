// SPDX-License-Identifier: Apache-2.0
// This file writes a timeline as JSON for Chrome's trace viewer and Perfetto. A process is a group of lanes, a rank in
// a communicator is a lane, and an operation is a slice. A slice contains the time in which the operation waited for
// the last rank.
#include <algorithm>
#include <unordered_map>

#include "src/base/json_line.h"
#include "src/cli/trace/timeline.h"

namespace rondo::cli {
namespace {

/// When the last rank entered an operation, and which rank that was.
struct Arrival {
  uint64_t at_ns = 0;
  uint64_t rank = 0;
};
using Arrivals = std::unordered_map<uint64_t, Arrival>;  // the key is the operation's number

/// Converts to microseconds, the unit of the format.
double microseconds(uint64_t ns) { return static_cast<double>(ns) / 1000; }

class Document {
 public:
  Document(const Timeline &timeline, const std::function<bool(std::string_view)> &sink)
      : timeline_(timeline), sink_(sink) {}

  bool print() {
    if (!sink_("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n")) return false;
    find_processes();
    find_arrivals();
    for (size_t lane = 0; lane < timeline_.lanes().size(); ++lane) name_lane(lane);
    for (size_t lane = 0; lane < timeline_.lanes().size(); ++lane)
      for (const TracedOperation &operation : timeline_.lanes()[lane].operations)
        if (!print_operation(lane, operation)) return false;
    return good_ && sink_("\n]}\n");
  }

 private:
  void event(std::initializer_list<JsonMember> members) {
    good_ = good_ && sink_((first_ ? "" : ",\n") + json_line(members));
    first_ = false;
  }

  /// Numbers the processes anew, because processes of two hosts may have the same number.
  void find_processes() {
    std::map<std::pair<std::string, uint64_t>, size_t> known;
    for (const TracedLane &lane : timeline_.lanes()) {
      const auto [found, fresh] = known.emplace(std::pair(lane.clock + lane.host, lane.process), known.size() + 1);
      process_of_.push_back(found->second);
      if (!fresh) continue;
      const auto describe = [&, pid = found->second](const char *name, const Json &args) {
        event({{"ph", "M"}, {"pid", pid}, {"name", name}, {"args", args}});
      };
      describe("process_name", json_object({{"name", lane.host + ", process " + std::to_string(lane.process)}}));
      describe("process_sort_index", json_object({{"sort_index", lane.rank}}));
    }
    process_count_ = known.size();
  }

  void find_arrivals() {
    for (const TracedLane &lane : timeline_.lanes()) {
      Arrivals &arrivals = arrivals_[lane.communicator];
      for (const TracedOperation &operation : lane.operations) {
        Arrival &arrival = arrivals[operation.number];
        if (operation.entered_ns >= arrival.at_ns) arrival = {operation.entered_ns, lane.rank};
      }
    }
  }

  /// Returns the number of a lane. No process has that number.
  size_t number_of(size_t lane) const { return process_count_ + 1 + lane; }

  void name_lane(size_t index) {
    const TracedLane &lane = timeline_.lanes()[index];
    const std::string name = "rank " + std::to_string(lane.rank) + ", communicator " + lane.communicator.substr(0, 8);
    event({{"ph", "M"},
           {"pid", process_of_[index]},
           {"tid", number_of(index)},
           {"name", "thread_name"},
           {"args", json_object({{"name", name}})}});
  }

  bool print_operation(size_t index, const TracedOperation &operation) {
    const TracedLane &lane = timeline_.lanes()[index];
    const auto slice = [&](const std::string &name, const char *category, uint64_t until_ns, const Json &args) {
      event({{"ph", "X"},
             {"name", name},
             {"cat", category},
             {"ts", microseconds(operation.entered_ns)},
             {"dur", microseconds(until_ns - operation.entered_ns)},
             {"pid", process_of_[index]},
             {"tid", number_of(index)},
             {"args", args}});
    };
    const Json number = json_object({{"operation", operation.number}});
    Json args = number;
    const TracedKind &kind = timeline_.kinds()[operation.kind];
    for (size_t each = 0; each < kind.texts.size(); ++each)
      args[TracedKind::text_names[each]] = timeline_.names()[kind.texts[each]];
    for (size_t each = 0; each < kind.numbers.size(); ++each)
      args[TracedKind::number_names[each]] = kind.numbers[each];
    slice(timeline_.names()[operation.name], "collective", operation.ended_ns, args);
    const Arrival &last = arrivals_.at(lane.communicator).at(operation.number);
    const uint64_t arrived_ns = std::min(last.at_ns, operation.ended_ns);
    if (arrived_ns > operation.entered_ns)
      slice("rank " + std::to_string(last.rank) + " is awaited", "wait", arrived_ns, number);
    return good_;
  }

  const Timeline &timeline_;
  const std::function<bool(std::string_view)> &sink_;
  std::vector<size_t> process_of_;  ///< number of the process of each lane
  size_t process_count_ = 0;
  std::map<std::string, Arrivals> arrivals_;  ///< the arrivals in each communicator
  bool first_ = true;
  bool good_ = true;
};

}  // namespace

bool print_timeline(const Timeline &timeline, const std::function<bool(std::string_view)> &sink) {
  return Document(timeline, sink).print();
}

}  // namespace rondo::cli
