// SPDX-License-Identifier: Apache-2.0
// The recorder's lines: JSON by hand, since it is little and the library needs no more of it.
#include <sys/stat.h>

#include <array>
#include <ctime>
#include <fstream>

#include "src/base/clock.h"
#include "src/base/names.h"
#include "src/core/diagnostics/recorder.h"
#include "src/topo/host.h"

namespace rondo {
namespace {

constexpr int recording_format = 1;

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') out += '\\';
    out += character >= ' ' && character <= '~' ? character : '?';
  }
  return out + "\"";
}

std::string json_list(const std::vector<uint32_t> &numbers) {
  std::string out;
  for (const uint32_t number : numbers) out += (out.empty() ? "" : ",") + std::to_string(number);
  return "[" + out + "]";
}

/// One JSON object, member by member.
class JsonObject {
 public:
  JsonObject &raw(const char *name, const std::string &value) {
    text_ += std::string(text_.empty() ? "{\"" : ",\"") + name + "\":" + value;
    return *this;
  }
  JsonObject &add(const char *name, std::string_view value) { return raw(name, json_text(value)); }
  JsonObject &add(const char *name, uint64_t value) { return raw(name, std::to_string(value)); }
  JsonObject &add(const char *name, int32_t value) { return raw(name, std::to_string(value)); }
  [[nodiscard]] std::string end() const { return (text_.empty() ? "{" : text_) + "}"; }

 private:
  std::string text_;
};

std::string utc_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&now, &parts) == nullptr || std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
    return "";
  return text.data();
}

std::string failure_object(const std::optional<Error> &failure) {
  if (!failure) return "null";
  return JsonObject()
      .add("status", rondo_status_string(failure->status))
      .add("rank", failure->rank)
      .add("peer", failure->peer)
      .add("operation", failure->operation)
      .add("message", failure->message)
      .end();
}

std::string wait_object(const std::optional<WaitNow> &wait) {
  if (!wait) return "null";
  return JsonObject()
      .add("operation", wait->operation)
      .raw("waiting", json_list(wait->waiting))
      .raw("waited_for", json_list(wait->waited_for))
      .end();
}

const char *process_state_string(ProcessState state) {
  static constexpr std::array names{"unknown", "running", "stopped", "gone"};
  return names[static_cast<size_t>(state)];
}

const char *operation_state_string(OperationState state) {
  static constexpr std::array names{"running", "completed", "failed"};
  return names[static_cast<size_t>(state)];
}

JsonObject &add_counts(JsonObject &object, const RecordedCounts &counts, bool waits_seen) {
  return object.add("operations", counts.operations)
      .add("bytes", counts.bytes)
      .add("in_flight_ns", counts.in_flight_ns)
      .raw("exposed_ns", waits_seen ? std::to_string(counts.exposed_ns) : "null");
}

/// The total, and those collectives that there were.
std::string statistics_object(const RecordedStatistics &statistics) {
  JsonObject collectives;
  for (uint32_t each = 0; each < counted_collective_count; ++each) {
    const char *const name = rondo_collective_string(static_cast<rondo_collective_t>(each));
    const RecordedCounts &counts = statistics.collectives[each];
    if (name == nullptr || counts.operations == 0) continue;
    JsonObject object;
    collectives.raw(name, add_counts(object, counts, statistics.waits_seen).end());
  }
  JsonObject object;
  return add_counts(object, statistics.total(), statistics.waits_seen).raw("collectives", collectives.end()).end();
}

/// Equal where CLOCK_MONOTONIC is: in one namespace of times, since one start of one kernel.
std::string clock_id() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat status {};
  const uint64_t name_space = ::stat("/proc/self/ns/time", &status) == 0 ? status.st_ino : 0;
  return boot + "-" + std::to_string(name_space);
}

std::string clock_object(const std::optional<ClockOffset> &offset) {
  return JsonObject()
      .add("id", clock_id())
      .raw("offset_ns", offset ? std::to_string(offset->offset_ns) : "null")
      .raw("uncertainty_ns", offset ? std::to_string(offset->uncertainty_ns) : "null")
      .end();
}

uint64_t time_between(uint64_t from_ns, uint64_t to_ns) { return to_ns > from_ns ? to_ns - from_ns : 0; }

/// How long it has been as it is.
std::string duration(const RankNow &now, uint64_t now_ns) {
  const bool timed = now.activity == Activity::in_call || now.activity == Activity::failed ||
                     now.activity == Activity::between_calls;
  if (!timed || !now.latest) return "null";
  const RecordedOperation &latest = *now.latest;
  const uint64_t since_ns = latest.state == OperationState::running ? latest.entered_ns : latest.ended_ns;
  return std::to_string(time_between(since_ns, now_ns));
}

}  // namespace

const char *activity_string(Activity activity) {
  static constexpr std::array names{"joining", "in_call", "failed", "between_calls", "finalized", "left", "dead"};
  return names[static_cast<size_t>(activity)];
}

std::string communicator_line(const Recording &recording, const std::vector<RankNow> &ranks, uint64_t now_ns) {
  return JsonObject()
      .add("record", "communicator")
      .add("format", recording_format)
      .add("written_by", "rondo " + version_text())
      .add("communicator", recording.communicator())
      .add("host", host_name())
      .add("time", utc_time())
      .add("made_ns", recording.made_ns())
      .raw("clock", clock_object(recording.clock_offset()))
      .add("age_ns", time_between(recording.made_ns(), now_ns))
      .add("rank_count", uint64_t{recording.rank_count()})
      .raw("failure", failure_object(recording.failure()))
      .raw("wait", wait_object(find_wait(ranks)))
      .end();
}

std::string rank_line(const RankNow &now, uint32_t rank, uint64_t now_ns) {
  return JsonObject()
      .add("record", "rank")
      .add("rank", uint64_t{rank})
      .add("group_rank", now.rank.group_rank)
      .add("process", now.rank.process)
      .add("process_state", process_state_string(now.rank.process_state))
      .add("state", activity_string(now.activity))
      .raw("for_ns", duration(now, now_ns))
      .add("entered", now.rank.entered)
      .add("completed", now.rank.completed)
      .raw("statistics", statistics_object(now.statistics))
      .end();
}

std::string operation_line(const RecordedOperation &operation, uint32_t rank, uint64_t made_ns, uint64_t arrived_ns) {
  const Signature &signature = operation.what.signature;
  const PlanChoice &choice = operation.what.choice;
  const auto since_made = [&](uint64_t at_ns) {
    return at_ns == 0 ? std::string("null") : std::to_string(time_between(made_ns, at_ns));
  };
  return JsonObject()
      .add("record", "operation")
      .add("rank", uint64_t{rank})
      .add("operation", operation.number)
      .add("state", operation_state_string(operation.state))
      .add("collective", rondo_collective_string(static_cast<rondo_collective_t>(signature.collective)))
      .add("type", rondo_type_string(static_cast<rondo_type_t>(signature.type)))
      .add("op", rondo_op_string(static_cast<rondo_op_t>(signature.op)))
      .add("root", uint64_t{signature.root})
      .add("count", signature.count)
      .raw("uneven_blocks", signature.counts_hash != 0 ? "true" : "false")
      .add("algorithm", rondo_algorithm_string(choice.algorithm))
      .add("protocol", rondo_protocol_string(choice.protocol))
      .add("kernel", rondo_kernel_string(choice.kernel))
      .add("channels", uint64_t{choice.channels})
      .add("chunk_bytes", choice.chunk_bytes)
      .raw("entered_ns", since_made(operation.entered_ns))
      .raw("arrived_ns", since_made(arrived_ns))
      .raw("ended_ns", since_made(operation.ended_ns))
      .end();
}

}  // namespace rondo
