// SPDX-License-Identifier: Apache-2.0
// A group: the threads that advance one lane together. One thread on the host; a thread block, or part of one, on a
// device. Every thread of the group makes the same calls in the same order.
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
  group.sync();                               // barrier; orders memory within the group
  { group.any(vote) } -> std::same_as<bool>;  // barrier with a vote: what one thread acquired, all see
};

struct SingleThread {
  [[nodiscard]] RONDO_HD uint32_t rank() const { return 0; }
  [[nodiscard]] RONDO_HD uint32_t size() const { return 1; }
  RONDO_HD void sync() const {}
  [[nodiscard]] RONDO_HD bool any(bool vote) const { return vote; }
};
static_assert(Group<SingleThread>);

/// Votes where the order of the vote matters; `site` is its name.
template <memory::Site site, Group G>
[[nodiscard]] RONDO_HD bool any_at(G group, bool vote) {
  if constexpr (memory::is_kept(site)) {
    return group.any(vote);
  } else {
    return group.any_unordered(vote);  // an emulated block's: a test takes the order out
  }
}

}  // namespace rondo
