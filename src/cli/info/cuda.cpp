// SPDX-License-Identifier: Apache-2.0
#include "src/cli/info/cuda.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "cuda/driver/budget.h"
#include "cuda/driver/kernel_set.h"
#include "cuda/executors/reach.h"
#include "cuda/executors/segment_memory.h"
#include "cuda/transport/rdma_memory.h"
#include "src/base/spelling.h"
#include "src/cli/info/lines.h"

namespace rondo::cli {
namespace {

using namespace cuda;
using Json = nlohmann::ordered_json;

/// Returns the parts of a rank's memory, or why max_memory_bytes is too small.
Json memory_json(const Result<SegmentMemory> &planned) {
  if (!planned.ok()) return {{"refusal", planned.error().message}};
  const SegmentMemory &memory = planned.value();
  return {{"connections", memory.connections},
          {"places", memory.places},
          {"messages", memory.messages},
          {"plans", memory.plans},
          {"all", memory.all}};
}

/// Adds the resources that the kernels take on the device.
Result<void> add_kernels(const CudaDriver &driver, const CudaDevice &device, const Config &config, uint32_t rank_count,
                         Json &entry) {
  RONDO_TRY_ASSIGN(const PrimaryContext context, retain_primary_context(driver, device.ordinal));
  const auto families = kernel_families(RONDO_DEVICE_EXECUTOR_KERNEL, config.kernel);
  RONDO_TRY_ASSIGN(const KernelSet kernels, KernelSet::load(context, families));
  RONDO_TRY_ASSIGN(const BlockBudget budget, block_budget(kernels, device));
  const uint32_t blocks = connection_channels(config.channels, config.max_ctas);
  entry["budget"] = {{"block_threads", budget.block_threads},
                     {"block_shared_bytes", budget.shared_bytes},
                     {"blocks_per_multiprocessor", budget.blocks_per_multiprocessor},
                     {"blocks", budget.blocks},
                     {"blocks_per_rank", blocks},
                     {"ranks", budget.blocks / (config.channels != 0 ? blocks : 1)},
                     {"slot_memory_bytes", slot_memory_bytes}};
  Settings settings;
  static_cast<Config &>(settings) = config;
  entry["memory"] = {{"ranks", rank_count},
                     {"one_device", memory_json(plan_segment_memory(settings, budget, rank_count, true))},
                     {"several_devices", memory_json(plan_segment_memory(settings, budget, rank_count, false))}};
  RONDO_TRY_ASSIGN(const auto facts, kernel_facts(context));
  Json list = Json::array();
  for (const KernelFacts &kernel : facts)
    list.push_back({{"name", kernel.name},
                    {"registers", kernel.register_count},
                    {"shared_bytes", kernel.shared_bytes},
                    {"local_bytes", kernel.local_bytes},
                    {"block_threads_max", kernel.block_threads_max}});
  entry["kernels"] = std::move(list);
  return {};
}

/// Says whether the slots of a network may lie in the device's memory.
Json gpu_direct_json(const CudaDriver &driver, const CudaDevice &device) {
  const auto ways = gpu_direct_of(driver, device.ordinal);
  if (!ways.ok()) return {{"available", false}, {"why_not", ways.error().message}};
  return {{"available", true},
          {"why_not", nullptr},
          {"flushed_by_host", ways.value().needs_flush},
          {"dmabuf", ways.value().dmabuf}};
}

/// Says which other devices of this process `device` reaches, and how.
Json peers_json(const CudaDriver &driver, const CudaDevice &device, const std::vector<CudaDevice> &all) {
  Json peers = Json::array();
  for (const CudaDevice &other : all) {
    if (other.ordinal == device.ordinal) continue;
    int access = 0;
    if (driver.device_can_access_peer(&access, device.ordinal, other.ordinal) != CuStatus::success) access = 0;
    peers.push_back({{"ordinal", other.ordinal},
                     {"access", access != 0},
                     {"atomics", access != 0 && has_native_atomics(driver, device.ordinal, other.ordinal)}});
  }
  return peers;
}

Json device_json(const CudaDriver &driver, const CudaDevice &device, const std::vector<CudaDevice> &all,
                 const Config &config, uint32_t rank_count) {
  Json entry{{"ordinal", device.ordinal},
             {"name", device.name},
             {"uuid", uuid_text(device.uuid)},
             {"pci_bus_id", device.pci_bus_id},
             {"compute_capability",
              std::to_string(device.compute_capability / 10) + "." + std::to_string(device.compute_capability % 10)},
             {"multiprocessors", device.multiprocessor_count},
             {"memory_bytes", device.memory_bytes},
             {"gpu_direct", gpu_direct_json(driver, device)},
             {"peers", peers_json(driver, device, all)}};
  if (const auto added = add_kernels(driver, device, config, rank_count, entry); !added.ok())
    entry["error"] = added.error().message;
  return entry;
}

Result<void> add_devices(const Config &config, uint32_t rank_count, Json &cuda) {
  RONDO_TRY_ASSIGN(const CudaDriver *const driver, cuda_driver(config.cuda_library));
  cuda["driver"] = cuda_version_string(driver->version);
  RONDO_TRY_ASSIGN(const auto devices, cuda_devices(*driver));
  for (const CudaDevice &device : devices)
    cuda["devices"].push_back(device_json(*driver, device, devices, config, rank_count));
  return {};
}

Json image_json() {
  const device::KernelsImage image = device::kernels_image();
  Json architectures = Json::array();
  for (std::string rest = image.architectures; !rest.empty();) {
    const size_t end = std::min(rest.find(','), rest.size());
    architectures.push_back(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  return {{"bytes", image.bytes}, {"architectures", std::move(architectures)}};
}

// ---- for people ----

std::string image_text(const Json &image) {
  if (image["bytes"] == 0) return "none in this build, because nvcc was missing";
  std::string list;
  for (const Json &each : image["architectures"]) list += (list.empty() ? "" : ", ") + each.get<std::string>();
  return image["bytes"].dump() + " bytes, for architectures " + list;
}

bool takes_the_same(const Json &a, const Json &b) {
  for (const char *what : {"registers", "shared_bytes", "local_bytes", "block_threads_max"})
    if (a[what] != b[what]) return false;
  return true;
}

void add_kernel_lines(std::string &out, const Json &kernels) {
  char line[200];
  std::snprintf(line, sizeof line, "    %-40s %9s %7s %7s %8s\n", "kernel", "registers", "shared", "local", "threads");
  out += line;
  for (size_t first = 0; first < kernels.size();) {
    size_t end = first + 1;
    while (end < kernels.size() && takes_the_same(kernels[first], kernels[end])) ++end;
    const Json &kernel = kernels[first];
    std::string name = kernel["name"];
    if (end - first > 1) name += " and " + std::to_string(end - first - 1) + " more";
    std::snprintf(line, sizeof line, "    %-40s %9s %7s %7s %8s\n", name.c_str(), kernel["registers"].dump().c_str(),
                  kernel["shared_bytes"].dump().c_str(), kernel["local_bytes"].dump().c_str(),
                  kernel["block_threads_max"].dump().c_str());
    out += line;
    first = end;
  }
}

std::string gpu_direct_text(const Json &ways) {
  if (!ways["available"].get<bool>())
    return "no slots of networks in its memory: " + ways["why_not"].get<std::string>();
  return std::string("networks may have slots in its memory (GPUDirect RDMA)") +
         (ways["flushed_by_host"].get<bool>() ? ", which the host flushes" : "") +
         (ways["dmabuf"].get<bool>() ? "; it gives out dmabufs" : "; it gives out no dmabufs");
}

/// Adds a line for each way in which the device reaches others.
void add_peer_lines(std::string &out, const Json &peers) {
  std::string atomics, access, none;
  for (const Json &peer : peers) {
    std::string &list = peer["atomics"].get<bool>() ? atomics : peer["access"].get<bool>() ? access : none;
    list += (list.empty() ? "" : ", ") + peer["ordinal"].dump();
  }
  if (!atomics.empty()) add_line(out, "", "reaches the memory of " + atomics + ", with atomics");
  if (!access.empty()) add_line(out, "", "reaches the memory of " + access + ", without atomics: no shared buffers");
  if (!none.empty())
    add_line(out, "", "does not reach the memory of " + none + ": data to and from them goes through host memory");
}

void add_memory_line(std::string &out, const std::string &who, const Json &memory) {
  if (memory.contains("refusal")) return add_line(out, "", "refused: " + memory["refusal"].get<std::string>());
  const auto text = [&](const char *kind) { return show_volume(memory[kind].get<double>()); };
  add_line(out, "", who + text("all") + " of its memory by kernels: connections " + text("connections") + ", places " +
                        text("places") + ", messages " + text("messages") + ", plans " + text("plans"));
}

void add_device_lines(std::string &out, const Json &device) {
  add_line(out, "device " + device["ordinal"].dump(),
           device["name"].get<std::string>() + ", compute capability " +
               device["compute_capability"].get<std::string>() + ", " + device["multiprocessors"].dump() +
               " multiprocessors, " + show_volume(device["memory_bytes"].get<double>()));
  add_line(out, "", device["uuid"].get<std::string>() + ", PCI " + device["pci_bus_id"].get<std::string>());
  add_line(out, "", gpu_direct_text(device["gpu_direct"]));
  add_peer_lines(out, device["peers"]);
  if (device.contains("error")) add_line(out, "", device["error"]);
  if (!device.contains("budget")) return;
  const Json &budget = device["budget"];
  add_line(out, "",
           budget["blocks"].dump() + " blocks of " + budget["block_threads"].dump() + " threads and " +
               budget["block_shared_bytes"].dump() + " bytes of shared memory fit at once: " + budget["ranks"].dump() +
               " ranks at most");
  add_line(out, "", "slots of a rank take at most " +
                        show_bytes(budget["slot_memory_bytes"].get<uint64_t>()) + " bytes of its memory");
  const Json &memory = device["memory"];
  const std::string ranks = counted(memory["ranks"].get<uint64_t>(), "rank");
  add_memory_line(out, "for " + ranks + " here, each takes ", memory["one_device"]);
  add_memory_line(out, "for " + ranks + " on several devices, each takes ", memory["several_devices"]);
  if (device.contains("kernels")) add_kernel_lines(out, device["kernels"]);
}

}  // namespace

Json cuda_document(const Config &config, uint32_t rank_count) {
  Json cuda{{"library", config.cuda_library},
            {"driver", nullptr},
            {"error", nullptr},
            {"image", image_json()},
            {"devices", Json::array()}};
  if (const auto added = add_devices(config, rank_count, cuda); !added.ok()) cuda["error"] = added.error().message;
  return cuda;
}

std::string cuda_text(const Json &cuda) {
  std::string out = "\nCUDA\n";
  add_line(out, "driver",
           cuda["driver"].is_null()
               ? "none"
               : cuda["library"].get<std::string>() + ", CUDA " + cuda["driver"].get<std::string>());
  if (!cuda["error"].is_null()) out += "    " + cuda["error"].get<std::string>() + "\n";
  add_line(out, "kernels", image_text(cuda["image"]));
  for (const Json &device : cuda["devices"]) add_device_lines(out, device);
  return out;
}

}  // namespace rondo::cli
