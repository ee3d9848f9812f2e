// SPDX-License-Identifier: Apache-2.0
// A Topology describes this machine as an immutable value of plain data. hwloc and NVML provide the data, and only
// src/topo uses them. A Topology can be exported as hwloc XML and read again (RONDO_TOPOLOGY_FILE). So code that
// depends on a machine's shape can be tested on another machine.
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
  bool allowed = true;     ///< true if this process may run on it

  bool operator==(const Pu &) const = default;
};

struct Core {
  uint32_t package = 0;  ///< number of the socket, from 0
  std::vector<uint32_t> pus;

  bool operator==(const Core &) const = default;
};

struct Cache {
  uint32_t level = 1;  ///< level from 1, counted over data and unified caches only
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
  std::vector<Pu> pus;    ///< in hwloc's order, in which neighbours share the most caches
  std::vector<Core> cores;
  std::vector<Cache> caches;  ///< data and unified caches, innermost level first
  std::vector<NumaNode> numa_nodes;
  uint32_t package_count = 1;
  uint64_t memory_bytes = 0;
  std::vector<PciBridge> bridges;  ///< a parent precedes its children
  std::vector<Device> devices;     ///< in the order of addresses; empty if not requested
  std::vector<Nic> nics;           ///< cards on PCI, in the order of names; empty if not requested
  uint32_t processor_limit = 0;    ///< processors whose time the cgroup allows, rounded up; 0 for no limit
  bool injected = false;           ///< true if read from XML, which may describe another machine

  bool operator==(const Topology &) const = default;
};

/// Returns the topology of this machine, without its devices, which take longer to find. If config.topology_file is
/// set, returns that file's content. RONDO_ERROR_INVALID_ARGUMENT: the file cannot be read, or is not hwloc XML.
[[nodiscard]] Result<Topology> discover_topology(const Config &config);

struct DeviceDiscovery {
  Topology topology;
  bool nvml_asked = false;  ///< false if NVML was not asked, as a file has all data
  std::string nvml_error;   ///< why NVML failed; empty if it worked or was not used
};

/// Returns the topology with network cards and with devices. Devices are GPUs that hwloc sees on PCI or that NVML
/// knows, with their NVLinks. Without NVML it is unknown whether devices have NVLinks, which is no error.
[[nodiscard]] Result<DeviceDiscovery> discover_devices(const Config &config);

/// Returns the topology with network cards, as discover_devices() does, but without NVML, which cards do not need.
[[nodiscard]] Result<Topology> discover_nics(const Config &config);

/// Returns the RDMA devices whose nearest processing units include one that this process may use.
[[nodiscard]] std::vector<std::string> near_rdma_devices(const Topology &topology);

/// Reads a topology from hwloc XML, which may be any text. Every PU that the XML allows counts as allowed.
[[nodiscard]] Result<Topology> import_topology(std::string_view xml);

/// Returns the topology that discover_devices() would return, as hwloc XML. `lstopo -i F` shows a file F of this XML.
[[nodiscard]] Result<std::string> export_topology_xml(const Config &config);

/// Returns how many ranks can run at once without slowing each other down. That is the number of cores with an allowed
/// PU, or fewer if the cgroup allows less processor time. It is at least 1.
[[nodiscard]] uint32_t usable_core_count(const Topology &topology);

/// Returns how many ranks can run at once if all of them together may use only the PUs of `os_indices`.
[[nodiscard]] uint32_t usable_core_count(const Topology &topology, std::span<const uint32_t> os_indices);

/// Returns the operating system's numbers of the allowed PUs, ascending.
[[nodiscard]] std::vector<uint32_t> allowed_os_indices(const Topology &topology);

}  // namespace rondo
