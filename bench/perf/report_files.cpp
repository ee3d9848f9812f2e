// SPDX-License-Identifier: Apache-2.0
// This file writes the results as CSV, and as JSON in a form on which scripts rely.
#include <nlohmann/json.hpp>
#include <sstream>

#include "bench/perf/floor.h"
#include "bench/perf/perf_report.h"

namespace rondo::perf {
namespace {

using Json = nlohmann::ordered_json;

Json spread_object(const Spread &spread) {
  return {{"median", spread.median_us}, {"min", spread.min_us}, {"max", spread.max_us}};
}

Json beside_object(const BesideTimes &times) {
  return {
      {"call_us", {{"alone", spread_object(times.call_alone)}, {"beside", spread_object(times.call_beside)}}},
      {"product_us", {{"alone", spread_object(times.product_alone)}, {"beside", spread_object(times.product_beside)}}},
      {"slowdown", {{"call", times.call_slowdown()}, {"product", times.product_slowdown()}}},
      {"covered", {{"call", times.calls_covered}, {"product", times.products_covered}}}};
}

Json times_object(const Case &what, const Row &row, const std::optional<Times> &times) {
  if (!times) return nullptr;  // a placement that was not measured
  const Bandwidth rate = bandwidth(what, row.bytes, *times);
  Json object{{"time_us", {{"median", times->median_us}, {"min", times->min_us}, {"max", times->max_us}}},
              {"algbw_GBps", rate.algorithm_GBps},
              {"busbw_GBps", rate.bus_GBps},
              {"wrong", times->wrong ? Json(*times->wrong) : Json(nullptr)}};
  if (times->floor_us) object["floor_us"] = *times->floor_us;
  if (times->host_us) object["host_us"] = *times->host_us;
  if (times->beside) object["beside"] = beside_object(*times->beside);
  return object;
}

const char *device_kind(const Series &series) { return series.machine.copy_GBps.empty() ? "host" : "cuda"; }

std::string uuid_text(const DeviceName &device) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (size_t at = 0; at < sizeof device.uuid; ++at) {
    if (at == 4 || at == 6 || at == 8 || at == 10) text += '-';
    text += {digits[device.uuid[at] >> 4], digits[device.uuid[at] & 15]};
  }
  return text;
}

/// Returns the devices of all ranks, each once.
Json devices_array(const Machine &machine) {
  Json list = Json::array();
  for (size_t first = 0; first < machine.members.size(); ++first) {
    if (first_on_device(machine.members, first) != first) continue;
    Json ranks = Json::array();
    for (size_t rank = first; rank < machine.members.size(); ++rank)
      if (first_on_device(machine.members, rank) == first) ranks.push_back(rank);
    const Member &member = machine.members[first];
    list.push_back({{"host", member.host},
                    {"ordinal", member.device.ordinal},
                    {"name", member.device.name},
                    {"uuid", uuid_text(member.device)},
                    {"copy_GBps", machine.copy_GBps[first]},
                    {"ranks", ranks}});
    if (first < machine.hand_over_us.size() && machine.hand_over_us[first] > 0)
      list.back()["hand_over_us"] = machine.hand_over_us[first];
  }
  return list;
}

/// Returns the hosts, each with its ranks and their processes.
Json hosts_array(const Machine &machine) {
  Json list = Json::array();
  for (size_t rank = 0; rank < machine.members.size(); ++rank) {
    const Member &member = machine.members[rank];
    Json *host = nullptr;
    for (Json &known : list)
      if (known["name"] == member.host) host = &known;
    if (host == nullptr)
      host = &list.emplace_back(Json{{"name", member.host}, {"ranks", Json::array()}, {"processes", Json::array()}});
    (*host)["ranks"].push_back(rank);
    (*host)["processes"].push_back(member.process);
  }
  return list;
}

/// Returns the requested configuration, and the resulting one.
Json configuration_object(const Series &series, const Options &options) {
  Json object{{"algorithm", rondo_algorithm_string(options.config.algorithm)},
              {"protocol", rondo_protocol_string(options.config.protocol)},
              {"kernel", rondo_kernel_string(options.config.kernel)},
              {"channels", options.config.channels},
              {"chunk_bytes", options.config.chunk_bytes},
              {"max_ctas", options.config.max_ctas},
              {"timeout_ms", options.config.timeout_ms},
              {"threads", options.ranks != 0},
              {"stream", options.use_stream},
              {"rewrite", options.rewrite},
              {"check_count", options.check_count},
              {"aggregate_count", options.aggregate_count},
              {"seed", options.seed}};
  if (const auto &properties = series.machine.properties; properties) {
    object["local_ranks"] = properties->local_rank_count;
    object["cores"] = properties->core_count;
    object["oversubscribed"] = properties->oversubscribed != 0;
    object["mapped_buffers"] = properties->mapped_buffers != 0;
    object["cross_memory"] = properties->cross_memory != 0;
    object["shared_bytes"] = properties->shared_bytes;
  }
  return object;
}

void add_facts(Json &object, const Series &series, const RunFacts &facts, const Options &options) {
  object["version"] = facts.version;
  object["commit"] = facts.commit;
  object["time"] = facts.time;
  object["arguments"] = facts.arguments;
  object["environment"] = Json::object();
  for (const auto &[name, value] : facts.environment) object["environment"][name] = value;
  object["hosts"] = hosts_array(series.machine);
  object["configuration"] = configuration_object(series, options);
}

Json series_object(const Series &series, const RunFacts &facts, const Options &options) {
  Json results = Json::array();
  for (const Row &row : series.rows) {
    Json result{{"bytes", row.bytes},
                {"count", row.count},
                {"algorithm", row.algorithm},
                {"protocol", row.protocol},
                {"kernel", row.kernel},
                {"channels", row.channels},
                {"chunk_bytes", row.chunk_bytes},
                {"disturbed", row.disturbance.marked},
                {"load",
                 {{"waited", row.disturbance.waited},
                  {"others", row.disturbance.others},
                  {"stolen", row.disturbance.stolen}}},
                {"out_of_place", times_object(series.what, row, row.out_of_place)},
                {"in_place", times_object(series.what, row, row.in_place)}};
    if (!series.machine.hand_over_us.empty()) result["hand_overs"] = row.hand_overs;
    if (!series.other_library.empty())
      result["against"] = {{"out_of_place", times_object(series.what, row, row.other_out_of_place)},
                           {"in_place", times_object(series.what, row, row.other_in_place)}};
    results.push_back(std::move(result));
  }
  Json object{{"collective", name_of(series.what.collective)},
              {"ranks", series.what.ranks},
              {"type", rondo_type_string(series.what.type)},
              {"op", op_name(series.what)},
              {"root", has_root(series.what.collective) ? Json(series.what.root) : Json(nullptr)},
              {"device", device_kind(series)}};
  add_facts(object, series, facts, options);
  if (series.machine.setup_ms) object["setup_ms"] = *series.machine.setup_ms;
  if (!series.machine.copy_GBps.empty()) {
    object["graph"] = series.graph;
    object["one_graph"] = series.one_graph;
    object["together"] = series.together;
    object["devices"] = devices_array(series.machine);
  }
  if (!series.other_library.empty())
    object["against"] = {{"library", series.other_library}, {"version", series.other_version}};
  if (series.product)
    object["product"] = {{"library", series.product->library},
                         {"version", series.product->version},
                         {"size", series.product->size},
                         {"wrong", series.product->wrong}};
  object["results"] = std::move(results);
  return object;
}

void add_times(std::ostringstream &out, const Case &what, const Row &row, const std::optional<Times> &times) {
  if (!times) {
    out << ",,,,,,";
    return;
  }
  const Bandwidth rate = bandwidth(what, row.bytes, *times);
  out << ',' << times->median_us << ',' << times->min_us << ',' << times->max_us << ',' << rate.algorithm_GBps << ','
      << rate.bus_GBps << ',';
  if (times->wrong) out << *times->wrong;
}

}  // namespace

std::string to_json(std::span<const Series> all, const RunFacts &facts, const Options &options) {
  // An argument or a variable may contain text that is not UTF-8.
  const auto text = [](const Json &json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; };
  if (all.size() == 1) return text(series_object(all.front(), facts, options));
  Json list = Json::array();
  for (const Series &series : all) list.push_back(series_object(series, facts, options));
  return text(list);
}

std::string to_csv(std::span<const Series> all) {
  std::ostringstream out;
  out << "collective,ranks,type,op,root,device,bytes,count,algorithm,protocol,kernel,channels";
  for (const char *placement : {"out_of_place", "in_place"})
    for (const char *column : {"time_us_median", "time_us_min", "time_us_max", "algbw_GBps", "busbw_GBps", "wrong"})
      out << ',' << placement << '_' << column;
  out << ",out_of_place_floor_us,in_place_floor_us,out_of_place_host_us,in_place_host_us";
  out << '\n';
  for (const Series &series : all) {
    const Case &what = series.what;
    for (const Row &row : series.rows) {
      out << name_of(what.collective) << ',' << what.ranks << ',' << rondo_type_string(what.type) << ','
          << op_name(what) << ',' << (has_root(what.collective) ? what.root : -1) << ',' << device_kind(series) << ','
          << row.bytes << ',' << row.count << ',' << row.algorithm << ',' << row.protocol << ',' << row.kernel << ','
          << row.channels;
      add_times(out, what, row, row.out_of_place);
      add_times(out, what, row, row.in_place);
      for (const auto figure : {&Times::floor_us, &Times::host_us})
        for (const auto *times : {&row.out_of_place, &row.in_place}) {
          out << ',';
          if (*times && (**times).*figure) out << *((**times).*figure);
        }
      out << '\n';
    }
  }
  return out.str();
}

}  // namespace rondo::perf
