// SPDX-License-Identifier: Apache-2.0
// Fuzzes hwloc XML. The result is either a topology whose indices are all valid, or an error of one line.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>

#include "src/topo/distance.h"
#include "tests/fuzz/fuzz.h"

using namespace rondo;

namespace {

void check_devices(const Topology &topology) {
  for (uint32_t index = 0; index < topology.bridges.size(); ++index)
    FUZZ_CHECK(topology.bridges[index].parent == unknown_index || topology.bridges[index].parent < index);
  for (uint32_t a = 0; a < topology.devices.size(); ++a) {
    const Device &device = topology.devices[a];
    FUZZ_CHECK(device.bridge == unknown_index || device.bridge < topology.bridges.size());
    FUZZ_CHECK(device.numa_node == unknown_index || device.numa_node < topology.numa_nodes.size());
    for (const uint32_t pu : device.pus) FUZZ_CHECK(pu < topology.pus.size());
    FUZZ_CHECK(parse_nvlinks(nvlinks_string(device.nvlinks)) == device.nvlinks);
    FUZZ_CHECK(device_at(topology, device.address) == a);
    for (uint32_t b = 0; b < topology.devices.size(); ++b)
      FUZZ_CHECK(device_distance(topology, a, b) == device_distance(topology, b, a));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const auto imported = import_topology({reinterpret_cast<const char *>(data), size});
  if (!imported.ok()) {
    FUZZ_CHECK(imported.error().status == RONDO_ERROR_INVALID_ARGUMENT);
    FUZZ_CHECK(imported.error().message.find('\n') == std::string::npos);
    return 0;
  }
  const Topology &topology = imported.value();
  FUZZ_CHECK(!topology.pus.empty() && !topology.cores.empty());
  std::set<uint32_t> seen;
  for (uint32_t core = 0; core < topology.cores.size(); ++core) {
    FUZZ_CHECK(topology.cores[core].package < topology.package_count);
    FUZZ_CHECK(!topology.cores[core].pus.empty());
    for (const uint32_t pu : topology.cores[core].pus)
      FUZZ_CHECK(pu < topology.pus.size() && topology.pus[pu].core == core && seen.insert(pu).second);
  }
  FUZZ_CHECK(seen.size() == topology.pus.size());
  for (const Cache &cache : topology.caches)
    for (const uint32_t pu : cache.pus) FUZZ_CHECK(pu < topology.pus.size());
  for (const Pu &pu : topology.pus)
    FUZZ_CHECK(topology.numa_nodes.empty() || pu.numa_node < topology.numa_nodes.size());
  check_devices(topology);
  FUZZ_CHECK(usable_core_count(topology) >= 1 && usable_core_count(topology) <= topology.cores.size());
  return 0;
}
