// SPDX-License-Identifier: Apache-2.0
// This file makes the lines of the recorder: JSON objects in ASCII.
#include <sys/stat.h>

#include <array>
#include <ctime>

#include "src/base/clock.h"
#include "src/base/json_line.h"
#include "src/base/kernel_file.h"
#include "src/base/names.h"
#include "src/core/diagnostics/recorder.h"
#include "src/plan/split_call.h"
#include "src/topo/host.h"

namespace rondo {
namespace {

template <class Number>
Json number_or_null(bool known, Number number) {
  return known ? Json(number) : Json();
}

std::string utc_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::array<char, 32> text{};
  if (::gmtime_r(&now, &parts) == nullptr || std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
    return "";
  return text.data();
}

Json failure_object(const std::optional<Error> &failure) {
  if (!failure) return {};
  return json_object({{"status", rondo_status_string(failure->status)},
                      {"rank", failure->rank},
                      {"peer", failure->peer},
                      {"operation", failure->operation},
                      {"message", failure->message}});
}

Json wait_object(const std::optional<WaitNow> &wait) {
  if (!wait) return {};
  return json_object({{"operation", wait->operation}, {"waiting", wait->waiting}, {"waited_for", wait->waited_for}});
}

const char *process_state_string(ProcessState state) {
  static constexpr std::array names{"unknown", "running", "stopped", "gone"};
  return names[static_cast<size_t>(state)];
}

const char *operation_state_string(OperationState state) {
  static constexpr std::array names{"running", "completed", "failed"};
  return names[static_cast<size_t>(state)];
}

Json counts_object(const RecordedCounts &counts, bool waits_seen) {
  return json_object({{"operations", counts.operations},
                      {"bytes", counts.bytes},
                      {"in_flight_ns", counts.in_flight_ns},
                      {"exposed_ns", number_or_null(waits_seen, counts.exposed_ns)}});
}

/// Returns an object with the total, and an entry for each collective that was called.
Json statistics_object(const RecordedStatistics &statistics) {
  Json collectives = Json::object();
  for (uint32_t each = 0; each < counted_collective_count; ++each) {
    const char *const name = rondo_collective_string(static_cast<rondo_collective_t>(each));
    const RecordedCounts &counts = statistics.collectives[each];
    if (name != nullptr && counts.operations != 0) collectives[name] = counts_object(counts, statistics.waits_seen);
  }
  Json object = counts_object(statistics.total(), statistics.waits_seen);
  object["collectives"] = std::move(collectives);
  return object;
}

/// Returns a text that identifies the clock CLOCK_MONOTONIC by the boot and the time namespace. Hosts or containers
/// with equal texts have the same clock.
std::string clock_id() {
  const std::string boot = read_kernel_line("/proc/sys/kernel/random/boot_id");
  struct stat status {};
  const uint64_t name_space = ::stat("/proc/self/ns/time", &status) == 0 ? status.st_ino : 0;
  return boot + "-" + std::to_string(name_space);
}

Json clock_object(const std::optional<ClockOffset> &offset) {
  const ClockOffset known = offset.value_or(ClockOffset{});
  return json_object({{"id", clock_id()},
                      {"offset_ns", number_or_null(offset.has_value(), known.offset_ns)},
                      {"uncertainty_ns", number_or_null(offset.has_value(), known.uncertainty_ns)}});
}

uint64_t time_between(uint64_t from_ns, uint64_t to_ns) { return to_ns > from_ns ? to_ns - from_ns : 0; }

/// Returns how long the rank has been in its present state.
Json duration(const RankNow &now, uint64_t now_ns) {
  const bool timed = now.activity == Activity::in_call || now.activity == Activity::failed ||
                     now.activity == Activity::between_calls;
  if (timed && now.message) return time_between(now.message->begun_ns, now_ns);
  if (!timed || !now.latest || now.in_batch()) return {};
  const RecordedOperation &latest = *now.latest;
  const uint64_t since_ns = latest.state == OperationState::running ? latest.entered_ns : latest.ended_ns;
  return time_between(since_ns, now_ns);
}

}  // namespace

const char *activity_string(Activity activity) {
  static constexpr std::array names{"joining", "in_call", "failed", "between_calls", "finalized", "left", "dead"};
  return names[static_cast<size_t>(activity)];
}

std::string communicator_line(const Recording &recording, const std::vector<RankNow> &ranks, uint64_t now_ns) {
  return json_line({{"record", "communicator"},
                    {"format", recording_format},
                    {"written_by", "rondo " + version_text()},
                    {"communicator", recording.communicator()},
                    {"host", host_name()},
                    {"time", utc_time()},
                    {"made_ns", recording.made_ns()},
                    {"clock", clock_object(recording.clock_offset())},
                    {"age_ns", time_between(recording.made_ns(), now_ns)},
                    {"rank_count", recording.rank_count()},
                    {"failure", failure_object(recording.failure())},
                    {"wait", wait_object(find_wait(ranks))}});
}

std::string rank_line(const RankNow &now, uint32_t rank, uint64_t now_ns) {
  return json_line({{"record", "rank"},
                    {"rank", rank},
                    {"group_rank", now.rank.group_rank},
                    {"process", now.rank.process},
                    {"process_state", process_state_string(now.rank.process_state)},
                    {"state", activity_string(now.activity)},
                    {"for_ns", duration(now, now_ns)},
                    {"entered", now.rank.entered},
                    {"completed", now.rank.completed},
                    {"batches_entered", now.rank.batches.entered},
                    {"batches_completed", now.rank.batches.completed},
                    {"statistics", statistics_object(now.statistics)}});
}

std::string message_line(const RecordedMessage &message, uint32_t rank, uint64_t made_ns) {
  const MessageInfo &what = message.what;
  return json_line({{"record", "message"},
                    {"rank", rank},
                    {"direction", rondo_collective_string(what.sends ? RONDO_SEND : RONDO_RECV)},
                    {"peer", what.peer},
                    {"message", what.message},
                    {"batch", message.batch},
                    {"state", operation_state_string(message.state)},
                    {"type", rondo_type_string(static_cast<rondo_type_t>(what.type))},
                    {"bytes", what.bytes},
                    {"entered_ns", time_between(made_ns, message.begun_ns)},
                    {"ended_ns", number_or_null(message.ended_ns != 0, time_between(made_ns, message.ended_ns))}});
}

std::string operation_line(const RecordedOperation &operation, uint32_t rank, uint64_t made_ns, uint64_t arrived_ns) {
  const auto split = split_call_of(operation.what.signature);
  const Signature &signature = split ? split->signature() : operation.what.signature;
  const PlanChoice &choice = operation.what.choice;
  const auto since_made = [&](uint64_t at_ns) { return number_or_null(at_ns != 0, time_between(made_ns, at_ns)); };
  return json_line({{"record", "operation"},
                    {"rank", rank},
                    {"operation", operation.number},
                    {"state", operation_state_string(operation.state)},
                    {"collective", rondo_collective_string(static_cast<rondo_collective_t>(signature.collective))},
                    {"type", rondo_type_string(static_cast<rondo_type_t>(signature.type))},
                    {"op", op_string(signature)},
                    {"root", signature.root},
                    {"count", signature.count},
                    {"uneven_blocks", signature.counts_hash != 0},
                    {"algorithm", rondo_algorithm_string(choice.algorithm)},
                    {"protocol", rondo_protocol_string(choice.protocol)},
                    {"kernel", rondo_kernel_string(choice.kernel)},
                    {"channels", choice.channels},
                    {"chunk_bytes", choice.chunk_bytes},
                    {"entered_ns", since_made(operation.entered_ns)},
                    {"arrived_ns", since_made(arrived_ns)},
                    {"ended_ns", since_made(operation.ended_ns)}});
}

}  // namespace rondo
