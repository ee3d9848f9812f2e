// SPDX-License-Identifier: Apache-2.0
// This file reads the file of a tuning table, which is strict JSON. A user provides the file, and it decides how every
// rank works. So unknown keys, repeated keys and numbers that no machine has are refused, and not ignored.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "src/base/names.h"
#include "src/base/parse.h"
#include "src/base/unique_handle.h"
#include "src/base/user_file.h"
#include "src/plan/collective.h"
#include "src/plan/tuning_table.h"

namespace rondo {
namespace {

using Json = nlohmann::json;

constexpr size_t depth_max = 32;
constexpr std::array row_keys{"collective", "ranks",     "buffers",  "oversubscribed", "several_hosts", "bytes_max",
                              "algorithm",  "protocol",  "channels", "chunk_bytes",    "kernel"};
/// The keys of the file. Besides the rows, `rondo tune` writes keys for people and other programs.
constexpr std::array file_keys{"format", "version", "rows", "created", "made_by", "machine", "settings", "costs",
                               "fits", "networks", "measurements"};

/// Checks the text before it becomes a value. It finds text that is not JSON, and faults such as repeated keys, which a
/// value would not show.
class Inspector : public nlohmann::json_sax<Json> {
 public:
  std::string problem;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t &) override { return true; }
  bool string(string_t &) override { return true; }
  bool binary(binary_t &) override { return true; }
  bool start_object(size_t) override { return enter(); }
  bool start_array(size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }
  bool key(string_t &name) override {
    if (levels_.back().insert(name).second) return true;
    problem = "the key " + in_quotes(name) + " occurs twice in one object";
    return false;
  }
  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &) override {
    problem = "this is not JSON from byte " + std::to_string(position) + " on";
    return false;
  }

 private:
  bool enter() {
    if (levels_.size() >= depth_max) {
      problem = "more than " + std::to_string(depth_max) + " levels of brackets";
      return false;
    }
    levels_.emplace_back();
    return true;
  }
  bool leave() {
    levels_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> levels_;
};

template <size_t count>
Result<void> check_keys(const Json &object, const std::array<const char *, count> &known) {
  for (const auto &[key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    std::string names;
    for (const char *name : known) names += (names.empty() ? "" : ", ") + std::string(name);
    return invalid_argument("unknown key " + in_quotes(key) + known_are(key, names));
  }
  return {};
}

Result<uint64_t> number_at(const Json &object, const char *key, uint64_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() || found->get<uint64_t>() > most)
    return invalid_argument(std::string(key) + ": wants a whole number up to " + std::to_string(most));
  return found->get<uint64_t>();
}

template <class Enum>
Result<Enum> name_at(const Json &object, const char *key, const char *(*name)(Enum)) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string())
    return invalid_argument(std::string(key) + ": wants a name; known are: " + known_names(name));
  const auto &text = found->get_ref<const std::string &>();
  auto value = parse_name(text, name, key);
  if (!value.ok())
    return invalid_argument(std::string(key) + ": " + in_quotes(text) +
                            " is unknown" + known_are(text, known_names(name)));
  return value;
}

Result<TuningRow> row_of(const Json &json) {
  if (!json.is_object()) return invalid_argument("wants an object {...}, not " + std::string(json.type_name()));
  RONDO_TRY(check_keys(json, row_keys));
  TuningRow row;
  RONDO_TRY_ASSIGN(row.collective, name_at(json, "collective", scheduled_collective_string));
  RONDO_TRY_ASSIGN(const uint64_t rank_count, number_at(json, "ranks", TuningTable::rank_count_max));
  row.rank_count = static_cast<uint32_t>(rank_count);
  const auto oversubscribed = json.find("oversubscribed");
  if (oversubscribed == json.end() || !oversubscribed->is_boolean())
    return invalid_argument("oversubscribed: wants true or false");
  row.oversubscribed = oversubscribed->get<bool>();
  if (const auto several_hosts = json.find("several_hosts"); several_hosts != json.end()) {
    if (!several_hosts->is_boolean()) return invalid_argument("several_hosts: wants true or false");
    row.several_hosts = several_hosts->get<bool>();
  }
  if (json.contains("buffers")) {
    RONDO_TRY_ASSIGN(row.buffers, name_at(json, "buffers", buffer_place_string));
  }
  const auto bytes_max = json.find("bytes_max");
  if (bytes_max == json.end() || *bytes_max != "any") {
    RONDO_TRY_ASSIGN(row.bytes_max, number_at(json, "bytes_max", TuningRow::any_bytes));
  }
  RONDO_TRY_ASSIGN(row.choice.algorithm, name_at(json, "algorithm", rondo_algorithm_string));
  row.choice.kernel = RONDO_KERNEL_INTERPRETER;
  if (json.contains("kernel")) {
    RONDO_TRY_ASSIGN(row.choice.kernel, name_at(json, "kernel", rondo_kernel_string));
  }
  if (row.choice.kernel == RONDO_KERNEL_INTERPRETER || json.contains("protocol")) {
    RONDO_TRY_ASSIGN(row.choice.protocol, name_at(json, "protocol", rondo_protocol_string));
  }
  RONDO_TRY_ASSIGN(const uint64_t channels, number_at(json, "channels", UINT32_MAX));
  row.choice.channels = static_cast<uint32_t>(channels);
  RONDO_TRY_ASSIGN(row.choice.chunk_bytes, number_at(json, "chunk_bytes", UINT64_MAX));
  return row;
}

Result<std::string> text_of_file(const std::string &path) {
  const UserFile opened = open_user_file(path);
  const FileDescriptor file(opened.descriptor);
  std::string text;
  std::optional<std::string> problem = opened.problem;
  if (file.valid()) problem = read_open_file(file.get(), tuning_file_bytes_max, text);
  if (problem) return invalid_argument("it cannot be opened: " + *problem);
  return text;
}

}  // namespace

Result<TuningTable> parse_tuning(std::string_view text) {
  if (text.size() > tuning_file_bytes_max)
    return invalid_argument("it is larger than " + show_bytes(tuning_file_bytes_max) + " bytes");
  Inspector inspector;
  if (!Json::sax_parse(text, &inspector)) return invalid_argument(inspector.problem);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return invalid_argument("wants an object {...}, not " + std::string(json.type_name()));
  RONDO_TRY(check_keys(json, file_keys));
  const auto format = json.find("format");
  if (format == json.end() || *format != tuning_format)
    return invalid_argument("format: is not \"" + std::string(tuning_format) + "\"");
  RONDO_TRY_ASSIGN(const uint64_t version, number_at(json, "version", UINT64_MAX));
  if (version != tuning_version)
    return invalid_argument("version: is " + std::to_string(version) + ", but this Rondo reads version " +
                            std::to_string(tuning_version));
  const auto list = json.find("rows");
  if (list == json.end() || !list->is_array()) return invalid_argument("rows: wants a list [...]");
  std::vector<TuningRow> rows;
  for (const Json &entry : *list) {
    auto row = row_of(entry);
    if (!row.ok()) return invalid_argument("rows[" + std::to_string(rows.size()) + "]: " + row.error().message);
    rows.push_back(row.value());
  }
  return TuningTable::make(std::move(rows));
}

Result<TuningTable> read_tuning_file(const std::string &path) {
  const auto parse = [&]() -> Result<TuningTable> {
    RONDO_TRY_ASSIGN(const std::string text, text_of_file(path));
    return parse_tuning(text);
  };
  auto table = parse();
  if (!table.ok())
    return invalid_argument("RONDO_TUNING_FILE: " + in_quotes(path) + ": " + table.error().message +
                            "; make a table with rondo tune -o FILE, or unset the variable");
  return table;
}

}  // namespace rondo
