// SPDX-License-Identifier: Apache-2.0
// This file writes the file of `rondo tune`. The library reads only its rows. People and `rondo sim` use the rest, for
// instance to check rows.
#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <tuple>

#include "src/base/names.h"
#include "src/cli/sim/sim.h"
#include "src/cli/tune/tune.h"
#include "src/engine/reduction/reduction.h"

namespace rondo::cli::tune {
namespace {

using Json = nlohmann::ordered_json;

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text.data();
}

Json machine_json(const Topology &topology) {
  std::map<std::tuple<uint32_t, uint64_t, size_t>, uint32_t> kinds;  // equal caches are counted
  for (const Cache &cache : topology.caches) ++kinds[{cache.level, cache.bytes, cache.pus.size()}];
  Json caches = Json::array();
  for (const auto &[kind, count] : kinds) {
    const auto &[level, bytes, sharers] = kind;
    caches.push_back({{"level", level}, {"bytes", bytes}, {"count", count}, {"shared_by", sharers}});
  }
  return {{"processor", topology.processor},
          {"cores", topology.cores.size()},
          {"processing_units", topology.pus.size()},
          {"usable_cores", usable_core_count(topology)},
          {"numa_nodes", topology.numa_nodes.size()},
          {"memory_bytes", topology.memory_bytes},
          {"caches", caches},
          {"simd", reduce_target()}};
}

/// Returns the settings that were in force besides those that candidates choose.
Json settings_json(const Config &config) {
  Json json = Json::object();
  for (const ConfigVariable &variable : config_variables())
    for (const std::string &given : config.given)
      if (given == variable.name) json[given] = variable.show(config);
  return json;
}

Json costs_json(const Costs &costs) {
  Json list = Json::array();
  for (const Rates &rates : costs.rates) {
    Json reduces = Json::object();
    for (const auto &[type, rate] : rates.reduce_GBps) reduces[rondo_type_string(type)] = rounded(rate);
    list.push_back({{"working_set_bytes", rates.working_set_bytes},
                    {"copy_GBps", rounded(rates.copy_GBps)},
                    {"reduce_GBps", reduces}});
  }
  return {{"latency_us", rounded(costs.latency_us)},
          {"bandwidth_GBps", rounded(costs.bandwidth_GBps)},
          {"handover_us", rounded(costs.handover_us)},
          {"wake_us", rounded(costs.wake_us)},
          {"rates", list}};
}

Json fits_json(std::span<const Measured> all) {
  Json list = Json::array();
  for (const Fit &fit : fit_all(all)) {
    Json entry = group_json(fit.group);
    entry.update({{"algorithm", rondo_algorithm_string(fit.algorithm)},
                  {"protocol", rondo_protocol_string(fit.protocol)},
                  {"kernel", rondo_kernel_string(fit.kernel)},
                  {"alpha_us", rounded(fit.alpha_us)},
                  {"bandwidth_GBps", rounded(fit.bandwidth_GBps)},
                  {"error_max", rounded(fit.error_max)}});
    list.push_back(std::move(entry));
  }
  return list;
}

/// Returns a network for each measured size of a group.
Json networks_json(const Findings &findings) {
  Json list = Json::array();
  for (const Measured &measured : findings.all) {
    // The simulator's networks model one host here.
    if (measured.group.buffers != BufferPlace::host || measured.group.several_hosts) continue;
    for (const Calibration &calibration : calibrate(findings, measured))
      list.push_back({{"collective", rondo_collective_string(measured.group.collective)},
                      {"ranks", measured.group.rank_count},
                      {"bytes", calibration.bytes},
                      {"kernel", rondo_kernel_string(calibration.kernel)},
                      {"error_max", rounded(calibration.error_max)},
                      {"network", network_json(calibration.network)}});
  }
  return list;
}

}  // namespace

Json row_json(const TuningRow &row) {
  Json json{{"collective", rondo_collective_string(row.collective)},
            {"ranks", row.rank_count},
            {"oversubscribed", row.oversubscribed},
            {"bytes_max", row.bytes_max},
            {"algorithm", rondo_algorithm_string(row.choice.algorithm)},
            {"protocol", rondo_protocol_string(row.choice.protocol)},
            {"channels", row.choice.channels},
            {"chunk_bytes", row.choice.chunk_bytes},
            {"kernel", rondo_kernel_string(row.choice.kernel)}};
  if (row.bytes_max == TuningRow::any_bytes) json["bytes_max"] = "any";
  if (row.several_hosts) json["several_hosts"] = true;
  if (row.buffers != BufferPlace::host) json["buffers"] = buffer_place_string(row.buffers);
  return json;
}

std::string document_text(const Findings &findings, std::span<const TuningRow> rows) {
  Json json{{"format", tuning_format},
            {"version", tuning_version},
            {"created", now_text()},
            {"made_by", "rondo " + version_text()},
            {"machine", machine_json(findings.topology)},
            {"settings", settings_json(findings.config)},
            {"rows", Json::array()},
            {"costs", costs_json(findings.costs)},
            {"fits", fits_json(findings.all)},
            {"networks", networks_json(findings)},
            {"measurements", Json::array()}};
  for (const TuningRow &row : rows) json["rows"].push_back(row_json(row));
  for (const Measured &measured : findings.all) {
    Json entry = measured_json(measured);
    for (Json &series : entry["series"])
      for (const char *key : {"median_us", "min_us", "max_us"}) series[key] = rounded(series[key].get<double>());
    json["measurements"].push_back(std::move(entry));
  }
  // The processor's name and paths may contain anything.
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rondo::cli::tune
