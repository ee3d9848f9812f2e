// SPDX-License-Identifier: Apache-2.0
// This file writes a timeline as JSON for Chrome's trace viewer and Perfetto. A process is a group of lanes, a rank in
// a communicator is a lane, and an operation is a slice. A slice contains the time in which the operation waited for
// the last rank. Batches have a lane of their own. Messages run concurrently, so each peer and direction has a lane of
// its own.
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
    for (size_t lane = 0; lane < timeline_.lanes().size() && good_; ++lane) {
      print_batches(lane);
      print_messages(lane);
    }
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

  void name_lane(size_t index) { name_lane(index, number_of(index), ""); }
  /// Names a lane of the rank that has the lane `index`. `what` is what the rank does in it.
  void name_lane(size_t index, size_t number, const std::string &what) {
    const TracedLane &lane = timeline_.lanes()[index];
    const std::string name =
        "rank " + std::to_string(lane.rank) + what + ", communicator " + lane.communicator.substr(0, 8);
    event({{"ph", "M"},
           {"pid", process_of_[index]},
           {"tid", number},
           {"name", "thread_name"},
           {"args", json_object({{"name", name}})}});
  }

  struct Span {
    uint64_t from_ns = 0, until_ns = 0;
  };
  /// Prints a slice of the lane with this number. It belongs to the process of the lane `index`.
  void slice(size_t index, size_t number, const std::string &name, const char *category, Span span, const Json &args) {
    event({{"ph", "X"},
           {"name", name},
           {"cat", category},
           {"ts", microseconds(span.from_ns)},
           {"dur", microseconds(span.until_ns - span.from_ns)},
           {"pid", process_of_[index]},
           {"tid", number},
           {"args", args}});
  }

  bool print_operation(size_t index, const TracedOperation &operation) {
    const TracedLane &lane = timeline_.lanes()[index];
    const Json number = json_object({{"operation", operation.number}});
    Json args = number;
    const TracedKind &kind = timeline_.kinds()[operation.kind];
    for (size_t each = 0; each < kind.texts.size(); ++each)
      args[TracedKind::text_names[each]] = timeline_.names()[kind.texts[each]];
    for (size_t each = 0; each < kind.numbers.size(); ++each)
      args[TracedKind::number_names[each]] = kind.numbers[each];
    const std::string &name = timeline_.names()[operation.name];
    slice(index, number_of(index), name, "collective", {operation.entered_ns, operation.ended_ns}, args);
    const Arrival &last = arrivals_.at(lane.communicator).at(operation.number);
    const uint64_t arrived_ns = std::min(last.at_ns, operation.ended_ns);
    if (arrived_ns > operation.entered_ns)
      slice(index, number_of(index), "rank " + std::to_string(last.rank) + " is awaited", "wait",
            {operation.entered_ns, arrived_ns}, number);
    return good_;
  }

  /// A lane of slices that run one after another. On a device, each is entered while the one before it may still run.
  struct Queue {
    size_t number = 0;     ///< number of the lane, or 0 before it has a slice
    uint64_t free_ns = 0;  ///< when its latest slice ends
  };
  /// Prints a slice of the queue. `what` names the queue's lane, which is made for the first slice.
  void queue_slice(size_t index, Queue &queue, const std::string &what, const std::string &name, const char *category,
                   Span span, const Json &args) {
    if (queue.number == 0) {
      queue.number = number_of(timeline_.lanes().size() + queue_count_++);
      name_lane(index, queue.number, what);
    }
    const uint64_t from_ns = std::max(span.from_ns, queue.free_ns);
    queue.free_ns = std::max(span.until_ns, from_ns);
    slice(index, queue.number, name, category, {from_ns, queue.free_ns}, args);
  }

  /// Prints the batches of a rank. A batch has the messages that are recorded, which are neighbours.
  void print_batches(size_t index) {
    const std::vector<TracedMessage> &all = timeline_.lanes()[index].messages;
    Queue batches;
    for (auto first = all.begin(); first != all.end();) {
      Span span{first->entered_ns, 0};
      uint64_t bytes = 0;
      auto end = first;
      for (; end != all.end() && end->batch == first->batch; ++end) {
        span.until_ns = std::max(span.until_ns, end->ended_ns);
        bytes += end->bytes;
      }
      if (first->batch != 0)
        queue_slice(index, batches, " runs batches", "messages", "batch", span,
                    json_object({{"batch", first->batch}, {"messages", end - first}, {"bytes", bytes}}));
      first = end;
    }
  }

  /// Prints the messages of a rank. Those of the same peer and direction are a queue.
  void print_messages(size_t index) {
    std::map<std::pair<uint32_t, uint64_t>, Queue> queues;
    for (const TracedMessage &message : timeline_.lanes()[index].messages) {
      const std::string &direction = timeline_.names()[message.direction];
      const bool sends = direction == "send";
      queue_slice(index, queues[{message.direction, message.peer}],
                  (sends ? " sends to rank " : " receives from rank ") + std::to_string(message.peer),
                  direction + " " + std::to_string(message.number), "message", {message.entered_ns, message.ended_ns},
                  json_object({{"peer", message.peer},
                               {"message", message.number},
                               {"batch", message.batch},
                               {"bytes", message.bytes},
                               {"type", timeline_.names()[message.type]},
                               {"state", timeline_.names()[message.state]}}));
    }
  }

  const Timeline &timeline_;
  const std::function<bool(std::string_view)> &sink_;
  std::vector<size_t> process_of_;  ///< number of the process of each lane
  size_t process_count_ = 0;
  size_t queue_count_ = 0;  ///< of all ranks
  std::map<std::string, Arrivals> arrivals_;  ///< the arrivals in each communicator
  bool first_ = true;
  bool good_ = true;
};

}  // namespace

bool print_timeline(const Timeline &timeline, const std::function<bool(std::string_view)> &sink) {
  return Document(timeline, sink).print();
}

}  // namespace rondo::cli
