// SPDX-License-Identifier: Apache-2.0
// The file that `rondo tune` writes: rows for the library, the rest for people, `rondo sim` and whoever doubts a row.
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "src/cli/tune.h"
#include "src/cli/tuner_input.h"
#include "src/engine/combine.h"

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

/// Four digits: more is noise.
double rounded(double value) {
  if (!std::isfinite(value)) return 0;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return std::strtod(text.data(), nullptr);
}

Json row_json(const TuningRow &row) {
  Json json{{"collective", rondo_collective_string(row.collective)},
            {"ranks", row.rank_count},
            {"oversubscribed", row.oversubscribed},
            {"bytes_max", row.bytes_max},
            {"algorithm", rondo_algorithm_string(row.choice.algorithm)},
            {"protocol", rondo_protocol_string(row.choice.protocol)},
            {"channels", row.choice.channels},
            {"chunk_bytes", row.choice.chunk_bytes}};
  if (row.bytes_max == TuningRow::any_bytes) json["bytes_max"] = "any";
  return json;
}

Json machine_json(const Topology &topology) {
  std::map<std::tuple<uint32_t, uint64_t, size_t>, uint32_t> kinds;  // alike ones are counted
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
          {"simd", combine_target()}};
}

/// What was in force beside the candidates' own settings.
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
    Json folds = Json::object();
    for (const auto &[type, rate] : rates.fold_GBps) folds[rondo_type_string(type)] = rounded(rate);
    list.push_back({{"working_set_bytes", rates.working_set_bytes},
                    {"copy_GBps", rounded(rates.copy_GBps)},
                    {"fold_GBps", folds}});
  }
  return {{"latency_us", rounded(costs.latency_us)},
          {"bandwidth_GBps", rounded(costs.bandwidth_GBps)},
          {"handover_us", rounded(costs.handover_us)},
          {"wake_us", rounded(costs.wake_us)},
          {"rates", list}};
}

Json fits_json(std::span<const Measured> all) {
  Json list = Json::array();
  for (const Fit &fit : fit_all(all))
    list.push_back({{"collective", rondo_collective_string(fit.group.collective)},
                    {"ranks", fit.group.rank_count},
                    {"oversubscribed", fit.group.oversubscribed},
                    {"algorithm", rondo_algorithm_string(fit.algorithm)},
                    {"protocol", rondo_protocol_string(fit.protocol)},
                    {"alpha_us", rounded(fit.alpha_us)},
                    {"bandwidth_GBps", rounded(fit.bandwidth_GBps)},
                    {"error_max", rounded(fit.error_max)}});
  return list;
}

/// The smallest time that an all-reduce of two ranks on cores of their own took by one_shot with `protocol`.
std::optional<double> exchange_us(std::span<const Measured> all, rondo_protocol_t protocol) {
  std::optional<double> least;
  for (const Measured &measured : all) {
    if (measured.group.collective != RONDO_ALL_REDUCE || measured.group.rank_count != 2 ||
        measured.group.oversubscribed)
      continue;
    for (const Series &series : measured.series)
      if (series.choice.algorithm == RONDO_ALGORITHM_ONE_SHOT && series.choice.protocol == protocol &&
          series.bytes <= 1024 && (!least || series.median_us < *least))
        least = series.median_us;
  }
  return least;
}

/// In the words and units of the simulator's file of a network: one node with so many ranks.
Json network_json(const Findings &findings, uint32_t rank_count, const Rates &rates) {
  const Costs &costs = findings.costs;
  const double core_latency_us = costs.latency_us > 0 ? costs.latency_us : costs.handover_us;
  // An exchange is two steps, one that sends and one that receives, around the latency; simple adds a counter's way.
  const auto ll_us = exchange_us(findings.all, RONDO_PROTOCOL_LL);
  const auto simple_us = exchange_us(findings.all, RONDO_PROTOCOL_SIMPLE);
  const double step_us = ll_us ? std::max(0.0, (*ll_us - core_latency_us) / 2) : 0;
  const double alpha_us = simple_us ? std::max(core_latency_us, *simple_us - 2 * step_us) : core_latency_us;
  const double bandwidth_GBps = costs.bandwidth_GBps > 0 ? costs.bandwidth_GBps : rates.copy_GBps;
  const uint32_t core_count = usable_core_count(findings.topology);
  const TunerInput slots = tuner_input(findings.config, rank_count, rank_count > core_count);
  double fold_GBps = 0;
  for (const auto &[type, rate] : rates.fold_GBps)
    if (type == RONDO_FLOAT32) fold_GBps = rate;
  return {{"nodes", Json::array({{{"ranks", rank_count}}})},
          {"links",
           {{"intra_node",
             {{"alpha_us", rounded(alpha_us)},
              {"ll_alpha_us", rounded(core_latency_us)},
              {"bandwidth_GBps", rounded(bandwidth_GBps)},
              {"sharing", "pair"}}}}},
          {"slots", {{"count", slots.slot_count}, {"bytes", slots.slot_bytes}, {"ll_bytes", slots.ll_slot_bytes}}},
          {"step_us", rounded(step_us)},
          {"fold_GBps", rounded(fold_GBps)},
          {"copy_GBps", rounded(rates.copy_GBps)},
          {"cores", core_count},
          {"switch_us", rounded(costs.handover_us)}};
}

Json networks_json(const Findings &findings) {
  std::set<uint32_t> rank_counts;
  for (const Measured &measured : findings.all) rank_counts.insert(measured.group.rank_count);
  Json list = Json::array();
  for (const uint32_t rank_count : rank_counts)
    for (const Rates &rates : findings.costs.rates)
      list.push_back({{"ranks", rank_count},
                      {"working_set_bytes", rates.working_set_bytes},
                      {"network", network_json(findings, rank_count, rates)}});
  return list;
}

}  // namespace

std::string document_text(const Findings &findings, std::span<const TuningRow> rows) {
  Json json{{"format", tuning_format},
            {"version", tuning_version},
            {"created", now_text()},
            {"made_by", "rondo " + std::to_string(RONDO_VERSION_MAJOR) + "." + std::to_string(RONDO_VERSION_MINOR) +
                            "." + std::to_string(RONDO_VERSION_PATCH)},
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
  // The processor's name and paths may hold anything.
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rondo::cli::tune
