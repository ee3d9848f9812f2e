// SPDX-License-Identifier: Apache-2.0
// A Machine is the form between the sources of a topology (hwloc, XML) and the Topology. It is a flat list of parts,
// each with the processors that it covers. Only assemble() turns a Machine into a Topology, so the checks in assemble()
// apply to every source.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "src/topo/topology.h"

namespace rondo {

inline constexpr uint32_t os_index_max = 16'383;  ///< largest number of a processing unit
inline constexpr size_t part_count_max = 16'384;  ///< limit on all parts; the largest machines have about 10,000
inline constexpr size_t xml_bytes_max = size_t{16} << 20;

/// A set of processing units, by the operating system's numbers. Numbers above os_index_max are ignored.
class CpuSet {
 public:
  void add(uint32_t index) {
    if (index > os_index_max) return;
    if (index / 64 >= words_.size()) words_.resize(index / 64 + 1);
    words_[index / 64] |= uint64_t{1} << (index % 64);
  }
  [[nodiscard]] bool has(uint32_t index) const {
    return index / 64 < words_.size() && (words_[index / 64] >> (index % 64) & 1) != 0;
  }
  [[nodiscard]] bool empty() const { return words_.empty(); }

 private:
  std::vector<uint64_t> words_;
};

enum class PartKind : uint8_t { package, numa_node, core, pu, cache };

struct MachinePart {
  PartKind kind = PartKind::pu;
  uint32_t os_index = 0;
  uint32_t level = 0;       ///< level of a cache, from 1
  uint32_t line_bytes = 0;  ///< line size of a cache
  uint64_t bytes = 0;       ///< size of a cache, or of a NUMA node's memory
  CpuSet cpus{};
};

struct DevicePart {
  Device device;  ///< without the fields that follow from `cpus`
  CpuSet cpus;    ///< nearest processors; empty if unknown
};

struct NicPart {
  Nic nic;      ///< without the fields that follow from `cpus`
  CpuSet cpus;  ///< nearest processors; empty if unknown
};

struct Machine {
  std::string processor;
  CpuSet allowed;  ///< allowed processing units; empty means all
  std::vector<MachinePart> parts;
  std::vector<PciBridge> bridges;
  std::vector<DevicePart> devices;
  std::vector<NicPart> nics;
};

// Rondo adds devices to hwloc's XML. If hwloc sees a device, the device is hwloc's PCI object. Otherwise, it is a Misc
// object, whose name is the mark and the address. The device's attributes are <info> elements in the object. When hwloc
// reads and writes the XML, it keeps them.
inline constexpr std::string_view device_mark = "RondoDevice ";
inline constexpr const char *device_uuid_info = "RondoUUID";
inline constexpr const char *device_nvlinks_info = "RondoNVLinks";  ///< nvlinks_string()

/// Checks the counts. RONDO_ERROR_INVALID_ARGUMENT: there are more objects of one sort than any machine has.
[[nodiscard]] Result<void> check_counts(const Machine &machine);

/// Assembles the topology. RONDO_ERROR_INVALID_ARGUMENT: there is no processing unit, a unit or a device is listed
/// twice, or there are more parts than any machine has.
[[nodiscard]] Result<Topology> assemble(const Machine &machine);

}  // namespace rondo
