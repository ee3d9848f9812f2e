// SPDX-License-Identifier: Apache-2.0
// The kernels of load_store: an all-reduce without steps or links, by one_shot or two_shot over the places of
// all ranks (direct_place.h has the layout and the order of accesses). A block has one channel, and all of its threads
// are one group. The result is bit for bit that of the schedules of the same names.
#pragma once

#include <cstdint>

#include "cuda/kernels/direct_one_shot.h"
#include "cuda/kernels/direct_two_shot.h"

namespace rondo::device {

/// A block's whole work.
template <class Reduction, Group G>
RONDO_HD void run_direct(G group, const DirectOperation &operation, uint32_t channel) {
  const DeviceOperation &base = operation.base;
  // Nobody else writes what is read here; the vote comes before one thread moves it on.
  const uint64_t number = base.progress->posts + 1;
  const uint32_t chunks = direct_count_in(memory::load_relaxed(operation.place(operation.rank).contributed(channel)));
  if (channel == 0 && group.rank() == 0)  // before E2 of all channels, which orders it
    memory::store_relaxed(base.result->begun, base.progress->ended_kernels + 1);
  // A kernel behind one that failed publishes nothing.
  bool done = !group.any(group.rank() == 0 && memory::load_relaxed(base.progress->verdict) != 0);  // A1
  if (done)
    done = operation.one_shot != 0 ? run_one_shot<Reduction>(group, operation, channel, number)
                                   : run_two_shot<Reduction>(group, operation, channel, chunks);
  if (group.rank() == 0) report(base, 1, done ? 0 : pack_verdict(Outcome::stopped, Fault::none, 0), operation.one_shot);
}

}  // namespace rondo::device
