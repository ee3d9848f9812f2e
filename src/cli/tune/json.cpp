// SPDX-License-Identifier: Apache-2.0
// This file reads reports of `rondo perf`, and writes measurements as JSON.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "src/base/names.h"
#include "src/cli/tune/runs.h"

namespace rondo::cli::tune {
namespace {

using Json = nlohmann::ordered_json;

Json choice_json(const PlanChoice &choice) {
  return {{"algorithm", rondo_algorithm_string(choice.algorithm)},
          {"protocol", rondo_protocol_string(choice.protocol)},
          {"channels", choice.channels},
          {"chunk_bytes", choice.chunk_bytes},
          {"kernel", rondo_kernel_string(choice.kernel)}};
}

/// Reads a report. After the first unexpected value, the whole report counts as invalid.
class Reader {
 public:
  explicit Reader(Json json) : json_(std::move(json)) {}
  [[nodiscard]] const Json &json() const { return json_; }
  [[nodiscard]] bool ok() const { return ok_; }

  template <class Value>
  void take(const Json &object, const char *key, Value &to) {
    const auto found = object.find(key);
    const bool good = found != object.end() && (std::is_same_v<Value, bool> ? found->is_boolean() : found->is_number());
    ok_ = ok_ && good;
    if (good) to = found->template get<Value>();
  }
  template <class Enum>
  void take_name(const Json &object, const char *key, const char *(*name)(Enum), Enum &to) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_string()) {
      ok_ = false;
      return;
    }
    const auto value = parse_name(found->get_ref<const std::string &>(), name, key);
    ok_ = ok_ && value.ok();
    if (value.ok()) to = value.value();
  }
  /// Returns the list, or an empty one if the value is no list.
  [[nodiscard]] Json list(const Json &object, const char *key) {
    const auto found = object.find(key);
    const bool good = found != object.end() && found->is_array();
    ok_ = ok_ && good;
    return good ? *found : Json::array();
  }
  /// Returns the object, or an empty one if the value is no object.
  [[nodiscard]] Json object(const Json &outer, const char *key) {
    const auto found = outer.find(key);
    const bool good = found != outer.end() && found->is_object();
    ok_ = ok_ && good;
    return good ? *found : Json::object();
  }

 private:
  Json json_;
  bool ok_ = true;
};

Json parse_object(std::string_view text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

PlanChoice take_choice(Reader &reader, const Json &object) {
  PlanChoice choice;
  reader.take_name(object, "algorithm", rondo_algorithm_string, choice.algorithm);
  reader.take_name(object, "protocol", rondo_protocol_string, choice.protocol);
  reader.take(object, "channels", choice.channels);
  reader.take(object, "chunk_bytes", choice.chunk_bytes);
  reader.take_name(object, "kernel", rondo_kernel_string, choice.kernel);
  return choice;
}

}  // namespace

Json group_json(const Group &group) {
  Json json{{"collective", rondo_collective_string(group.collective)},
            {"ranks", group.rank_count},
            {"oversubscribed", group.oversubscribed}};
  if (group.several_hosts) json["several_hosts"] = true;
  if (group.buffers != BufferPlace::host) json["buffers"] = buffer_place_string(group.buffers);
  return json;
}

Json measured_json(const Measured &measured) {
  Json json = group_json(measured.group);
  json["disturbed_rounds"] = measured.disturbed_count;
  json["repeated_rounds"] = measured.repeated_count;
  json["series"] = Json::array();
  for (const Series &series : measured.series) {
    Json entry{{"bytes", series.bytes}};
    entry.update(choice_json(series.choice));
    entry.update({{"median_us", series.median_us},
                  {"min_us", series.min_us},
                  {"max_us", series.max_us},
                  {"rounds", series.round_count},
                  {"runs", series.run_count}});
    if (measured.group.buffers == BufferPlace::host) entry["quiet_rounds"] = series.quiet_round_count;
    json["series"].push_back(std::move(entry));
  }
  return json;
}

Result<PerfReport> parse_perf(std::string_view text) {
  Reader reader(parse_object(text));
  PerfReport report;
  if (const auto found = reader.json().find("configuration"); found != reader.json().end() && found->is_object())
    report.oversubscribed = found->contains("oversubscribed") && (*found)["oversubscribed"] == true;
  for (const Json &row : reader.list(reader.json(), "results")) {
    PerfResult result;
    result.choice = take_choice(reader, row);
    reader.take(row, "bytes", result.bytes);
    reader.take(row, "disturbed", result.disturbed);
    const Json time_us = reader.object(reader.object(row, "out_of_place"), "time_us");
    reader.take(time_us, "median", result.median_us);
    report.results.push_back(result);
  }
  const bool moved = std::ranges::all_of(report.results, [](const PerfResult &result) { return result.bytes != 0; });
  if (!reader.ok() || report.results.empty() || !moved)
    return Error{RONDO_ERROR_INTERNAL, "the report of rondo perf is not understood"};
  return report;
}

Result<void> write_file(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) return system_error("cannot write " + path, errno);
  return {};
}

}  // namespace rondo::cli::tune
