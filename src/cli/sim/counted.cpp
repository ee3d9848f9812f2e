// SPDX-License-Identifier: Apache-2.0
// This file is `rondo sim --counts`. It estimates how long calls take on a device from the kernels' work that `rondo
// perf --count` counted.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "src/base/parse.h"
#include "src/cli/sim/sim.h"

namespace rondo::cli {
namespace {

using Json = nlohmann::json;
using sim::DeviceWork;

Result<Json> read_json(const std::string &path) {
  RONDO_TRY_ASSIGN(const std::string text, read_json_text(path, "the file", "give the path of a JSON file"));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return invalid_argument(path + " is not JSON");
  return json;
}

/// Calls `read`, and returns false if the JSON has an unexpected form.
template <class Read>
bool take(const Read &read) {
  try {
    read();
  } catch (const Json::exception &) {
    return false;
  }
  return true;
}

DeviceWork work_of(const Json &rank) {
  static constexpr std::array<const char *, memory_kind_count> kinds{"own_device", "other_device", "host"};
  DeviceWork work;
  work.blocks = rank.at("blocks").get<uint64_t>();
  for (uint32_t kind = 0; kind < memory_kind_count; ++kind)
    work.bytes[kind] = rank.at("read_bytes").at(kinds[kind]).get<uint64_t>() +
                       rank.at("written_bytes").at(kinds[kind]).get<uint64_t>();
  work.releases = rank.at("releases").get<uint64_t>();
  work.host_loads = rank.at("host_loads").get<uint64_t>();
  work.adds = rank.at("read_modify_writes").get<uint64_t>();
  work.chain = rank.at("chain").get<uint64_t>();
  return work;
}

CountedCall call_of(const Json &row) {
  CountedCall call;
  call.bytes = row.at("bytes").get<uint64_t>();
  call.algorithm = row.at("algorithm").get<std::string>();
  call.kernel = row.at("kernel").get<std::string>();
  call.protocol = row.at("protocol").get<std::string>();
  for (const Json &rank : row.at("counts")) call.ranks.push_back(work_of(rank));
  return call;
}

/// Stores the bandwidth of an entry such as "reduction of 8 into 8 by 16 blocks".
void take_bandwidth(const std::string &name, double value, std::map<uint32_t, double> *GBps) {
  static constexpr std::string_view begin = "reduction of 8 into 8 by ";
  if (!name.starts_with(begin)) return;
  (*GBps)[static_cast<uint32_t>(std::strtoul(name.c_str() + begin.size(), nullptr, 10))] = value;
}

}  // namespace

Result<CountedCalls> read_counts(const std::string &path) {
  RONDO_TRY_ASSIGN(const Json json, read_json(path));
  CountedCalls calls;
  const bool taken = take([&] {
    calls.collective = json.at("collective").get<std::string>();
    for (const Json &row : json.at("results")) calls.calls.push_back(call_of(row));
  });
  const bool counted = std::all_of(calls.calls.begin(), calls.calls.end(),
                                   [](const CountedCall &call) { return !call.ranks.empty(); });
  if (taken && counted && !calls.calls.empty()) return calls;
  return invalid_argument(path +
                          " has no counts; `rondo perf all_reduce --device cuda --ranks 8 --count --json FILE` on the "
                          "CUDA driver in software writes them");
}

Result<sim::DeviceCosts> read_costs(const std::string &path) {
  RONDO_TRY_ASSIGN(const Json json, read_json(path));
  sim::DeviceCosts costs;
  std::map<std::string, double> values;
  costs.GBps.clear();
  const bool taken = take([&] {
    costs.device = json.at("device").get<std::string>();
    for (const Json &entry : json.at("costs")) {
      const auto name = entry.at("cost").get<std::string>();
      values[name] = entry.at("value").get<double>();
      take_bandwidth(name, values[name], &costs.GBps);
    }
  });
  if (!taken)
    return invalid_argument(path + " is no table of costs; `gpu-check --only costs` measures one (device_costs)");
  struct Wanted {
    const char *name;
    double *to;
    double scale = 1;
  };
  // A round trip is a store and a load on either side.
  const Wanted wanted[] = {{"an empty kernel after another in a graph", &costs.kernel_us},
                           {"a word to another block and back, relaxed", &costs.access_ns, 0.25},
                           {"release to the system, a device store pending", &costs.release_ns},
                           {"a word to another block and back, release and acquire", &costs.ordered_add_ns},
                           {"load of host memory", &costs.host_access_ns}};
  for (const Wanted &each : wanted) {
    const auto found = values.find(each.name);
    if (found == values.end()) return invalid_argument(path + " lacks the cost '" + each.name + "'");
    *each.to = std::max(found->second, 0.0) * each.scale;  // noise may hide a difference of times
  }
  auto checked = sim::check_costs(costs);
  if (!checked.ok()) return invalid_argument(path + ": " + checked.error().message);
  return costs;
}

std::string counted_text(const CountedCalls &calls, const sim::DeviceCosts &costs) {
  std::string text = calls.collective + ", " + std::to_string(calls.calls.front().ranks.size()) +
                     " ranks, from counts of what their kernels did and the costs of " + costs.device + "\n";
  text += "       bytes  algorithm         by            time us     kernel      chain     orders     moving\n";
  for (const CountedCall &call : calls.calls) {
    const sim::DeviceTime time = sim::time_on_device(call.ranks, costs);
    char line[200];
    std::snprintf(line, sizeof line, "%12llu  %-17s %-10s %10.2f %10.2f %10.2f %10.2f %10.2f\n",
                  static_cast<unsigned long long>(call.bytes), call.algorithm.c_str(), call.way().c_str(), time.all(),
                  time.kernel, time.chain, time.orders, time.moving);
    text += line;
  }
  return text;
}

std::string counted_json(const CountedCalls &calls, const sim::DeviceCosts &costs) {
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  for (const CountedCall &call : calls.calls) {
    const sim::DeviceTime time = sim::time_on_device(call.ranks, costs);
    results.push_back({{"bytes", call.bytes},
                       {"algorithm", call.algorithm},
                       {"by", call.way()},
                       {"time_us", rounded(time.all())},
                       {"kernel_us", rounded(time.kernel)},
                       {"chain_us", rounded(time.chain)},
                       {"orders_us", rounded(time.orders)},
                       {"moving_us", rounded(time.moving)}});
  }
  const nlohmann::ordered_json document{{"collective", calls.collective},
                                        {"ranks", calls.calls.front().ranks.size()},
                                        {"device", costs.device},
                                        {"results", results}};
  return document.dump(2) + "\n";
}

}  // namespace rondo::cli
