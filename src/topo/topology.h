// SPDX-License-Identifier: Apache-2.0
// A Topology describes this machine as an immutable value of plain data. hwloc and NVML provide the data, and only
// src/topo uses them. A Topology can be exported as hwloc XML and injected again (RONDO_TOPOLOGY_FILE). So code that
// depends on a machine's shape can be tried on another machine.
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

/// A processing unit (PU), which is a hardware thread. Other parts of a Topology refer to it by its index in
/// Topology::pus.
struct Pu {
  uint32_t os_index = 0;   ///< the operating system's number, as sched_setaffinity takes it
  uint32_t core = 0;       ///< index in Topology::cores
  uint32_t numa_node = 0;  ///< index in Topology::numa_nodes
  bool allowed = true;     ///< true if this process may run there

  bool operator==(const Pu &) const = default;
};

struct Core {
  uint32_t package = 0;  ///< number of the socket, from 0
  std::vector<uint32_t> pus;

  bool operator==(const Core &) const = default;
};

struct Cache {
  uint32_t level = 1;  ///< 1 is the first level; only data and unified caches count
  uint64_t bytes = 0;
  uint32_t line_bytes = 0;    ///< 0 if unknown
  std::vector<uint32_t> pus;  ///< PUs that share the cache

  bool operator==(const Cache &) const = default;
};

struct NumaNode {
  uint32_t os_index = 0;
  uint64_t memory_bytes = 0;
  std::vector<uint32_t> pus;

  bool operator==(const NumaNode &) const = default;
};

struct Topology {
  std::string processor;  ///< the maker's name of the processor; may be empty
  std::vector<Pu> pus;    ///< in hwloc's order, in which neighbours share most
  std::vector<Core> cores;
  std::vector<Cache> caches;  ///< data and unified caches, innermost level first
  std::vector<NumaNode> numa_nodes;
  uint32_t package_count = 1;
  uint64_t memory_bytes = 0;
  std::vector<PciBridge> bridges;  ///< a parent precedes its children
  std::vector<Device> devices;     ///< in the order of addresses; empty if not requested
  std::vector<Nic> nics;           ///< in the order of names; only cards on PCI, if requested
  uint32_t processor_limit = 0;    ///< processors' time that the cgroup allows, rounded up; 0 for no limit
  bool injected = false;           ///< true if read from XML, so it may describe another machine

  bool operator==(const Topology &) const = default;
};

/// Returns the topology of this machine, without its devices, which take longer to find. If config.topology_file is
/// set, returns that file's content. RONDO_ERROR_INVALID_ARGUMENT: the file cannot be read, or is not such XML.
[[nodiscard]] Result<Topology> discover_topology(const Config &config);

struct DeviceDiscovery {
  Topology topology;
  bool nvml_asked = false;  ///< false if a file has all data
  std::string nvml_error;   ///< why NVML failed; empty if it worked or was not used
};

/// Returns the topology with network cards and with devices. Devices are GPUs that hwloc sees on PCI or that NVML
/// knows, with their NVLinks. Without NVML it is unknown whether devices have NVLinks, which is no error.
[[nodiscard]] Result<DeviceDiscovery> discover_devices(const Config &config);

/// Returns the same without NVML, which is not needed for network cards.
[[nodiscard]] Result<Topology> discover_nics(const Config &config);

/// Returns the RDMA devices for which a processing unit of this process is among the nearest.
[[nodiscard]] std::vector<std::string> near_rdma_devices(const Topology &topology);

/// Reads a topology from hwloc XML, which may be any text. Every PU that the XML allows counts as allowed.
[[nodiscard]] Result<Topology> import_topology(std::string_view xml);

/// Returns everything that discover_devices() would read, as hwloc XML. `lstopo -i F` can show it, too.
[[nodiscard]] Result<std::string> export_topology_xml(const Config &config);

/// Returns how many ranks can run at once without slowing each other down. That is the number of cores with an allowed
/// PU, or fewer if the cgroup allows less processor time. It is at least 1.
[[nodiscard]] uint32_t usable_core_count(const Topology &topology);

/// Returns the same for a group of processes that may use these PUs together, given by their `os_index`.
[[nodiscard]] uint32_t usable_core_count(const Topology &topology, std::span<const uint32_t> os_indices);

/// Returns the operating system's numbers of the allowed PUs, ascending.
[[nodiscard]] std::vector<uint32_t> allowed_os_indices(const Topology &topology);

}  // namespace rondo
