// SPDX-License-Identifier: Apache-2.0
// This file reads the JSON file of `rondo sim --topology`. It refuses every unknown key, because a misspelt key would
// otherwise be ignored without notice.
#include <nlohmann/json.hpp>

#include <cmath>
#include <functional>
#include <map>

#include "src/base/parse.h"
#include "src/base/spelling.h"
#include "src/base/user_file.h"
#include "src/cli/sim/sim.h"

namespace rondo::cli {
namespace {

using Json = nlohmann::json;
using sim::Network;

using Reader = std::function<Result<void>(const Json &)>;
using Readers = std::map<std::string, Reader>;

Result<void> read_object(const Json &json, const std::string &where, const Readers &readers) {
  if (!json.is_object()) return invalid_argument(where + " wants an object {...}, not " + json.type_name());
  for (const auto &[key, value] : json.items()) {
    const auto reader = readers.find(key);
    if (reader == readers.end()) {
      std::string known;
      for (const auto &[name, unused] : readers) known += (known.empty() ? "" : ", ") + name;
      return invalid_argument(where + " has an unknown key " + in_quotes(key) + known_are(key, known));
    }
    auto done = reader->second(value);
    if (!done.ok()) return invalid_argument(where + ", " + key + ": " + done.error().message);
  }
  return {};
}

Reader number(double *to) {
  return [to](const Json &json) -> Result<void> {
    if (!json.is_number()) return invalid_argument("wants a number, not " + std::string(json.type_name()));
    *to = json.get<double>();
    return {};
  };
}

Reader count(uint32_t *to, uint32_t min) {
  return [to, min](const Json &json) -> Result<void> {
    if (!json.is_number_unsigned() || json.get<uint64_t>() < min || json.get<uint64_t>() > UINT32_MAX)
      return invalid_argument("wants a whole number from " + std::to_string(min) + " on");
    *to = json.get<uint32_t>();
    return {};
  };
}

Result<void> read_sharing(const Json &json, sim::Sharing *to) {
  using sim::Sharing;
  for (const Sharing sharing : {Sharing::pair, Sharing::rank, Sharing::nic, Sharing::node})
    if (json.is_string() && json.get<std::string>() == sim::sharing_string(sharing)) {
      *to = sharing;
      return {};
    }
  return invalid_argument("wants one of \"pair\", \"rank\", \"nic\", \"node\"");
}

Result<void> read_link(const Json &json, const std::string &name, sim::LinkCost *to) {
  RONDO_TRY(read_object(json, name,
                        {{"alpha_us", number(&to->alpha_us)},
                         {"ll_alpha_us", number(&to->ll_alpha_us)},
                         {"bandwidth_GBps", number(&to->bandwidth_GBps)},
                         {"burst_bytes", number(&to->burst_bytes)},
                         {"peak_GBps", number(&to->peak_GBps)},
                         {"sharing", [to](const Json &value) { return read_sharing(value, &to->sharing); }}}));
  if (!json.contains("ll_alpha_us") && json.contains("alpha_us")) to->ll_alpha_us = to->alpha_us;
  return {};
}

Result<void> read_links(const Json &json, Network *network) {
  Readers readers;
  for (size_t link = 0; link < sim::link_class_count; ++link) {
    const std::string name = sim::link_class_string(static_cast<sim::LinkClass>(link));
    readers[name] = [name, to = &network->links[link]](const Json &value) { return read_link(value, name, to); };
  }
  return read_object(json, "links", readers);
}

/// Reads a list of groups of equal nodes.
Result<void> read_nodes(const Json &json, Network *network) {
  if (!json.is_array() || json.empty()) return invalid_argument("wants a list [{...}, ...] with at least one node");
  network->nodes.clear();
  for (const Json &entry : json) {
    sim::SimNode node;
    uint32_t repeat = 1;
    RONDO_TRY(read_object(entry, "node " + std::to_string(network->nodes.size()),
                          {{"ranks", count(&node.rank_count, 1)},
                           {"nics", count(&node.nic_count, 1)},
                           {"rack", count(&node.rack, 0)},
                           {"count", count(&repeat, 1)}}));
    if (network->nodes.size() + repeat > sim::sim_rank_count_max)
      return invalid_argument("more than " + std::to_string(sim::sim_rank_count_max) + " nodes");
    network->nodes.insert(network->nodes.end(), repeat, node);
  }
  return {};
}

}  // namespace

Result<void> parse_network(const std::string &text, Network *network) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return invalid_argument("this is not JSON; share/doc/rondo/docs/simulator.md shows an example");
  const Readers slots{{"count", count(&network->slot_count, 2)},
                      {"bytes", count(&network->slot_bytes, 64)},
                      {"ll_bytes", count(&network->ll_slot_bytes, 64)}};
  RONDO_TRY(read_object(json, "the topology",
                        {{"nodes", [network](const Json &value) { return read_nodes(value, network); }},
                         {"links", [network](const Json &value) { return read_links(value, network); }},
                         {"slots", [&slots](const Json &value) { return read_object(value, "slots", slots); }},
                         {"step_us", number(&network->step_us)},
                         {"reduce_GBps", number(&network->reduce_GBps)},
                         {"reduce_send_GBps", number(&network->reduce_send_GBps)},
                         {"copy_GBps", number(&network->copy_GBps)},
                         {"memory_GBps", number(&network->memory_GBps)},
                         {"cores", count(&network->core_count, 0)},
                         {"switch_us", number(&network->switch_us)}}));
  return network->nodes.empty() ? Result<void>() : sim::check_network(*network);
}

Result<std::string> read_json_text(const std::string &path, const char *what, const char *advice) {
  constexpr size_t bytes_max = size_t{64} << 20;
  std::string text;
  if (const auto problem = read_user_file(path, bytes_max, text))
    return invalid_argument("cannot read " + std::string(what) + " " + in_quotes(path) + ": " + *problem + "; " +
                            advice);
  if (text.size() > bytes_max) return invalid_argument(in_quotes(path) + " has more than 64M bytes; " + advice);
  return text;
}

Result<void> read_network(const std::string &path, Network *network) {
  RONDO_TRY_ASSIGN(const std::string text, read_json_text(path, "the topology file", "give the path of a JSON file"));
  auto parsed = parse_network(text, network);
  if (!parsed.ok()) return invalid_argument(path + ": " + parsed.error().message);
  return {};
}

}  // namespace rondo::cli
