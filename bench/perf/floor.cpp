// SPDX-License-Identifier: Apache-2.0
#include "bench/perf/floor.h"

#include <algorithm>
#include <cstring>

namespace rondo::perf {
namespace {

bool same_device(const Member &a, const Member &b) {
  return std::strcmp(a.host, b.host) == 0 && std::memcmp(a.device.uuid, b.device.uuid, sizeof a.device.uuid) == 0;
}

}  // namespace

uint64_t moved_bytes_min(const Case &what, int rank, size_t bytes, Placement placement) {
  const bool in_place = placement == Placement::in_place;
  if (what.ranks == 1 && in_place) return 0;
  const Shape shape = shape_of(what, rank, bytes);
  const Collective &traits = traits_of(like(what.collective));
  const bool reads = reads_send(what, rank), writes = writes_recv(what, rank);
  uint64_t read = reads ? shape.send.count : 0;
  uint64_t written = writes ? shape.recv.count : 0;
  if (in_place && reads && writes && !traits.reduces) {  // data that a rank would move to itself stays where it is
    const bool exchanges = traits.source == BufferLayout::blocks && traits.target == BufferLayout::blocks;
    written -= exchanges ? shape.count : std::min(shape.send.count, shape.recv.count);
    if (exchanges_blocks(what.collective)) read -= shape.count;
  }
  return (read + written) * rondo_type_size(what.type);
}

size_t first_on_device(std::span<const Member> members, size_t rank) {
  size_t first = 0;
  while (first < rank && !same_device(members[first], members[rank])) ++first;
  return first;
}

double floor_us(const Case &what, size_t bytes, Placement placement, std::span<const Member> members,
                std::span<const double> copy_GBps) {
  std::vector<double> times_us(members.size(), 0);
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const size_t first = first_on_device(members, rank);
    const auto moved = static_cast<double>(moved_bytes_min(what, static_cast<int>(rank), bytes, placement));
    if (copy_GBps[first] > 0) times_us[first] += moved / copy_GBps[first] / 1e3;
  }
  return times_us.empty() ? 0 : *std::max_element(times_us.begin(), times_us.end());
}

}  // namespace rondo::perf
