// SPDX-License-Identifier: Apache-2.0
// A timeline as JSON for Chrome's trace viewer and Perfetto. A process is a group of lanes, a rank in a communicator a
// lane; an operation is a slice, and in it lies the time in which it waited for the last rank to come.
#include <algorithm>
#include <array>
#include <cstdio>
#include <unordered_map>

#include "src/cli/trace/timeline.h"

namespace rondo::cli {
namespace {

/// When the last rank entered an operation, and which that was.
struct Arrival {
  uint64_t at_ns = 0;
  uint64_t rank = 0;
};
using Arrivals = std::unordered_map<uint64_t, Arrival>;  // by operation

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') out += '\\';
    out += character;  // printable already
  }
  return out + "\"";
}

/// The format counts in microseconds.
std::string microseconds(uint64_t ns) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%llu.%03llu", static_cast<unsigned long long>(ns / 1000),
                static_cast<unsigned long long>(ns % 1000));
  return text.data();
}

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
  void event(const std::string &members) {
    good_ = good_ && sink_((first_ ? "{" : ",\n{") + members + "}");
    first_ = false;
  }

  /// Numbers of processes mean nothing across hosts: those of the document are its own.
  void find_processes() {
    std::map<std::pair<std::string, uint64_t>, size_t> known;
    for (const TracedLane &lane : timeline_.lanes()) {
      const auto [found, fresh] = known.emplace(std::pair(lane.clock + lane.host, lane.process), known.size() + 1);
      process_of_.push_back(found->second);
      if (!fresh) continue;
      const std::string pid = "\"ph\":\"M\",\"pid\":" + std::to_string(found->second);
      event(pid + ",\"name\":\"process_name\",\"args\":{\"name\":" +
            quoted(lane.host + ", process " + std::to_string(lane.process)) + "}");
      event(pid + ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":" + std::to_string(lane.rank) + "}");
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

  /// A lane's number is no process's.
  std::string place(size_t lane) const {
    return "\"pid\":" + std::to_string(process_of_[lane]) + ",\"tid\":" + std::to_string(process_count_ + 1 + lane);
  }

  void name_lane(size_t index) {
    const TracedLane &lane = timeline_.lanes()[index];
    event("\"ph\":\"M\"," + place(index) + ",\"name\":\"thread_name\",\"args\":{\"name\":" +
          quoted("rank " + std::to_string(lane.rank) + ", communicator " + lane.communicator.substr(0, 8)) + "}");
  }

  bool print_operation(size_t index, const TracedOperation &operation) {
    const TracedLane &lane = timeline_.lanes()[index];
    const auto slice = [&](const std::string &name, const char *category, uint64_t until_ns, const std::string &more) {
      event("\"ph\":\"X\",\"name\":" + quoted(name) + ",\"cat\":\"" + category + "\",\"ts\":" +
            microseconds(operation.entered_ns) + ",\"dur\":" + microseconds(until_ns - operation.entered_ns) + "," +
            place(index) + ",\"args\":{\"operation\":" + std::to_string(operation.number) + more + "}");
    };
    slice(timeline_.names()[operation.name], "collective", operation.ended_ns, timeline_.names()[operation.what]);
    const Arrival &last = arrivals_.at(lane.communicator).at(operation.number);
    const uint64_t arrived_ns = std::min(last.at_ns, operation.ended_ns);
    if (arrived_ns > operation.entered_ns)
      slice("rank " + std::to_string(last.rank) + " is awaited", "wait", arrived_ns, "");
    return good_;
  }

  const Timeline &timeline_;
  const std::function<bool(std::string_view)> &sink_;
  std::vector<size_t> process_of_;  ///< by lane
  size_t process_count_ = 0;
  std::map<std::string, Arrivals> arrivals_;  ///< by communicator
  bool first_ = true;
  bool good_ = true;
};

}  // namespace

bool print_timeline(const Timeline &timeline, const std::function<bool(std::string_view)> &sink) {
  return Document(timeline, sink).print();
}

}  // namespace rondo::cli
