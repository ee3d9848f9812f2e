// SPDX-License-Identifier: Apache-2.0
// This file reads and writes the files through which `rondo tune` and the programs that it starts communicate.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>

#include "src/base/names.h"
#include "src/cli/tune/devices.h"
#include "src/cli/tune/tune.h"

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

/// Reads a file that rondo tune wrote. After the first unexpected value, the whole file counts as invalid.
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

Result<std::string> read_text(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!(text << file.rdbuf())) return system_error("cannot read " + path, errno);
  return text.str();
}

Json parse_object(std::string_view text) { return Json::parse(text, nullptr, /*allow_exceptions=*/false); }

Result<Reader> open_json(const std::string &path) {
  RONDO_TRY_ASSIGN(const std::string text, read_text(path));
  Json json = parse_object(text);
  if (!json.is_object()) return Error{RONDO_ERROR_INTERNAL, path + " is not what rondo tune writes"};
  return Reader(std::move(json));
}

PlanChoice take_choice(Reader &reader, const Json &object) {
  PlanChoice choice;
  reader.take_name(object, "algorithm", rondo_algorithm_string, choice.algorithm);
  reader.take_name(object, "protocol", rondo_protocol_string, choice.protocol);
  reader.take(object, "channels", choice.channels);
  reader.take(object, "chunk_bytes", choice.chunk_bytes);
  reader.take_name(object, "kernel", rondo_kernel_string, choice.kernel);
  return choice;
}

Group take_group(Reader &reader) {
  Group group;
  reader.take_name(reader.json(), "collective", scheduled_collective_string, group.collective);
  reader.take(reader.json(), "ranks", group.rank_count);
  reader.take(reader.json(), "oversubscribed", group.oversubscribed);
  return group;
}

}  // namespace

Json group_json(const Group &group) {
  Json json{{"collective", rondo_collective_string(group.collective)},
            {"ranks", group.rank_count},
            {"oversubscribed", group.oversubscribed}};
  if (group.buffers != BufferPlace::host) json["buffers"] = buffer_place_string(group.buffers);
  return json;
}

std::string job_text(const Job &job) {
  Json json = group_json(job.group);
  json["rounds"] = job.round_count;
  json["sample_ns"] = job.sample_ns;
  json["part_begin"] = job.part_begin;
  json["part_end"] = job.part_end;
  json["sizes"] = Json::array();
  for (const SizeJob &size : job.sizes) {
    Json list = Json::array();
    for (const PlanChoice &choice : size.candidates) list.push_back(choice_json(choice));
    json["sizes"].push_back({{"bytes", size.bytes}, {"candidates", list}});
  }
  return json.dump();
}

Result<Job> read_job(const std::string &path) {
  RONDO_TRY_ASSIGN(Reader reader, open_json(path));
  Job job;
  job.group = take_group(reader);
  reader.take(reader.json(), "rounds", job.round_count);
  reader.take(reader.json(), "sample_ns", job.sample_ns);
  reader.take(reader.json(), "part_begin", job.part_begin);
  reader.take(reader.json(), "part_end", job.part_end);
  for (const Json &entry : reader.list(reader.json(), "sizes")) {
    SizeJob size;
    reader.take(entry, "bytes", size.bytes);
    for (const Json &choice : reader.list(entry, "candidates")) size.candidates.push_back(take_choice(reader, choice));
    job.sizes.push_back(std::move(size));
  }
  if (!reader.ok()) return Error{RONDO_ERROR_INVALID_ARGUMENT, path + " is no job of rondo tune"};
  return job;
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

Result<Measured> read_measured(const std::string &path) {
  RONDO_TRY_ASSIGN(Reader reader, open_json(path));
  Measured measured;
  measured.group = take_group(reader);
  reader.take(reader.json(), "disturbed_rounds", measured.disturbed_count);
  reader.take(reader.json(), "repeated_rounds", measured.repeated_count);
  for (const Json &entry : reader.list(reader.json(), "series")) {
    Series series;
    series.choice = take_choice(reader, entry);
    reader.take(entry, "bytes", series.bytes);
    reader.take(entry, "median_us", series.median_us);
    reader.take(entry, "min_us", series.min_us);
    reader.take(entry, "max_us", series.max_us);
    reader.take(entry, "rounds", series.round_count);
    reader.take(entry, "quiet_rounds", series.quiet_round_count);
    reader.take(entry, "runs", series.run_count);
    measured.series.push_back(series);
  }
  if (!reader.ok() || measured.series.empty())
    return Error{RONDO_ERROR_INTERNAL, path + " is not what a rank of rondo tune writes"};
  return measured;
}

Result<std::vector<DeviceResult>> parse_perf(std::string_view text) {
  Reader reader(parse_object(text));
  std::vector<DeviceResult> results;
  for (const Json &row : reader.list(reader.json(), "results")) {
    DeviceResult result;
    result.choice = take_choice(reader, row);
    reader.take(row, "bytes", result.bytes);
    const Json time_us = reader.object(reader.object(row, "out_of_place"), "time_us");
    reader.take(time_us, "median", result.median_us);
    results.push_back(result);
  }
  const bool moved = std::ranges::all_of(results, [](const DeviceResult &result) { return result.bytes != 0; });
  if (!reader.ok() || results.empty() || !moved)
    return Error{RONDO_ERROR_INTERNAL, "the report of rondo perf is not understood"};
  return results;
}

Result<std::vector<DeviceResult>> read_perf_file(const std::string &path) {
  RONDO_TRY_ASSIGN(const std::string text, read_text(path));
  return parse_perf(text);
}

Result<void> write_file(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text << std::flush;
  if (!file) return system_error("cannot write " + path, errno);
  return {};
}

}  // namespace rondo::cli::tune
