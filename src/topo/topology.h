// SPDX-License-Identifier: Apache-2.0
// Topology describes this machine as an immutable value of plain data. hwloc and NVML find it out; nothing outside
// src/topo sees either. It can be exported as hwloc XML and injected again (RONDO_TOPOLOGY_FILE). So code that depends
// on a machine's shape can be tried on another.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/config.h"
#include "src/base/result.h"
#include "src/topo/device.h"

namespace rondo {

/// A processing unit: a hardware thread. Elsewhere in a Topology a PU is meant by its index in Topology::pus.
struct Pu {
  uint32_t os_index = 0;   ///< the operating system's number, as sched_setaffinity takes it
  uint32_t core = 0;       ///< index in Topology::cores
  uint32_t numa_node = 0;  ///< index in Topology::numa_nodes
  bool allowed = true;     ///< this process may run there

  bool operator==(const Pu &) const = default;
};

struct Core {
  uint32_t package = 0;  ///< which socket, from 0
  std::vector<uint32_t> pus;

  bool operator==(const Core &) const = default;
};

struct Cache {
  uint32_t level = 1;  ///< 1: the data cache
  uint64_t bytes = 0;
  uint32_t line_bytes = 0;    ///< 0: unknown
  std::vector<uint32_t> pus;  ///< those that share it

  bool operator==(const Cache &) const = default;
};

struct NumaNode {
  uint32_t os_index = 0;
  uint64_t memory_bytes = 0;
  std::vector<uint32_t> pus;

  bool operator==(const NumaNode &) const = default;
};

struct Topology {
  std::string processor;  ///< the maker's name of it; may be empty
  std::vector<Pu> pus;    ///< in hwloc's order: neighbours share most
  std::vector<Core> cores;
  std::vector<Cache> caches;  ///< data and unified ones, innermost level first
  std::vector<NumaNode> numa_nodes;
  uint32_t package_count = 1;
  uint64_t memory_bytes = 0;
  std::vector<PciBridge> bridges;  ///< a parent comes before its children
  std::vector<Device> devices;     ///< by address; none where nobody asked for them
  std::vector<Nic> nics;           ///< by name, likewise; those on PCI
  uint32_t processor_limit = 0;    ///< processors' worth of time that the cgroup grants, rounded up; 0 for no limit
  bool injected = false;           ///< from XML; not (necessarily) this machine

  bool operator==(const Topology &) const = default;
};

/// Returns this machine, or config.topology_file. This machine comes without its devices, which take longer to find.
/// RONDO_ERROR_INVALID_ARGUMENT: the file cannot be read, or is no such XML.
[[nodiscard]] Result<Topology> discover_topology(const Config &config);

struct DeviceDiscovery {
  Topology topology;
  bool nvml_asked = false;  ///< no: the file says it all
  std::string nvml_error;   ///< why NVML failed; empty if it worked, or was not asked
};

/// Returns the topology with network cards and with devices: GPUs that hwloc sees on PCI, or NVML knows, with their
/// NVLinks. Without NVML it is unknown whether devices have NVLinks, which is no error.
[[nodiscard]] Result<DeviceDiscovery> discover_devices(const Config &config);

/// Returns the same without asking NVML, which network cards do not need.
[[nodiscard]] Result<Topology> discover_nics(const Config &config);

/// Returns the RDMA devices that have a processing unit of this process among their nearest.
[[nodiscard]] std::vector<std::string> near_rdma_devices(const Topology &topology);

/// Reads a topology from hwloc XML; the text may be anything. Every PU that the XML allows counts as allowed.
[[nodiscard]] Result<Topology> import_topology(std::string_view xml);

/// Returns all that discover_devices() would read, as hwloc XML (which `lstopo -i F` shows, too).
[[nodiscard]] Result<std::string> export_topology_xml(const Config &config);

/// Returns how many ranks can run at once without disturbing each other: the number of cores with an allowed PU, or
/// fewer if the cgroup grants less. At least 1.
[[nodiscard]] uint32_t usable_core_count(const Topology &topology);

/// Returns the same for a group of processes that together may run on these PUs (operating system's numbers).
[[nodiscard]] uint32_t usable_core_count(const Topology &topology, std::span<const uint32_t> os_indices);

/// Returns the operating system's numbers of the allowed PUs, ascending.
[[nodiscard]] std::vector<uint32_t> allowed_os_indices(const Topology &topology);

}  // namespace rondo
