// SPDX-License-Identifier: Apache-2.0
// The kernels of load_store: an all-reduce without steps or links, by one_shot (load_store_one_shot.h) or by two_shot
// over the places of all ranks, or any collective of ranks that share their buffers (load_store_place.h has the layout
// and the order of accesses). A block has one channel, and all of its threads are a group. The result is bit for bit
// that of the schedule of one_shot or two_shot that the plan names.
#pragma once

#include <cstdint>

#include "cuda/kernels/load_store_one_shot.h"
#include "cuda/kernels/load_store_shared.h"
#include "cuda/kernels/load_store_two_shot.h"

namespace rondo::device {

/// Shared memory of a block: what its group has for itself, and what it knows of each rank.
[[nodiscard]] RONDO_HD constexpr uint32_t load_store_shared_bytes(uint32_t rank_count) {
  return shared_bytes_for(1, 0) + static_cast<uint32_t>(sizeof(KernelEnds) + rank_count * sizeof(SharedBuffers));
}

/// An all-reduce in shared buffers that cannot be read goes through the places, in the same kernel. Types of 8 bits go
/// there from the start (KernelExecutor): with both ways in one kernel ptxas would spill.
template <class Reduction>
inline constexpr bool has_both_ways = sizeof(typename Reduction::Storage) > 1;

/// A block's whole work, but of a one_shot. `shared`: load_store_shared_bytes().
template <class Reduction, Group G>
RONDO_HD void run_load_store(G group, const LoadStoreOperation &operation, uint32_t channel, std::byte *shared) {
  const DeviceOperation &base = operation.base;
  KernelEnds &ends = ends_in(shared);
  auto *const buffers = reinterpret_cast<SharedBuffers *>(&ends + 1);
  bool done = may_begin(group, operation, channel, ends);
  if constexpr (is_copy<Reduction>) {
    done = done && run_shared<Reduction>(group, operation, channel, buffers) == Agreement::in_buffers;
  } else if (done) {
    Agreement agreed = Agreement::in_places;
    if (operation.mode == LoadStoreMode::shared) agreed = run_shared<Reduction>(group, operation, channel, buffers);
    if (operation.mode == LoadStoreMode::shared && (!has_both_ways<Reduction> || agreed != Agreement::in_places)) {
      done = agreed == Agreement::in_buffers;
    } else {  // through the places
      done = run_two_shot<Reduction>(group, operation, channel);
      if constexpr (has_both_ways<Reduction>)
        if (done && operation.mode == LoadStoreMode::shared) done = leave(group, operation, channel, true);
    }
  }
  if (group.rank() == 0)
    report(base, 1, done ? 0 : pack_verdict(Outcome::stopped, Fault::none, 0), 0, [&] { return ends; });
}

}  // namespace rondo::device
