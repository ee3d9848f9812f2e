// SPDX-License-Identifier: Apache-2.0
#include "src/topo/machine.h"

#include <algorithm>
#include <tuple>

#include "src/base/arithmetic.h"

namespace rondo {
namespace {

/// Makes a Topology from the parts. It adds all parts of one sort, then all parts of the next sort. Processing units
/// come first, since the other parts refer to their indices.
class Assembler {
 public:
  explicit Assembler(const Machine &machine) : machine_(machine) {}

  [[nodiscard]] bool add_pus() {
    CpuSet seen;
    for (const MachinePart &part : machine_.parts) {
      if (part.kind != PartKind::pu) continue;
      if (part.os_index > os_index_max || seen.has(part.os_index)) return false;
      seen.add(part.os_index);
      const bool allowed = machine_.allowed.empty() || machine_.allowed.has(part.os_index);
      topology_.pus.push_back({part.os_index, 0, 0, allowed});
    }
    placed_.assign(topology_.pus.size(), false);
    return !topology_.pus.empty();
  }

  /// Adds the cores. If the machine reports no cores, like some virtual machines, each PU gets a core of its own.
  void add_cores() {
    for (const MachinePart &part : machine_.parts)
      if (part.kind == PartKind::core) add_core(pus_within(part.cpus));
    for (uint32_t pu = 0; pu < topology_.pus.size(); ++pu)
      if (!placed_[pu]) add_core({pu});
  }

  void add_packages() {
    uint32_t count = 0;
    for (const MachinePart &part : machine_.parts) {
      if (part.kind != PartKind::package) continue;
      for (Core &core : topology_.cores)
        if (part.cpus.has(topology_.pus[core.pus.front()].os_index)) core.package = count;
      ++count;
    }
    topology_.package_count = std::max<uint32_t>(count, 1);
  }

  void add_caches() {
    for (const MachinePart &part : machine_.parts)
      if (part.kind == PartKind::cache)
        topology_.caches.push_back({part.level, part.bytes, part.line_bytes, pus_within(part.cpus)});
    std::stable_sort(topology_.caches.begin(), topology_.caches.end(),
                     [](const Cache &a, const Cache &b) { return a.level < b.level; });
  }

  [[nodiscard]] bool add_numa_nodes() {
    for (const MachinePart &part : machine_.parts) {
      if (part.kind != PartKind::numa_node) continue;
      const auto sum = checked_add(topology_.memory_bytes, part.bytes);
      if (!sum) return false;
      topology_.memory_bytes = *sum;
      const auto node = static_cast<uint32_t>(topology_.numa_nodes.size());
      topology_.numa_nodes.push_back({part.os_index, part.bytes, pus_within(part.cpus)});
      for (const uint32_t pu : topology_.numa_nodes.back().pus) topology_.pus[pu].numa_node = node;
    }
    return true;
  }

  void add_processor_name() { topology_.processor = printable(machine_.processor); }

  /// Adds the devices. The NUMA nodes must have been added before.
  [[nodiscard]] bool add_devices() {
    topology_.bridges = machine_.bridges;
    for (const DevicePart &part : machine_.devices) {
      Device device = part.device;
      device.uuid = printable(device.uuid);
      place(device, part.cpus);
      topology_.devices.push_back(std::move(device));
    }
    const auto by_address = [](const Device &a, const Device &b) { return a.address < b.address; };
    std::sort(topology_.devices.begin(), topology_.devices.end(), by_address);
    return std::adjacent_find(topology_.devices.begin(), topology_.devices.end(), [](const Device &a, const Device &b) {
             return a.address == b.address;
           }) == topology_.devices.end();
  }

  /// Adds the network cards. The NUMA nodes must have been added before.
  void add_nics() {
    for (const NicPart &part : machine_.nics) {
      Nic nic = part.nic;
      nic.name = printable(nic.name);
      place(nic, part.cpus);
      topology_.nics.push_back(std::move(nic));
    }
    std::sort(topology_.nics.begin(), topology_.nics.end(), [](const Nic &a, const Nic &b) {
      return std::tie(a.name, a.kind, a.address) < std::tie(b.name, b.kind, b.address);
    });
  }

  [[nodiscard]] Topology take() { return std::move(topology_); }

 private:
  /// Returns the text as one short line, because it may come from an untrusted file.
  [[nodiscard]] static std::string printable(const std::string &text) {
    constexpr size_t length_max = 128;
    std::string out;
    for (const char character : text.substr(0, length_max))
      out += character >= ' ' && character <= '~' ? character : '?';
    return out;
  }

  /// Sets the position of a Device or a Nic from the processing units nearest to it.
  template <class OnPci>
  void place(OnPci &it, const CpuSet &cpus) const {
    it.pus = pus_within(cpus);
    it.numa_node = node_of(it.pus);
  }

  /// Returns the smallest NUMA node that contains all of `pus`. If two nodes belong to the same processors, returns the
  /// first node.
  [[nodiscard]] uint32_t node_of(const std::vector<uint32_t> &pus) const {
    uint32_t found = unknown_index;
    if (pus.empty()) return found;
    for (uint32_t node = 0; node < topology_.numa_nodes.size(); ++node) {
      const std::vector<uint32_t> &inside = topology_.numa_nodes[node].pus;  // ascending, as `pus` are
      if (found != unknown_index && topology_.numa_nodes[found].pus.size() <= inside.size()) continue;
      if (std::includes(inside.begin(), inside.end(), pus.begin(), pus.end())) found = node;
    }
    return found;
  }

  [[nodiscard]] std::vector<uint32_t> pus_within(const CpuSet &cpus) const {
    std::vector<uint32_t> inside;
    for (uint32_t index = 0; index < topology_.pus.size(); ++index)
      if (cpus.has(topology_.pus[index].os_index)) inside.push_back(index);
    return inside;
  }

  /// Adds a core. A PU belongs to the first core that lists it; only a faulty XML lists a PU twice.
  void add_core(const std::vector<uint32_t> &pus) {
    Core core;
    for (const uint32_t pu : pus) {
      if (placed_[pu]) continue;
      placed_[pu] = true;
      core.pus.push_back(pu);
      topology_.pus[pu].core = static_cast<uint32_t>(topology_.cores.size());
    }
    if (!core.pus.empty()) topology_.cores.push_back(std::move(core));
  }

  const Machine &machine_;
  Topology topology_;
  std::vector<bool> placed_;  ///< by PU: true if it has a core
};

}  // namespace

Result<void> check_counts(const Machine &machine) {
  if (machine.parts.size() + machine.bridges.size() > part_count_max)
    return invalid_argument("a topology of more than " + std::to_string(part_count_max) + " parts");
  if (machine.devices.size() > device_count_max)
    return invalid_argument("a topology of more than " + std::to_string(device_count_max) + " devices");
  if (machine.nics.size() > nic_count_max)
    return invalid_argument("a topology of more than " + std::to_string(nic_count_max) + " network cards");
  return {};
}

Result<Topology> assemble(const Machine &machine) {
  RONDO_TRY(check_counts(machine));
  Assembler assembler(machine);
  if (!assembler.add_pus())
    return invalid_argument("a topology without processing units, or with one twice, or numbered over " +
                            std::to_string(os_index_max));
  assembler.add_cores();
  assembler.add_packages();
  assembler.add_caches();
  if (!assembler.add_numa_nodes()) return invalid_argument("a topology with more than 2^64 bytes of memory");
  if (!assembler.add_devices()) return invalid_argument("a topology with two devices at one PCI address");
  assembler.add_nics();
  assembler.add_processor_name();
  return assembler.take();
}

}  // namespace rondo
