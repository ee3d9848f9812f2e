// SPDX-License-Identifier: Apache-2.0
// This file writes the simulator's networks into the table of `rondo tune`, and reads them for `rondo sim --table`.
#include <nlohmann/json.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <type_traits>

#include "src/base/parse.h"
#include "src/cli/sim/sim.h"

namespace rondo::cli {
namespace {

using sim::Network;

/// Returns a cost between two costs, interpolated by ratio. If one of them is 0, it interpolates by difference.
double mixed(double low, double high, double part) {
  if (low <= 0 || high <= 0) return low + (high - low) * part;
  return low * std::pow(high / low, part);
}

Network mix(const Network &low, const Network &high, double part) {
  Network network = low;
  for (size_t i = 0; i < sim::link_class_count; ++i) {
    network.links[i].alpha_us = mixed(low.links[i].alpha_us, high.links[i].alpha_us, part);
    network.links[i].ll_alpha_us = mixed(low.links[i].ll_alpha_us, high.links[i].ll_alpha_us, part);
    network.links[i].burst_bytes = mixed(low.links[i].burst_bytes, high.links[i].burst_bytes, part);
    network.links[i].peak_GBps = mixed(low.links[i].peak_GBps, high.links[i].peak_GBps, part);
    network.links[i].bandwidth_GBps = mixed(low.links[i].bandwidth_GBps, high.links[i].bandwidth_GBps, part);
  }
  network.step_us = mixed(low.step_us, high.step_us, part);
  network.reduce_GBps = mixed(low.reduce_GBps, high.reduce_GBps, part);
  network.reduce_send_GBps = mixed(low.reduce_send_GBps, high.reduce_send_GBps, part);
  network.copy_GBps = mixed(low.copy_GBps, high.copy_GBps, part);
  network.memory_GBps = mixed(low.memory_GBps, high.memory_GBps, part);
  network.switch_us = mixed(low.switch_us, high.switch_us, part);
  return network;
}

template <class Value>
std::optional<Value> value_of(const nlohmann::json &entry, const char *key) {
  const auto found = entry.find(key);
  if constexpr (std::is_same_v<Value, std::string>) {
    if (found != entry.end() && found->is_string()) return found->get<std::string>();
  } else {
    if (found != entry.end() && found->is_number_unsigned()) return found->get<Value>();
  }
  return std::nullopt;
}

nlohmann::ordered_json link_json(const sim::LinkCost &link) {
  nlohmann::ordered_json json{{"alpha_us", rounded(link.alpha_us)},
                              {"ll_alpha_us", rounded(link.ll_alpha_us)},
                              {"bandwidth_GBps", rounded(link.bandwidth_GBps)},
                              {"sharing", sim::sharing_string(link.sharing)}};
  if (link.burst_bytes > 0) {
    json["burst_bytes"] = rounded(link.burst_bytes);
    json["peak_GBps"] = rounded(link.peak_GBps);
  }
  return json;
}

}  // namespace

double rounded(double value) {
  if (!std::isfinite(value)) return 0;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return std::strtod(text.data(), nullptr);
}

nlohmann::ordered_json network_json(const Network &network) {
  using Json = nlohmann::ordered_json;
  Json nodes = Json::array();
  for (const sim::SimNode &node : network.nodes) nodes.push_back({{"ranks", node.rank_count}});
  Json links = {{"intra_node", link_json(network.links[static_cast<size_t>(sim::LinkClass::intra_node)])}};
  if (network.nodes.size() > 1)
    links["inter_node"] = link_json(network.links[static_cast<size_t>(sim::LinkClass::inter_node)]);
  return {
      {"nodes", nodes},
      {"links", links},
      {"slots", {{"count", network.slot_count}, {"bytes", network.slot_bytes}, {"ll_bytes", network.ll_slot_bytes}}},
      {"step_us", rounded(network.step_us)},
      {"reduce_GBps", rounded(network.reduce_GBps)},
      {"reduce_send_GBps", rounded(network.reduce_send_GBps)},
      {"copy_GBps", rounded(network.copy_GBps)},
      {"memory_GBps", rounded(network.memory_GBps)},
      {"cores", network.core_count},
      {"switch_us", rounded(network.switch_us)}};
}

Result<TunedNetworks> TunedNetworks::read(const std::string &path, rondo_collective_t collective,
                                          rondo_kernel_t kernel) {
  const std::string wanted = rondo_kernel_string(kernel == RONDO_KERNEL_AUTO ? RONDO_KERNEL_INTERPRETER : kernel);
  RONDO_TRY_ASSIGN(const std::string text, read_json_text(path, "the table", "`rondo tune -o FILE` writes one"));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("networks") || !json["networks"].is_array())
    return invalid_argument(path + " is no table of `rondo tune`: it has no list of networks");
  TunedNetworks tuned;
  tuned.path_ = path;
  for (const nlohmann::json &entry : json["networks"]) {
    const auto ranks = value_of<uint64_t>(entry, "ranks");
    const auto bytes = value_of<uint64_t>(entry, "bytes");
    const auto name = value_of<std::string>(entry, "collective");
    if (!ranks || !bytes || !name || !entry.contains("network"))
      return invalid_argument(path +
                              ": an entry of networks wants collective, ranks, bytes and network; "
                              "the table was made by another version, make it again with `rondo tune`");
    if (*name != rondo_collective_string(collective)) continue;
    if (value_of<std::string>(entry, "kernel").value_or("interpreter") != wanted) continue;
    Network network;
    auto parsed = parse_network(entry["network"].dump(), &network);
    if (!parsed.ok()) return invalid_argument(path + ": " + parsed.error().message);
    if (network.rank_count() != *ranks)
      return invalid_argument(path + ": the network for " + std::to_string(*ranks) + " ranks has nodes with " +
                              std::to_string(network.rank_count()));
    tuned.networks_[*ranks][*bytes] = network;
  }
  if (tuned.networks_.empty())
    return invalid_argument(path + " has no networks for " + rondo_collective_string(collective) +
                            (kernel == RONDO_KERNEL_LOAD_STORE ? " by load_store" : "") +
                            "; measure them with `rondo tune --collectives " + rondo_collective_string(collective) +
                            "`");
  return tuned;
}

Result<Network> TunedNetworks::at(uint64_t rank_count, uint64_t bytes) const {
  const auto found = networks_.find(rank_count);
  if (found == networks_.end()) {
    std::string known;
    for (const auto &[ranks, networks] : networks_) known += (known.empty() ? "" : ", ") + std::to_string(ranks);
    return invalid_argument(path_ + " has no networks for " + std::to_string(rank_count) + " ranks; it has them for " +
                            known);
  }
  const auto &by_bytes = found->second;
  const auto above = by_bytes.lower_bound(bytes);
  if (above == by_bytes.end()) return by_bytes.rbegin()->second;
  if (above->first == bytes || above == by_bytes.begin()) return above->second;
  const auto below = std::prev(above);
  const auto log_of = [](uint64_t value) { return std::log(static_cast<double>(value)); };
  return mix(below->second, above->second,
             (log_of(bytes) - log_of(below->first)) / (log_of(above->first) - log_of(below->first)));
}

}  // namespace rondo::cli
