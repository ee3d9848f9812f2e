// SPDX-License-Identifier: Apache-2.0
#include "src/cli/status/status_report.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "src/base/clock.h"
#include "src/base/parse.h"
#include "src/engine/watch.h"

namespace rondo::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string duration(uint64_t from_ns, uint64_t to_ns) {
  return to_ns > from_ns ? show_duration(static_cast<double>(to_ns - from_ns) * 1e-3) : "0 s";
}

std::string state_text(const RankNow &now, uint64_t at_ns) {
  std::string text = activity_string(now.activity);
  std::replace(text.begin(), text.end(), '_', ' ');
  const bool timed = now.activity == Activity::in_call || now.activity == Activity::between_calls;
  if (timed && now.in_batch()) {
    if (now.message) text += " for " + duration(now.message->begun_ns, at_ns);
  } else if (timed && now.latest) {
    const bool running = now.latest->state == OperationState::running;
    text += " for " + duration(running ? now.latest->entered_ns : now.latest->ended_ns, at_ns);
  }
  if (now.rank.process_state == ProcessState::stopped) text += ", stopped";
  return text;
}

/// Returns text such as "send 3 to rank 1: 4096 bytes of float32".
std::string message_text(const MessageInfo &message) {
  return std::string(message.sends ? "send " : "receive ") + std::to_string(message.message) +
         (message.sends ? " to rank " : " from rank ") + std::to_string(message.peer) + ": " +
         std::to_string(message.bytes) + " bytes of " + rondo_type_string(static_cast<rondo_type_t>(message.type));
}

std::string operation_text(const RankNow &now) {
  if (now.in_batch()) return now.message ? message_text(now.message->what) : "messages";
  if (now.rank.entered == 0) return "none yet";
  const uint64_t number = now.latest ? now.latest->number : now.rank.entered;
  return std::to_string(number) + ": " + (now.latest ? describe(now.latest->what) : "cannot be read");
}

/// Returns text such as "rank 2 (process 17, stopped, at operation 6), rank 3 (process 18, dead)".
std::string waited_for_text(const WaitNow &wait, const std::vector<RankNow> &ranks) {
  std::string text;
  for (const uint32_t rank : wait.waited_for) {
    const RankNow &now = ranks[rank];
    text += (text.empty() ? "" : ", ") + std::string("rank ") + std::to_string(rank) + " (process " +
            std::to_string(now.rank.process);
    if (now.activity == Activity::dead) text += ", dead";
    if (now.rank.process_state == ProcessState::stopped) text += ", stopped";
    text += now.begun() < wait.operation ? ", at operation " + std::to_string(now.begun()) + ")" : ")";
  }
  return text;
}

std::string wait_text(const std::vector<RankNow> &ranks) {
  const auto wait = find_wait(ranks);
  if (!wait) {
    const bool messages = std::any_of(ranks.begin(), ranks.end(), [](const RankNow &now) { return now.in_batch(); });
    return messages ? "  no collective waits; ranks below are in messages\n" : "  nobody waits\n";
  }
  const std::string operation = "  operation " + std::to_string(wait->operation);
  if (wait->waited_for.empty()) return operation + ": all ranks have arrived\n";
  return operation + " waits for " + waited_for_text(*wait, ranks) + "\n";
}

void add_row(std::string &out, std::string rank, std::string process, std::string state, const std::string &rest) {
  rank.resize(std::max<size_t>(rank.size(), 5), ' ');
  process.resize(std::max<size_t>(process.size(), 8), ' ');
  state.resize(std::max<size_t>(state.size(), 32), ' ');
  out += "  " + rank + " " + process + " " + state + " " + rest + "\n";
}

/// Adds the statistics. The time in flight in which the caller did not wait is "hidden".
void add_statistics(std::string &out, const Look &look) {
  const auto add = [&](std::string rank, std::string count, std::string bytes, std::string in_flight,
                       const std::string &exposed) {
    rank.resize(std::max<size_t>(rank.size(), 5), ' ');
    count.resize(std::max<size_t>(count.size(), 10), ' ');
    bytes.resize(std::max<size_t>(bytes.size(), 9), ' ');
    in_flight.resize(std::max<size_t>(in_flight.size(), 10), ' ');
    out += "  " + rank + " " + count + " " + bytes + " " + in_flight + " " + exposed + "\n";
  };
  add("rank", "completed", "bytes", "in flight", "waited for");
  for (uint32_t rank = 0; rank < look.ranks.size(); ++rank) {
    const RecordedStatistics &statistics = look.ranks[rank].statistics;
    const RecordedCounts total = statistics.total();
    std::string exposed = "unknown (device)";
    if (statistics.waits_seen) {
      const auto whole = static_cast<double>(std::max<uint64_t>(total.in_flight_ns, 1));
      const auto hidden_percent = static_cast<int>(100 - 100 * static_cast<double>(total.exposed_ns) / whole);
      exposed = duration(0, total.exposed_ns);
      if (total.in_flight_ns != 0) exposed += " (" + std::to_string(hidden_percent) + " % hidden)";
    }
    add(std::to_string(rank), std::to_string(total.operations), show_volume(static_cast<double>(total.bytes)),
        duration(0, total.in_flight_ns), exposed);
  }
}

void add_communicator(std::string &out, const Look &look) {
  const uint32_t rank_count = look.recording->rank_count();
  out += "communicator " + look.recording->communicator() + ": " + counted(rank_count, "rank") + ", made " +
         duration(look.recording->made_ns(), look.at_ns) + " ago\n";
  if (const auto failure = look.recording->failure()) {
    std::string message = failure->message;
    std::replace_if(message.begin(), message.end(), [](char it) { return it < ' ' || it > '~'; }, '?');
    out += std::string("  failed: ") + rondo_status_string(failure->status) + ": " + message + "\n";
  }
  out += wait_text(look.ranks);
  add_row(out, "rank", "process", "state", "latest operation");
  for (uint32_t rank = 0; rank < look.ranks.size(); ++rank) {
    const RankNow &now = look.ranks[rank];
    add_row(out, std::to_string(rank), std::to_string(now.rank.process), state_text(now, look.at_ns),
            operation_text(now));
  }
  add_statistics(out, look);
}

/// Joins the recorder's lines for a communicator, so that `rondo status` has the same format as recordings.
Json communicator_json(const Look &look) {
  Json communicator = Json::parse(communicator_line(*look.recording, look.ranks, look.at_ns));
  Json ranks = Json::array();
  for (uint32_t rank = 0; rank < look.ranks.size(); ++rank) {
    const RankNow &now = look.ranks[rank];
    Json entry = Json::parse(rank_line(now, rank, look.at_ns));
    entry["latest"] =
        now.latest ? Json::parse(operation_line(*now.latest, rank, look.recording->made_ns(), 0)) : Json();
    entry.erase("record");
    if (now.latest) entry["latest"].erase("record");
    if (now.latest) entry["latest"].erase("rank");
    if (now.latest) entry["latest"].erase("arrived_ns");
    entry["message"] = now.message ? Json::parse(message_line(*now.message, rank, look.recording->made_ns())) : Json();
    if (now.message) entry["message"].erase("record");
    if (now.message) entry["message"].erase("rank");
    ranks.push_back(std::move(entry));
  }
  communicator.erase("record");
  communicator["ranks"] = std::move(ranks);
  return communicator;
}

}  // namespace

Look look_at(const Recording &recording) {
  Look look{&recording, look_at_ranks(recording), 0};
  look.at_ns = now_ns();
  return look;
}

std::string status_text(const std::vector<Look> &looks) {
  std::string out;
  for (const Look &look : looks) {
    if (!out.empty()) out += "\n";
    add_communicator(out, look);
  }
  return out;
}

std::string status_json(const std::vector<Look> &looks, const std::vector<Error> &refused) {
  Json communicators = Json::array();
  for (const Look &look : looks) communicators.push_back(communicator_json(look));
  Json messages = Json::array();
  for (const Error &error : refused) messages.push_back(error.message);
  const Json document{{"format", recording_format}, {"communicators", communicators}, {"refused", messages}};
  return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rondo::cli
