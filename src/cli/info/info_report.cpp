// SPDX-License-Identifier: Apache-2.0
#include "src/cli/info/info_report.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include <nlohmann/json.hpp>

#include "cuda/driver/kernel_set.h"
#include "src/base/names.h"
#include "src/cli/info/cuda.h"
#include "src/cli/info/devices.h"
#include "src/cli/info/nics.h"
#include "src/cli/tune/tuner_input.h"
#include "src/engine/reduction/reduction.h"
#include "src/plan/collective.h"
#include "src/topo/host.h"
#include "transports/hosts/congestion.h"
#include "transports/ucx/ucx_network.h"
#include "transports/verbs/verbs_network.h"

namespace rondo::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<uint64_t, 7> shown_bytes{8, 1u << 10, 16u << 10, 128u << 10, 1u << 20, 16u << 20, 256u << 20};

Json caches_json(const Topology &topology) {
  std::map<std::tuple<uint32_t, uint64_t, uint32_t, size_t>, uint32_t> kinds;  // equal caches are counted
  for (const Cache &cache : topology.caches) ++kinds[{cache.level, cache.bytes, cache.line_bytes, cache.pus.size()}];
  Json list = Json::array();
  for (const auto &[kind, count] : kinds) {
    const auto &[level, bytes, line_bytes, pu_count] = kind;
    list.push_back(
        {{"level", level}, {"bytes", bytes}, {"line_bytes", line_bytes}, {"count", count}, {"shared_by", pu_count}});
  }
  return list;
}

Json topology_json(const Topology &topology) {
  Json nodes = Json::array();
  for (const NumaNode &node : topology.numa_nodes) {
    Json pus = Json::array();
    for (const uint32_t pu : node.pus) pus.push_back(topology.pus[pu].os_index);
    nodes.push_back({{"index", node.os_index}, {"memory_bytes", node.memory_bytes}, {"processing_units", pus}});
  }
  return {{"source", topology.injected ? "injected" : "this machine"},
          {"processor", topology.processor},
          {"packages", topology.package_count},
          {"cores", topology.cores.size()},
          {"processing_units", topology.pus.size()},
          {"allowed", allowed_os_indices(topology)},
          {"processor_limit", topology.processor_limit},
          {"usable_cores", usable_core_count(topology)},
          {"memory_bytes", topology.memory_bytes},
          {"caches", caches_json(topology)},
          {"numa_nodes", nodes}};
}

Json configuration_json(const Config &config) {
  Json list = Json::array();
  for (const ConfigVariable &variable : config_variables()) {
    const bool given = std::find(config.given.begin(), config.given.end(), variable.name) != config.given.end();
    list.push_back(
        {{"variable", variable.name}, {"value", variable.show(config)}, {"source", given ? "environment" : "default"}});
  }
  return list;
}

/// Describes the table that the tuner uses before its built-in one, with its groups by collective and ranks.
Json tuning_json(const InfoInput &input) {
  Json covered = Json::array();
  for (const TuningRow &row : input.table.rows()) {
    Json entry{{"collective", rondo_collective_string(row.collective)},
               {"ranks", row.rank_count},
               {"oversubscribed", row.oversubscribed}};
    if (row.several_hosts) entry["several_hosts"] = true;
    if (row.buffers != BufferPlace::host) entry["buffers"] = buffer_place_string(row.buffers);
    if (covered.empty() || covered.back() != entry) covered.push_back(std::move(entry));
  }
  return {{"table", input.config.tuning_file.empty() ? "built in" : input.config.tuning_file},
          {"rows", input.table.rows().size()},
          {"measured", covered}};
}

Json choice_json(TunerInput input) {
  const auto chosen = choose_plan(input);
  Json choice{{"collective", rondo_collective_string(input.collective)}, {"bytes", input.bytes}};
  if (!chosen.ok()) {
    choice["error"] = chosen.error().message;
    return choice;
  }
  choice["algorithm"] = rondo_algorithm_string(chosen.value().algorithm);
  choice["kernel"] = rondo_kernel_string(chosen.value().kernel);
  choice["protocol"] = rondo_protocol_string(chosen.value().protocol);
  choice["channels"] = chosen.value().channels;
  choice["chunk_bytes"] = chosen.value().chunk_bytes;
  return choice;
}

Json plans_json(const InfoInput &input) {
  const uint32_t ranks_a_host = (input.rank_count + input.host_count - 1) / input.host_count;
  const bool oversubscribed = ranks_a_host > usable_core_count(input.found.topology);
  TunerInput tuner = tuner_input(input.config, input.rank_count, oversubscribed, input.host_count);
  tuner.table = &input.table;
  Json choices = Json::array();
  for (const Collective &each : collective_table) {
    if (!has_schedule(each.id)) continue;
    tuner.collective = each.id;
    for (const uint64_t bytes : shown_bytes) {
      tuner.bytes = bytes;
      choices.push_back(choice_json(tuner));
      if (!each.has_data) break;
    }
  }
  const MemoryPlan memory = memory_plan(input.config, input.rank_count, input.host_count);
  return {{"ranks", tuner.rank_count},
          {"hosts", input.host_count},
          {"oversubscribed", tuner.oversubscribed},
          {"slot_count", tuner.slot_count},
          {"slot_bytes", tuner.slot_bytes},
          {"ll_slot_bytes", tuner.ll_slot_bytes},
          {"post_bytes", tuner.post_bytes},
          {"exchange_chunk_bytes", tuner.exchange_chunk_bytes},
          {"shared_bytes", memory.shared_bytes},
          {"memory_bytes", memory.memory_bytes},
          {"memory_refusal", memory.refusal},
          {"choices", choices}};
}

Json ucx_json(const ucx::Report &report) {
  return {{"found", report.found},
          {"version", report.version},
          {"transports", report.transports},
          {"takes_cuda_memory", report.takes_cuda_memory},
          {"why_not", report.why_not}};
}

Json verbs_json(const verbs::Report &report) {
  Json ports = Json::array();
  for (const verbs::Port &port : report.ports) {
    Json gids = Json::array();
    for (const verbs::Gid &gid : port.gids) gids.push_back(gid.describe());
    ports.push_back({{"device", port.device},
                     {"port", port.number},
                     {"active", port.active},
                     {"mtu_bytes", port.mtu_bytes},
                     {"gids", gids}});
  }
  return {{"found", report.found},
          {"ports", ports},
          {"registers_dmabufs", report.registers_dmabufs},
          {"nvidia_peermem", report.has_peermem},
          {"why_not", report.why_not}};
}

}  // namespace

Json info_document(const InfoInput &input) {
  const Capabilities &can = input.capabilities;
  const auto host = host_id();
  const auto congestion = hosts::Congestion::make(input.config.tcp_congestion);
  const Json cuda = cuda_document(input.config, input.rank_count);
  const ucx::Report ucx = ucx::look_for_ucx();
  const verbs::Report verbs = verbs::look_for_verbs();
  const bool has_kernels = device::kernels_image().data != nullptr;
  return {{"version", version_text()},
          {"components", {{"host", true}, {"cuda", has_kernels}, {"ucx", ucx.built}, {"verbs", verbs.built}}},
          {"host",
           {{"name", host_name()},
            {"id", host.ok() ? host.value() : host.error().message},
            {"tcp_congestion", congestion.ok() ? congestion.value().describe() : congestion.error().message}}},
          {"topology", topology_json(input.found.topology)},
          {"simd", reduce_target()},
          {"configuration", configuration_json(input.config)},
          {"capabilities",
           {{"memfd", can.memfd},
            {"reopen_own_descriptor", can.own_descriptor},
            {"reopen_peer_descriptor", can.peer_descriptor},
            {"process_vm_readv", can.peer_memory},
            {"death_noticed_by", can.death_noticed_by},
            {"yama_ptrace_scope", can.ptrace_scope < 0 ? Json(nullptr) : Json(can.ptrace_scope)}}},
          {"transports", Json::array({{{"name", "shm"}, {"available", can.memfd}},
                                      {{"name", "tcp"}, {"available", true}},
                                      {{"name", "ucx"}, {"available", ucx.why_not.empty()}},
                                      {{"name", "verbs"}, {"available", verbs.why_not.empty()}}})},
          {"ucx", ucx_json(ucx)},
          {"verbs", verbs_json(verbs)},
          {"cuda", cuda},
          {"devices", devices_document(input.found, input.config.nvml_library, cuda)},
          {"nics", nics_document(input.found.topology)},
          {"tuning", tuning_json(input)},
          {"plans", plans_json(input)}};
}

}  // namespace rondo::cli
