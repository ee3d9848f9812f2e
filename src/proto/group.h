// SPDX-License-Identifier: Apache-2.0
// A group is the threads that advance one lane together. On the host, a group is one thread. On a device, it is a
// thread block or a part of a block. Every thread of the group makes the same calls in the same order.
#pragma once

#include <concepts>
#include <cstdint>

#include "src/base/host_device.h"
#include "src/proto/memory.h"

namespace rondo {

template <class G>
concept Group = requires(G group, bool vote) {
  { group.rank() } -> std::same_as<uint32_t>;  // 0..size-1
  { group.size() } -> std::same_as<uint32_t>;
  group.sync();                               // a barrier, which orders memory within the group
  { group.any(vote) } -> std::same_as<bool>;  // a barrier with a vote: all threads see what one thread acquired
};

struct SingleThread {
  [[nodiscard]] RONDO_HD uint32_t rank() const { return 0; }
  [[nodiscard]] RONDO_HD uint32_t size() const { return 1; }
  RONDO_HD void sync() const {}
  [[nodiscard]] RONDO_HD bool any(bool vote) const { return vote; }
};
static_assert(Group<SingleThread>);

/// Votes at `site`, where other accesses rely on the order that the vote gives.
template <memory::Site site, Group G>
[[nodiscard]] RONDO_HD bool any_at(G group, bool vote) {
  if constexpr (memory::is_kept(site)) {
    return group.any(vote);
  } else {
    return group.any_unordered(vote);  // only emulated blocks have it, for a test that removes the order
  }
}

}  // namespace rondo
