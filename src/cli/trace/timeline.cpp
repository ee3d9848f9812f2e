// SPDX-License-Identifier: Apache-2.0
#include "src/cli/trace/timeline.h"

#include <algorithm>
#include <limits>

#include <nlohmann/json.hpp>

#include "src/core/diagnostics/recorder.h"

namespace rondo::cli {
namespace {

using Json = nlohmann::json;

constexpr uint64_t time_ns_max = uint64_t{1} << 58;  // nine years
constexpr int64_t offset_ns_max = int64_t{1} << 61;  // twice the sum of one offset and two times fits into 64 bits
constexpr size_t names_max = 1u << 20;

std::string printable(std::string text) {
  std::replace_if(text.begin(), text.end(), [](char it) { return it < ' ' || it > '~'; }, '?');
  return text;
}

/// Returns the index of `value` in `values`, and adds the value if it is new.
template <class Value>
uint32_t intern(const Value &value, std::vector<Value> &values, std::map<Value, uint32_t> &index) {
  const auto [found, fresh] = index.emplace(value, static_cast<uint32_t>(values.size()));
  if (fresh) values.push_back(value);
  return found->second;
}

}  // namespace

/// One line of a recording. Its members must exist and have the right kind.
struct Timeline::Fields {
  const Json &line;
  const std::string &source;
  mutable std::optional<Error> wrong;  ///< the error of the first wrong member

  [[nodiscard]] uint64_t number(const char *name) const {
    const auto found = line.find(name);
    if (found != line.end() && found->is_number_unsigned()) return found->get<uint64_t>();
    refuse(name, "a number");
    return 0;
  }
  [[nodiscard]] uint64_t time_ns(const char *name) const {
    const uint64_t time = number(name);
    if (time > time_ns_max) refuse(name, "a time");
    return std::min(time, time_ns_max);
  }
  [[nodiscard]] std::string text(const char *name) const {
    const auto found = line.find(name);
    if (found != line.end() && found->is_string()) return printable(found->get<std::string>());
    refuse(name, "a text");
    return "";
  }
  void refuse(const char *name, const char *kind) const {
    if (!wrong) wrong = invalid_argument(source + ": a line of the recording has no '" + name + "' that is " + kind);
  }
};

Result<void> Timeline::add_line(std::string_view line, const std::string &source) {
  if (line.empty()) return {};
  if (line.size() > line_bytes_max)
    return invalid_argument(source + ": a line has more than " + std::to_string(line_bytes_max) + " bytes");
  const Json parsed = Json::parse(line, nullptr, false);
  if (!parsed.is_object())
    return invalid_argument(source +
                            " is no flight recording: a line is not a JSON object; rondo status --dump writes one");
  const Fields fields{parsed, source, std::nullopt};
  const std::string record = fields.text("record");
  Result<void> added;
  if (record == "communicator") added = add_communicator(fields);
  if (record == "rank") added = add_rank(fields);
  if (record == "operation") added = add_operation(fields);
  if (record == "message") added = add_message(fields);
  if (fields.wrong) return *fields.wrong;
  return added;
}

Result<void> Timeline::add_communicator(const Fields &fields) {
  const uint64_t format = fields.number("format");
  if (format == 0 || format > recording_format)
    return invalid_argument(fields.source + " is of another version of Rondo: the format of a recording is " +
                            std::to_string(recording_format) + " here");
  Source source;
  source.format = format;
  source.communicator = fields.text("communicator");
  source.host = fields.text("host");
  source.made_ns = fields.time_ns("made_ns");
  source.looked_ns = source.made_ns + fields.time_ns("age_ns");
  const auto clock = fields.line.find("clock");
  if (clock == fields.line.end() || !clock->is_object()) {
    fields.refuse("clock", "an object");
    return {};
  }
  const Fields of_clock{*clock, fields.source, std::nullopt};
  source.clock = of_clock.text("id");
  if (const auto offset = clock->find("offset_ns"); offset != clock->end() && offset->is_number_integer()) {
    constexpr auto most = static_cast<int64_t>(time_ns_max);
    source.offset_ns = std::clamp(offset->get<int64_t>(), -most, most);
    source.uncertainty_ns = of_clock.time_ns("uncertainty_ns");
  }
  fields.wrong = of_clock.wrong;
  for (const Source &known : sources_)
    if (known.communicator == source.communicator && known.clock == source.clock && known.host == source.host)
      return invalid_argument(fields.source + ": the recording of communicator " + source.communicator + " on host " +
                              source.host + " is given twice; name each once");
  sources_.push_back(std::move(source));
  return {};
}

Result<void> Timeline::add_rank(const Fields &fields) {
  if (sources_.empty()) return invalid_argument(fields.source + ": a rank comes before its communicator");
  Source &source = sources_.back();
  TracedLane lane{source.communicator, source.host, source.clock, fields.number("group_rank"),
                  fields.number("process"), {}, {}};
  source.has_rank_0 |= lane.rank == 0;
  source.lane_of[fields.number("rank")] = lanes_.size();
  lanes_.push_back(std::move(lane));
  return {};
}

Result<TracedLane *> Timeline::lane_of(const Fields &fields, const char *what, uint64_t &count) {
  const uint64_t rank = fields.number("rank");
  const auto lane = sources_.empty() ? decltype(Source::lane_of)::iterator() : sources_.back().lane_of.find(rank);
  if (sources_.empty() || lane == sources_.back().lane_of.end())
    return invalid_argument(fields.source + ": " + what + " comes before its rank");
  ++count;
  if (operation_count_ + message_count_ > operations_max)
    return invalid_argument("there are more than " + std::to_string(operations_max) +
                            " operations and messages; give fewer recordings at a time");
  return &lanes_[lane->second];
}

template <class Traced>
void Timeline::read_times(const Fields &fields, const Source &source, Traced &traced) {
  traced.entered_ns = source.made_ns + fields.time_ns("entered_ns");
  const auto ended = fields.line.find("ended_ns");
  const bool runs = ended == fields.line.end() || ended->is_null();
  traced.ended_ns = runs ? source.looked_ns : source.made_ns + fields.time_ns("ended_ns");
  traced.ended_ns = std::max(traced.ended_ns, traced.entered_ns);
}

Result<void> Timeline::add_operation(const Fields &fields) {
  RONDO_TRY_ASSIGN(TracedLane *const lane, lane_of(fields, "an operation", operation_count_));
  TracedOperation operation;
  operation.number = fields.number("operation");
  read_times(fields, sources_.back(), operation);
  operation.name = intern(fields.text("collective"), names_, name_index_);
  operation.kind = intern(kind_of(fields), kinds_, kind_index_);
  if (names_.size() + kinds_.size() > names_max)
    return invalid_argument("the operations are of too many kinds; give fewer recordings");
  lane->operations.push_back(operation);
  return {};
}

Result<void> Timeline::add_message(const Fields &fields) {
  RONDO_TRY_ASSIGN(TracedLane *const lane, lane_of(fields, "a message", message_count_));
  TracedMessage message;
  message.number = fields.number("message");
  message.batch = sources_.back().format == 1 ? 0 : fields.number("batch");
  message.peer = fields.number("peer");
  message.bytes = fields.number("bytes");
  read_times(fields, sources_.back(), message);
  message.direction = intern(fields.text("direction"), names_, name_index_);
  message.type = intern(fields.text("type"), names_, name_index_);
  message.state = intern(fields.text("state"), names_, name_index_);
  if (names_.size() > names_max)
    return invalid_argument("the messages are of too many kinds; give fewer recordings");
  lane->messages.push_back(message);
  return {};
}

TracedKind Timeline::kind_of(const Fields &fields) {
  TracedKind kind;
  for (size_t each = 0; each < kind.texts.size(); ++each)
    kind.texts[each] = intern(fields.text(TracedKind::text_names[each]), names_, name_index_);
  for (size_t each = 0; each < kind.numbers.size(); ++each)
    kind.numbers[each] = fields.number(TracedKind::number_names[each]);
  return kind;
}

/// Finds the offset of one more clock. If two hosts have a common communicator, both have measured the clock of its
/// rank 0. Returns true if it found an offset.
bool Timeline::connect_clocks() {
  std::optional<std::pair<std::string, Offset>> best;
  for (const Source &from : sources_) {
    const auto known = offsets_.find(from.clock);
    if (known == offsets_.end() || !from.offset_ns) continue;
    for (const Source &to : sources_) {
      if (to.communicator != from.communicator || !to.offset_ns || offsets_.contains(to.clock)) continue;
      // The clock of rank 0 is equal to the clock of `to` plus its offset, and to the clock of `from` plus its offset.
      const int64_t to_first_ns = known->second.to_first_ns + *to.offset_ns - *from.offset_ns;
      const uint64_t uncertainty_ns = known->second.uncertainty_ns + to.uncertainty_ns + from.uncertainty_ns;
      const Offset offset{std::clamp(to_first_ns, -offset_ns_max, offset_ns_max),
                          std::min(uncertainty_ns, time_ns_max)};
      if (!best || offset.uncertainty_ns < best->second.uncertainty_ns) best = {to.clock, offset};
    }
  }
  if (best) offsets_.insert(*best);
  return best.has_value();
}

Result<void> Timeline::align() {
  if (operation_count_ + message_count_ == 0) return invalid_argument("no operation or message is recorded there yet");
  offsets_[sources_.front().clock] = {};
  while (connect_clocks()) {  // bounded by the clocks
  }
  for (const Source &source : sources_)
    if (!offsets_.contains(source.clock))
      return invalid_argument("no recording compares the clock of host " + source.host + " with the clock of host " +
                              sources_.front().host + "; give recordings from both hosts of a communicator that had " +
                              "ranks on both for at least a second");
  auto earliest = std::numeric_limits<int64_t>::max();
  const auto moved = [&](const TracedLane &lane, uint64_t at_ns) {
    return static_cast<int64_t>(at_ns) + offsets_.at(lane.clock).to_first_ns;
  };
  const auto find_earliest = [&](const TracedLane &lane, const auto &all) {
    for (const auto &each : all) earliest = std::min(earliest, moved(lane, each.entered_ns));
  };
  const auto move = [&](const TracedLane &lane, auto &all) {
    for (auto &each : all) {
      each.entered_ns = static_cast<uint64_t>(moved(lane, each.entered_ns) - earliest);
      each.ended_ns = static_cast<uint64_t>(moved(lane, each.ended_ns) - earliest);
    }
  };
  for (const TracedLane &lane : lanes_) {
    find_earliest(lane, lane.operations);
    find_earliest(lane, lane.messages);
  }
  for (TracedLane &lane : lanes_) {
    move(lane, lane.operations);
    move(lane, lane.messages);
  }
  return {};
}

uint64_t Timeline::uncertainty_ns() const {
  uint64_t most = 0;
  for (const auto &[clock, offset] : offsets_) most = std::max(most, offset.uncertainty_ns);
  return most;
}

}  // namespace rondo::cli
