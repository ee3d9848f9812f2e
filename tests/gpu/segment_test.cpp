// SPDX-License-Identifier: Apache-2.0
// These tests check which memory of other ranks' devices a rank opens when it connects.
#include <thread>
#include <vector>

#include "cuda/transport/segment.h"
#include "src/plan/plan.h"
#include "tests/gpu/device_ranks.h"
#include "tests/net/memory_store.h"

using namespace rondo_test;
using namespace rondo::cuda;
using rondo::net_test::MemoryStore;

namespace {

constexpr uint32_t segment_rank_count = 7;

/// Returns, for each rank, whether it is `rank` itself or one of its neighbours in the ring.
std::vector<bool> ring_peers(uint32_t rank) {
  std::vector<bool> peers(segment_rank_count);
  for (const uint32_t offset : {0u, 1u, segment_rank_count - 1}) peers[(rank + offset) % segment_rank_count] = true;
  return peers;
}

SegmentShape small_shape(bool load_store) {
  SegmentShape shape;
  shape.rank_count = segment_rank_count;
  shape.geometry.slot_count = 2;
  shape.geometry.slot_bytes = 1024;
  if (load_store) shape.load_store = {segment_rank_count, 1, 64, 1024};
  shape.plan_bytes = 4096;
  return shape;
}

/// Ranks that are threads; the odd ones are on the second device.
struct Group {
  World first{0}, second{1};
  MemoryStore store;
  NetworkLinks network;
  std::vector<InfoExchange> exchanges;
  std::vector<rondo::Result<Segment>> segments;

  explicit Group(bool load_store = false) {
    const auto devices = cuda_devices(first.cu).value();
    for (uint32_t rank = 0; rank < segment_rank_count; ++rank) {
      exchanges.emplace_back(store, "test", rank, segment_rank_count, rondo::now_ns() + 60'000'000'000);
      segments.emplace_back(rondo::Error{});
    }
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < segment_rank_count; ++rank)
      threads.emplace_back([&, rank] {
        const World &world = rank % 2 == 0 ? first : second;
        segments[rank] = Segment::connect(world.context(), world.stream(), devices[rank % 2].uuid,
                                          small_shape(load_store), rondo::DeviceHandles::vmm,
                                          {ring_peers(rank), &network}, exchanges[rank]);
      });
    for (std::thread &thread : threads) thread.join();
    for (const auto &segment : segments) {
      if (!segment.ok()) FAIL(segment.error().message);
    }
  }

  [[nodiscard]] bool opened(uint32_t rank, uint32_t peer) const {
    return segments[rank].value().address_of(peer) != 0;
  }
};

rondo::Result<void> check_links(const Segment &segment, uint32_t rank, rondo_algorithm_t algorithm) {
  rondo::OperationKey key;
  key.signature = {RONDO_ALL_REDUCE, RONDO_FLOAT32, RONDO_SUM, 0, 1000, 0};
  const rondo::PlanChoice choice{algorithm, RONDO_PROTOCOL_SIMPLE, 1, 1024, RONDO_KERNEL_INTERPRETER};
  const auto plan = rondo::build_plan(key, choice, segment.shape().geometry, rank, segment_rank_count);
  REQUIRE(plan.ok());
  return segment.check_links(*plan.value());
}

}  // namespace

TEST_CASE("segments: a rank opens those of permitted peers, and refuses a plan that has another link") {
  if (!has_two_devices("which segments are opened")) return;
  const Group group;
  for (uint32_t rank = 0; rank < segment_rank_count; ++rank) {
    CAPTURE(rank);
    const std::vector<bool> permitted = ring_peers(rank);
    for (uint32_t peer = 0; peer < segment_rank_count; ++peer)  // all segments on the own device are opened, at no cost
      CHECK(group.opened(rank, peer) == (permitted[peer] || peer % 2 == rank % 2));
    const Segment &segment = group.segments[rank].value();
    CHECK(check_links(segment, rank, RONDO_ALGORITHM_RING).ok());
    const auto refused = check_links(segment, rank, RONDO_ALGORITHM_TWO_SHOT);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().status == RONDO_ERROR_INTERNAL);
    CHECK_FALSE(group.opened(rank, static_cast<uint32_t>(refused.error().peer)));
  }
}

TEST_CASE("segments: where load_store may run, a rank opens those of all") {
  if (!has_two_devices("which segments are opened by load_store")) return;
  const Group group(true);
  for (uint32_t rank = 0; rank < segment_rank_count; ++rank)
    for (uint32_t peer = 0; peer < segment_rank_count; ++peer) CHECK(group.opened(rank, peer));
}
