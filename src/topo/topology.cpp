// SPDX-License-Identifier: Apache-2.0
// This file reads the machine by hwloc. It does not use hwloc's XML reader: a fuzzer crashed that reader within
// seconds, and the reader of hwloc 2 does not accept files of hwloc 3. Rondo's own reader is in src/topo/xml.cpp.
#include "src/topo/topology.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "src/base/parse.h"
#include "src/base/unique_handle.h"
#include "src/base/user_file.h"
#include "src/topo/device.h"
#include "src/topo/host.h"
#include "src/topo/machine.h"

namespace rondo {
namespace {

struct HwlocTraits {
  using Handle = hwloc_topology_t;
  static constexpr Handle invalid = nullptr;
  static void close(Handle handle) { hwloc_topology_destroy(handle); }
};
using Hwloc = UniqueHandle<HwlocTraits>;

enum class Detail { processors, with_devices };

/// Loads the topology of this machine.
Result<Hwloc> load(Detail detail) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return Error{RONDO_ERROR_OUT_OF_RESOURCES, "hwloc cannot begin"};
  Hwloc hwloc(raw);
  const auto filter = detail == Detail::with_devices ? HWLOC_TYPE_FILTER_KEEP_IMPORTANT : HWLOC_TYPE_FILTER_KEEP_NONE;
  hwloc_topology_set_io_types_filter(raw, filter);
  if (detail == Detail::with_devices) hwloc_topology_set_type_filter(raw, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_ALL);
  // These plugins are not needed. They would load whole runtimes to find devices, and so take long.
  for (const char *component : {"opencl", "cuda", "nvml", "rsmi", "levelzero", "gl"})
    static_cast<void>(hwloc_topology_set_components(raw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, component));
  hwloc_topology_set_flags(raw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);  // keeps disallowed processors, marked
  if (hwloc_topology_load(raw) != 0) return system_error("hwloc cannot read this machine", errno);
  return hwloc;
}

CpuSet cpu_set_of(hwloc_const_bitmap_t bitmap) {
  CpuSet set;
  if (bitmap == nullptr) return set;
  const int last = hwloc_bitmap_last(bitmap);
  for (int index = hwloc_bitmap_first(bitmap); index >= 0 && index <= last; index = hwloc_bitmap_next(bitmap, index))
    set.add(static_cast<uint32_t>(index));
  return set;
}

const char *info(hwloc_obj_t object, const char *name) {
  const char *value = object != nullptr ? hwloc_obj_get_info_by_name(object, name) : nullptr;
  return value != nullptr ? value : "";
}

void add_parts(hwloc_topology_t hwloc, hwloc_obj_type_t type, MachinePart part, std::vector<MachinePart> &parts) {
  const int count = hwloc_get_nbobjs_by_type(hwloc, type);
  for (int index = 0; index < count; ++index) {
    const hwloc_obj_t object = hwloc_get_obj_by_type(hwloc, type, static_cast<unsigned>(index));
    if (object == nullptr || object->cpuset == nullptr) continue;
    part.os_index = object->os_index;
    part.cpus = cpu_set_of(object->cpuset);
    if (part.kind == PartKind::cache && object->attr != nullptr) {
      part.bytes = object->attr->cache.size;
      part.line_bytes = object->attr->cache.linesize;
    }
    if (part.kind == PartKind::numa_node && object->attr != nullptr) part.bytes = object->attr->numanode.local_memory;
    parts.push_back(part);
  }
}

Result<Topology> read(const Hwloc &hwloc) {
  Machine machine;
  add_parts(hwloc.get(), HWLOC_OBJ_PACKAGE, {.kind = PartKind::package}, machine.parts);
  add_parts(hwloc.get(), HWLOC_OBJ_NUMANODE, {.kind = PartKind::numa_node}, machine.parts);
  add_parts(hwloc.get(), HWLOC_OBJ_CORE, {.kind = PartKind::core}, machine.parts);
  add_parts(hwloc.get(), HWLOC_OBJ_PU, {.kind = PartKind::pu}, machine.parts);
  uint32_t level = 0;
  for (const hwloc_obj_type_t type :
       {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE, HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE, HWLOC_OBJ_L5CACHE})
    add_parts(hwloc.get(), type, {.kind = PartKind::cache, .level = ++level}, machine.parts);
  machine.allowed = cpu_set_of(hwloc_topology_get_allowed_cpuset(hwloc.get()));
  machine.processor = info(hwloc_get_obj_by_type(hwloc.get(), HWLOC_OBJ_PACKAGE, 0), "CPUModel");
  if (machine.processor.empty()) machine.processor = info(hwloc_get_root_obj(hwloc.get()), "CPUModel");
  return assemble(machine);
}

/// Marks the processors outside of this process's affinity as not allowed.
void apply_affinity(Topology &topology) {
  constexpr int cpu_count_max = 1 << 16;
  cpu_set_t *set = CPU_ALLOC(cpu_count_max);
  if (set == nullptr) return;
  const size_t set_bytes = CPU_ALLOC_SIZE(cpu_count_max);
  if (::sched_getaffinity(0, set_bytes, set) == 0)
    for (Pu &pu : topology.pus) pu.allowed = pu.allowed && CPU_ISSET_S(pu.os_index, set_bytes, set);
  CPU_FREE(set);
}

Result<std::string> read_file(const std::string &path) {
  const UserFile opened = open_user_file(path);
  const FileDescriptor file(opened.descriptor);
  std::string text;
  std::optional<std::string> problem = opened.problem;
  if (file.valid()) problem = read_open_file(file.get(), xml_bytes_max, text);
  if (!problem) return text;
  return invalid_argument("RONDO_TOPOLOGY_FILE: cannot read " + in_quotes(path) + ": " + *problem +
                          "; make one with rondo info --topology-xml FILE, or unset the variable");
}

/// Returns whether import_topology() would read the object as a device.
bool is_gpu(hwloc_obj_t object) {
  constexpr unsigned nvidia = 0x10de;
  constexpr unsigned display_controller = 0x03;
  const auto &pci = object->attr->pcidev;
  return pci.vendor_id == nvidia && pci.class_id >> 8 == display_controller;
}

/// Returns the PCI object of a device. If hwloc sees no GPU at that address, returns a Misc object. Null: no memory.
hwloc_obj_t object_of(hwloc_topology_t hwloc, const PciAddress &address) {
  const hwloc_obj_t on_pci =
      hwloc_get_pcidev_by_busid(hwloc, address.domain, address.bus, address.device, address.function);
  if (on_pci != nullptr && is_gpu(on_pci)) return on_pci;
  const std::string name = std::string(device_mark) + pci_address_string(address);
  hwloc_obj_t known = nullptr;  // not null if hwloc itself has read a file that Rondo wrote
  while ((known = hwloc_get_next_obj_by_type(hwloc, HWLOC_OBJ_MISC, known)) != nullptr)
    if (known->name != nullptr && name == known->name) return known;
  return hwloc_topology_insert_misc_object(hwloc, hwloc_get_root_obj(hwloc), name.c_str());
}

/// Writes NVML's facts about a device into hwloc's tree. Facts from a file are not replaced.
Result<void> annotate(hwloc_topology_t hwloc, const Device &device) {
  const hwloc_obj_t object = object_of(hwloc, device.address);
  const auto add = [object](const char *name, const std::string &value) {
    return hwloc_obj_get_info_by_name(object, name) != nullptr || hwloc_obj_add_info(object, name, value.c_str()) == 0;
  };
  if (object != nullptr && (device.uuid.empty() || add(device_uuid_info, device.uuid)) &&
      (!device.nvlinks_known || add(device_nvlinks_info, nvlinks_string(device.nvlinks))))
    return {};
  return Error{RONDO_ERROR_OUT_OF_RESOURCES, "hwloc cannot take what NVML says of a device"};
}

struct MachineXml {
  std::string xml;
  std::string nvml_error;  ///< as in DeviceDiscovery
  bool is_this_machine = true;
};

/// Describes this machine with its devices and network cards. If `nvml_library` is null, NVML is not used.
Result<MachineXml> machine_xml(const std::string *nvml_library) {
  MachineXml out;
  RONDO_TRY_ASSIGN(const Hwloc hwloc, load(Detail::with_devices));
  if (nvml_library != nullptr) {
    const auto devices = ask_nvml(*nvml_library);
    if (!devices.ok()) out.nvml_error = devices.error().message;
    for (const Device &device : devices.ok() ? devices.value() : std::vector<Device>())
      RONDO_TRY(annotate(hwloc.get(), device));
  }
  char *text = nullptr;
  int bytes = 0;
  if (hwloc_topology_export_xmlbuffer(hwloc.get(), &text, &bytes, 0) != 0)
    return system_error("hwloc cannot write the topology as XML", errno);
  out.xml = text;
  hwloc_free_xmlbuffer(hwloc.get(), text);
  out.is_this_machine = hwloc_topology_is_thissystem(hwloc.get()) != 0;
  return out;
}

/// Adds the limits of this process to the machine's topology.
void add_process_limits(Topology &topology, bool is_this_machine) {
  topology.injected = !is_this_machine;  // a variable of hwloc may also inject a topology
  if (!is_this_machine) return;
  apply_affinity(topology);
  topology.processor_limit = processor_limit();
}

/// Adds the file to the error of an import.
Error of_file(const std::string &path, Error error) {
  error.message = "RONDO_TOPOLOGY_FILE: " + in_quotes(path) + ": " + error.message;
  return error;
}

/// Makes the topology from the machine's XML, so that a machine and a file of that machine give the same topology.
Result<Topology> topology_of(const MachineXml &here) {
  auto imported = import_topology(here.xml);
  if (!imported.ok()) {
    Error error = std::move(imported).error();
    error.message = "what hwloc says of this machine cannot be read: " + error.message;
    return error;
  }
  add_process_limits(imported.value(), here.is_this_machine);
  return imported;
}

}  // namespace

Result<Topology> discover_topology(const Config &config) {
  if (!config.topology_file.empty()) {
    RONDO_TRY_ASSIGN(const std::string xml, read_file(config.topology_file));
    auto imported = import_topology(xml);
    if (!imported.ok()) return of_file(config.topology_file, std::move(imported).error());
    return imported;
  }
  RONDO_TRY_ASSIGN(const Hwloc hwloc, load(Detail::processors));
  RONDO_TRY_ASSIGN(Topology topology, read(hwloc));
  add_process_limits(topology, hwloc_topology_is_thissystem(hwloc.get()) != 0);
  return topology;
}

Result<DeviceDiscovery> discover_devices(const Config &config) {
  DeviceDiscovery found;
  if (!config.topology_file.empty()) {
    RONDO_TRY_ASSIGN(found.topology, discover_topology(config));
    return found;
  }
  RONDO_TRY_ASSIGN(const MachineXml here, machine_xml(&config.nvml_library));
  RONDO_TRY_ASSIGN(found.topology, topology_of(here));
  found.nvml_asked = true;
  found.nvml_error = here.nvml_error;
  return found;
}

Result<Topology> discover_nics(const Config &config) {
  if (!config.topology_file.empty()) return discover_topology(config);
  RONDO_TRY_ASSIGN(const MachineXml here, machine_xml(nullptr));
  return topology_of(here);
}

std::vector<std::string> near_rdma_devices(const Topology &topology) {
  std::vector<std::string> names;
  for (const Nic &nic : topology.nics)
    if (nic.kind == NicKind::rdma &&
        std::any_of(nic.pus.begin(), nic.pus.end(), [&](uint32_t pu) { return topology.pus[pu].allowed; }))
      names.push_back(nic.name);
  return names;
}

Result<std::string> export_topology_xml(const Config &config) {
  if (config.topology_file.empty()) {
    RONDO_TRY_ASSIGN(MachineXml here, machine_xml(&config.nvml_library));
    return std::move(here.xml);
  }
  RONDO_TRY_ASSIGN(std::string xml, read_file(config.topology_file));
  if (auto imported = import_topology(xml); !imported.ok())
    return of_file(config.topology_file, std::move(imported).error());
  return xml;
}

uint32_t usable_core_count(const Topology &topology) {
  const auto allowed = allowed_os_indices(topology);
  return usable_core_count(topology, allowed);
}

uint32_t usable_core_count(const Topology &topology, std::span<const uint32_t> os_indices) {
  std::vector<bool> used(topology.cores.size(), false);
  for (const Pu &pu : topology.pus)
    if (std::find(os_indices.begin(), os_indices.end(), pu.os_index) != os_indices.end()) used[pu.core] = true;
  const auto count = static_cast<uint32_t>(std::count(used.begin(), used.end(), true));
  const uint32_t limited = topology.processor_limit == 0 ? count : std::min(count, topology.processor_limit);
  return std::max<uint32_t>(limited, 1);
}

std::vector<uint32_t> allowed_os_indices(const Topology &topology) {
  std::vector<uint32_t> indices;
  for (const Pu &pu : topology.pus)
    if (pu.allowed) indices.push_back(pu.os_index);
  std::sort(indices.begin(), indices.end());
  return indices;
}

}  // namespace rondo
