// SPDX-License-Identifier: Apache-2.0
#include "src/topo/binding.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <memory>
#include <thread>

namespace rondo {
namespace {

struct TopologyDeleter {
  void operator()(hwloc_topology_t topology) const { ::hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<hwloc_topology, TopologyDeleter>;

struct BitmapDeleter {
  void operator()(hwloc_bitmap_t bitmap) const { ::hwloc_bitmap_free(bitmap); }
};
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

Processors members(hwloc_const_bitmap_t bitmap) {
  Processors processors;
  for (int index = ::hwloc_bitmap_first(bitmap); index >= 0; index = ::hwloc_bitmap_next(bitmap, index))
    processors.push_back(static_cast<uint32_t>(index));
  return processors;
}

}  // namespace

Result<std::vector<Processors>> allowed_cores() {
  hwloc_topology_t raw = nullptr;
  if (::hwloc_topology_init(&raw) != 0) return system_error("hwloc_topology_init", errno);
  const HwlocTopology topology(raw);
  if (::hwloc_topology_load(raw) != 0) return system_error("hwloc_topology_load", errno);
  const Bitmap allowed(::hwloc_bitmap_alloc());
  if (::hwloc_get_cpubind(raw, allowed.get(), HWLOC_CPUBIND_PROCESS) != 0)
    return system_error("reading the allowed processors (hwloc_get_cpubind)", errno);
  // If the machine does not report cores, each processor counts as one.
  const hwloc_obj_type_t unit = ::hwloc_get_nbobjs_by_type(raw, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  std::vector<Processors> cores;
  const Bitmap usable(::hwloc_bitmap_alloc());
  for (hwloc_obj_t core = nullptr; (core = ::hwloc_get_next_obj_by_type(raw, unit, core)) != nullptr;) {
    ::hwloc_bitmap_and(usable.get(), core->cpuset, allowed.get());
    if (!::hwloc_bitmap_iszero(usable.get())) cores.push_back(members(usable.get()));
  }
  if (cores.empty()) return Error{RONDO_ERROR_UNSUPPORTED, "no core was found that this process may use"};
  return cores;
}

std::vector<Processors> share_cores(const std::vector<Processors> &cores, uint32_t rank_count) {
  if (rank_count < 2 || cores.size() < rank_count) return {};
  std::vector<Processors> shares(rank_count);
  for (size_t core = 0; core < cores.size(); ++core) {
    Processors &share = shares[core * rank_count / cores.size()];
    share.insert(share.end(), cores[core].begin(), cores[core].end());
  }
  return shares;
}

std::vector<Processors> allowed_shares(uint32_t rank_count) {
  if (rank_count < 2 || rank_count > std::thread::hardware_concurrency()) return {};  // checked first, as it is cheap
  const auto cores = allowed_cores();
  return cores.ok() ? share_cores(cores.value(), rank_count) : std::vector<Processors>{};
}

bool bind_to(const Processors &processors) {
  const uint32_t most = *std::max_element(processors.begin(), processors.end());
  const auto free_set = [](cpu_set_t *set) { CPU_FREE(set); };
  const std::unique_ptr<cpu_set_t, decltype(free_set)> set(CPU_ALLOC(most + 1), free_set);
  const size_t set_bytes = CPU_ALLOC_SIZE(most + 1);
  CPU_ZERO_S(set_bytes, set.get());
  for (const uint32_t processor : processors) CPU_SET_S(processor, set_bytes, set.get());
  return ::sched_setaffinity(0, set_bytes, set.get()) == 0;
}

}  // namespace rondo
