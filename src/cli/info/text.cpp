// SPDX-License-Identifier: Apache-2.0
// This file prints the document of info_report.cpp for people.
#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "src/base/parse.h"
#include "src/cli/info/cuda.h"
#include "src/cli/info/devices.h"
#include "src/cli/info/lines.h"
#include "src/cli/info/nics.h"
#include "src/cli/info/info_report.h"

namespace rondo::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t name_width = 26;

std::string words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

/// Returns text such as "15.6G bytes".
std::string near_bytes(const Json &bytes) { return show_volume(bytes.get<double>()); }

std::string yes_or_no(const Json &value) { return value.get<bool>() ? "yes" : "no"; }

void add_topology(std::string &out, const Json &topology) {
  out += "\nTopology\n";
  add_line(out, "source", topology["source"]);
  add_line(out, "processor", topology["processor"]);
  add_line(out, "packages", topology["packages"].dump());
  add_line(out, "cores", topology["cores"].dump());
  add_line(out, "processing units", topology["processing_units"].dump());
  add_line(out, "allowed", ranges(topology["allowed"].get<std::vector<uint32_t>>()));
  const auto limit = topology["processor_limit"].get<uint32_t>();
  add_line(out, "processor limit", limit == 0 ? "none" : std::to_string(limit));
  add_line(out, "usable cores", topology["usable_cores"].dump());
  add_line(out, "memory", near_bytes(topology["memory_bytes"]));
  for (const Json &cache : topology["caches"])
    add_line(out, "L" + cache["level"].dump() + " cache",
             cache["count"].dump() + " x " + near_bytes(cache["bytes"]) + ", lines of " +
                 cache["line_bytes"].dump() + " bytes, each shared by " +
                 counted(cache["shared_by"].get<uint64_t>(), "processing unit"));
  for (const Json &node : topology["numa_nodes"])
    add_line(out, "NUMA node " + node["index"].dump(),
             near_bytes(node["memory_bytes"]) + ", processing units " +
                 ranges(node["processing_units"].get<std::vector<uint32_t>>()));
}

void add_ucx(std::string &out, const Json &ucx) {
  out += "\nUCX\n";
  add_line(out, "version", ucx["found"].get<bool>() ? ucx["version"].get<std::string>() : "none");
  if (!ucx["why_not"].get<std::string>().empty()) {
    add_line(out, "why not", ucx["why_not"]);
    return;
  }
  std::string transports;
  for (const Json &transport : ucx["transports"])
    transports += (transports.empty() ? "" : ", ") + transport.get<std::string>();
  add_line(out, "transports", transports.empty() ? "none" : transports);
  add_line(out, "takes CUDA memory", yes_or_no(ucx["takes_cuda_memory"]));
}

std::string device_memory_text(const Json &verbs) {
  const bool by_dmabuf = verbs["registers_dmabufs"].get<bool>(), by_module = verbs["nvidia_peermem"].get<bool>();
  if (by_dmabuf)
    return std::string("by dmabuf, where the driver of the network card does") +
           (by_module ? "; else by nvidia-peermem" : "; nvidia-peermem is not loaded");
  return by_module ? "by nvidia-peermem" : "no: libibverbs registers no dmabufs, and nvidia-peermem is not loaded";
}

void add_verbs(std::string &out, const Json &verbs) {
  out += "\nRDMA verbs\n";
  add_line(out, "library", verbs["found"].get<bool>() ? "libibverbs" : "none");
  for (const Json &port : verbs["ports"]) {
    std::string text = port["active"].get<bool>() ? "active, MTU " + port["mtu_bytes"].dump() : "down";
    for (const Json &gid : port["gids"]) text += "; " + gid.get<std::string>();
    add_line(out, port["device"].get<std::string>() + " port " + port["port"].dump(), text);
  }
  if (verbs["found"].get<bool>()) add_line(out, "takes CUDA memory", device_memory_text(verbs));
  if (!verbs["why_not"].get<std::string>().empty()) add_line(out, "why not", verbs["why_not"]);
}

void add_tuning(std::string &out, const Json &tuning) {
  out += "\nTuning\n";
  add_line(out, "table", tuning["table"]);
  if (tuning["rows"] == 0) return;
  add_line(out, "rows", tuning["rows"].dump());
  for (const Json &entry : tuning["measured"])
    add_line(out, entry["collective"],
             entry["ranks"].dump() + " ranks" + (entry["oversubscribed"].get<bool>() ? ", more than cores" : "") +
                 (entry.contains("several_hosts") ? ", on several hosts" : "") +
                 (entry.contains("buffers") ? ", buffers: " + entry["buffers"].get<std::string>() : ""));
}

void add_memory(std::string &out, const Json &plans) {
  out += "\nShared memory of " + counted(plans["ranks"].get<uint64_t>(), "rank") + "\n";
  if (const std::string refusal = plans["memory_refusal"]; !refusal.empty()) return add_line(out, "refused", refusal);
  add_line(out, "reserved",
           near_bytes(plans["memory_bytes"]) + (plans["hosts"] != 1 ? " on a host" : "") +
               "; pages are used only where they are touched");
  if (plans["post_bytes"] != 0)
    add_line(out, "load_store",
             "posts of " + show_bytes(plans["post_bytes"].get<uint64_t>()) + " bytes, chunks of " +
                 show_bytes(plans["exchange_chunk_bytes"].get<uint64_t>()) + " bytes");
}

void add_plans(std::string &out, const Json &plans) {
  out += "\nPlans for " + counted(plans["ranks"].get<uint64_t>(), "rank") +
         (plans["hosts"] != 1 ? " on " + plans["hosts"].dump() + " hosts" : "") +
         (plans["oversubscribed"].get<bool>() ? ", which are more than there are cores" : "") + "; a connection has " +
         plans["slot_count"].dump() + " slots of " + show_bytes(plans["slot_bytes"].get<uint64_t>()) +
         " bytes (ll: " + show_bytes(plans["ll_slot_bytes"].get<uint64_t>()) + ")\n";
  char line[160];
  std::snprintf(line, sizeof line, "  %-15s %8s  %-17s %-10s %8s %8s\n", "collective", "bytes", "algorithm", "protocol",
                "channels", "chunk");
  out += line;
  for (const Json &choice : plans["choices"]) {
    const std::string collective = choice["collective"];
    const std::string bytes = show_bytes(choice["bytes"].get<uint64_t>());
    std::snprintf(line, sizeof line, "  %-15s %8s  ", collective.c_str(), bytes.c_str());
    out += line;
    if (choice.contains("error")) {
      out += choice["error"].get<std::string>() + "\n";
      continue;
    }
    const std::string algorithm = choice["algorithm"];
    const std::string kernel = choice["kernel"];  // a special kernel is shown instead of the interpreter's protocol
    const std::string protocol = choice[kernel == "interpreter" ? "protocol" : "kernel"];
    const std::string chunk = show_bytes(choice["chunk_bytes"].get<uint64_t>());
    std::snprintf(line, sizeof line, "%-17s %-10s %8s %8s\n", algorithm.c_str(), protocol.c_str(),
                  choice["channels"].dump().c_str(), chunk.c_str());
    out += line;
  }
}

}  // namespace

void add_line(std::string &out, std::string name, const std::string &value) {
  name.resize(std::max(name.size() + 1, name_width), ' ');
  out += "  " + name + value + "\n";
}

std::string ranges(const std::vector<uint32_t> &numbers) {
  std::string out;
  for (size_t first = 0; first < numbers.size();) {
    size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (!out.empty()) out += ",";
    out += std::to_string(numbers[first]);
    if (last > first) out += "-" + std::to_string(numbers[last]);
    first = last + 1;
  }
  return out.empty() ? "none" : out;
}

std::string info_text(const Json &document) {
  std::string out = "rondo " + document["version"].get<std::string>() + "\n\nComponents\n";
  for (const auto &[name, built] : document["components"].items())
    add_line(out, name, built.get<bool>() ? "built in" : "not built in");
  for (const Json &transport : document["transports"])
    add_line(out, "transport " + transport["name"].get<std::string>(),
             transport["available"].get<bool>() ? "available" : "not available");
  add_line(out, "instructions", document["simd"]);
  out += "\nHost\n";
  add_line(out, "name", document["host"]["name"]);
  add_line(out, "id", document["host"]["id"]);
  add_line(out, "shares memory with", "ranks whose host has the same id: one kernel, one PID, network and user "
                                      "namespace; a network joins it with others");
  add_line(out, "links over TCP", "congestion control: " + document["host"]["tcp_congestion"].get<std::string>());
  add_topology(out, document["topology"]);
  out += "\nWhat peers may do here\n";
  for (const auto &[name, value] : document["capabilities"].items())
    add_line(out, words(name), value.is_boolean()  ? yes_or_no(value)
                               : value.is_null()   ? "none"
                               : value.is_string() ? value.get<std::string>()
                                                   : value.dump());
  out += "\nConfiguration\n";
  for (const Json &entry : document["configuration"]) {
    std::string value = entry["value"];
    const std::string_view variable = entry["variable"].get_ref<const std::string &>();
    if (value.empty()) value = variable == "RONDO_INTERFACE" || variable == "RONDO_IB_HCA" ? "any" : "none";
    add_line(out, std::string(variable), value + " (" + entry["source"].get<std::string>() + ")");
  }
  add_ucx(out, document["ucx"]);
  add_verbs(out, document["verbs"]);
  out += cuda_text(document["cuda"]);
  out += devices_text(document["devices"]);
  out += nics_text(document["nics"]);
  add_tuning(out, document["tuning"]);
  add_memory(out, document["plans"]);
  add_plans(out, document["plans"]);
  return out;
}

}  // namespace rondo::cli
