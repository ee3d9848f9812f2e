// SPDX-License-Identifier: Apache-2.0
// hwloc XML from a stranger: either a topology whose indices all hold, or a refusal in one line.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>

#include "src/topo/topology.h"
#include "tests/fuzz/fuzz.h"

using namespace rondo;

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
  FUZZ_CHECK(usable_core_count(topology) >= 1 && usable_core_count(topology) <= topology.cores.size());
  return 0;
}
