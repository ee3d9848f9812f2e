// SPDX-License-Identifier: Apache-2.0
// These tests run emulated blocks that must fail: after an abort, after a mismatch, and in the calls after a failure.
#include <chrono>

#include "tests/catch.h"
#include "tests/gpu/emulated_case.h"
#include "tests/gpu/settings.h"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr ConnectionGeometry geometry{2, 256, 64};

EmulatedCase tree_case(rondo_protocol_t protocol) {
  EmulatedCase it;
  it.algorithm = RONDO_ALGORITHM_TREE;  // two lanes a channel
  it.protocol = protocol;
  it.rank_count = 3;
  it.channels = 2;
  it.count = 2000;
  it.chunk_bytes = 64;
  return it;
}

/// Returns the flags and heads that a rank has published on its links.
std::vector<uint64_t> published(DeviceWorld &world, const EmulatedCase &it, uint32_t rank) {
  std::vector<uint64_t> words;
  for (uint32_t channel = 0; channel < it.channels; ++channel)
    for (uint32_t peer = 0; peer < it.rank_count; ++peer) {
      const ConnectionView out = world.connection(channel, rank, peer), in = world.connection(channel, peer, rank);
      for (uint64_t slot = 0; slot < geometry.slot_count; ++slot) {
        words.push_back(memory::load_acquire(out.header(slot).sequence));
        words.push_back(memory::load_acquire(out.ll_units(slot)[0]));
      }
      words.push_back(memory::load_acquire(in.simple_head()));
      words.push_back(memory::load_acquire(in.ll_head()));
    }
  return words;
}

/// Returns how many units of its first post a rank has stored for `reader`.
uint64_t posted_units(DeviceWorld &world, uint32_t rank, uint32_t reader, uint32_t signature) {
  const device::PostFlags flags = device::post_flags(1, signature);
  const size_t all = world.place(rank).geometry.column_bytes() / sizeof(uint64_t);
  uint64_t posted = 0;
  for (size_t unit = 0; unit < all; ++unit)
    if (ll::flag_in(memory::load_relaxed(world.post(1, rank, reader)[unit])) ==
        (unit % 2 == 0 ? flags.first : flags.second))
      ++posted;
  return posted;
}

}  // namespace

TEST_CASE("emulated block: abort ends every lane of a rank whose peer never comes") {
  for (const auto protocol : device_protocols)
    for (const uint32_t lane_threads : {0u, 1u, 4u}) {
      const EmulatedCase it = tree_case(protocol);
      std::vector<CaseRank> ranks = make_ranks(it, geometry);
      DeviceWorld world(it.rank_count, it.channels, geometry);
      std::thread aborter([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        for (uint32_t rank = 0; rank < it.rank_count; ++rank) world.abort(rank);
      });
      run_ranks(it.rank_count - 1, [&](uint32_t rank) {  // the last rank never starts
        world.run(rank, *ranks[rank].plan, ranks[rank].buffers(1, false), 1, lane_threads);
      });
      aborter.join();
      for (uint32_t rank = 0; rank + 1 < it.rank_count; ++rank) {
        CAPTURE(rank, lane_threads, rondo_protocol_string(protocol));
        const DeviceWorld::Ended result = world.result(rank);
        CHECK(result.number == 1);
        CHECK(result.failed_number == 1);
        CHECK(device::outcome_in(result.verdict) == device::Outcome::stopped);
      }
    }
}

TEST_CASE("emulated block: a kernel behind one that was stopped publishes nothing") {
  for (const auto protocol : device_protocols) {
    const EmulatedCase it = tree_case(protocol);
    std::vector<CaseRank> ranks = make_ranks(it, geometry);
    DeviceWorld world(it.rank_count, it.channels, geometry);
    for (uint32_t rank = 0; rank < it.rank_count; ++rank) world.abort(rank);
    run_ranks(it.rank_count - 1,
              [&](uint32_t rank) { world.run(rank, *ranks[rank].plan, ranks[rank].buffers(1, false), 1, 2); });
    std::vector<std::vector<uint64_t>> before;
    for (uint32_t rank = 0; rank < it.rank_count; ++rank) before.push_back(published(world, it, rank));
    run_ranks(it.rank_count, [&](uint32_t rank) {  // all ranks run; the last one stops, since no other rank sends
      world.run(rank, *ranks[rank].plan, ranks[rank].buffers(2, false), 2, 2);
    });
    for (uint32_t rank = 0; rank + 1 < it.rank_count; ++rank) {
      CHECK(published(world, it, rank) == before[rank]);
      CHECK(world.result(rank).number == 2);
      CHECK(world.result(rank).failed_number == 1);
      CHECK(device::outcome_in(world.result(rank).verdict) == device::Outcome::stopped);
    }
    CHECK(world.result(it.rank_count - 1).failed_number == 2);
  }
}

TEST_CASE("emulated block: a peer's slot of another operation is a fault that names the peer") {
  for (const auto protocol : device_protocols)
    for (const uint32_t lane_threads : {1u, 4u}) {
      EmulatedCase it;
      it.protocol = protocol;
      it.rank_count = 2;
      it.count = 100;
      it.chunk_bytes = 64;  // so that a chunk fits in slot_count - 1 slots
      std::vector<CaseRank> ranks = make_ranks(it, geometry);
      DeviceWorld world(it.rank_count, it.channels, geometry);
      run_ranks(it.rank_count, [&](uint32_t rank) {
        world.run(rank, *ranks[rank].plan, ranks[rank].buffers(1 + rank, false), 1, lane_threads);
      });
      for (uint32_t rank = 0; rank < it.rank_count; ++rank) {
        const DeviceWorld::Ended result = world.result(rank);
        CHECK(device::outcome_in(result.verdict) == device::Outcome::fault);
        CHECK(device::fault_in(result.verdict) == Fault::foreign_slot);
        CHECK(device::peer_in(result.verdict) == 1 - rank);
      }
    }
}

TEST_CASE("emulated block: a child that disagrees is named, even where the other child never comes") {
  constexpr uint32_t parent = 2;  // the parent of ranks 1 and 3 in the tree of an even channel
  for (const auto protocol : device_protocols)
    for (const uint32_t lane_threads : {0u, 1u, 4u})
      for (const uint32_t other : {1u, 3u}) {
        CAPTURE(rondo_protocol_string(protocol), lane_threads, other);
        EmulatedCase it = tree_case(protocol);
        it.rank_count = 4;
        it.channels = 1;
        std::vector<CaseRank> ranks = make_ranks(it, geometry);
        DeviceWorld world(it.rank_count, it.channels, geometry);
        std::thread aborter([&] {  // aborts the child right after its parent, which fails by itself
          for (uint32_t wait_ms = 0; wait_ms < 60'000 && world.result(parent).number == 0; ++wait_ms)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          world.abort(parent);
          world.abort(other);
        });
        run_ranks(2, [&](uint32_t index) {
          const uint32_t rank = index == 0 ? parent : other;
          world.run(rank, *ranks[rank].plan, ranks[rank].buffers(1 + index, false), 1, lane_threads);
        });
        aborter.join();
        const DeviceWorld::Ended result = world.result(parent);
        CHECK(device::outcome_in(result.verdict) == device::Outcome::fault);
        CHECK(device::fault_in(result.verdict) == Fault::foreign_slot);
        CHECK(device::peer_in(result.verdict) == other);
      }
}

// The child posts while its parent already polls in a long wait.
TEST_CASE("emulated block: a late child that disagrees by ll is named, even where the other child never comes") {
  constexpr uint32_t parent = 2;
  for (const uint32_t lane_threads : {0u, 1u, 4u})
    for (const uint32_t other : {1u, 3u}) {
      CAPTURE(lane_threads, other);
      EmulatedCase it = tree_case(RONDO_PROTOCOL_LL);
      it.rank_count = 4;
      it.channels = 1;
      std::vector<CaseRank> ranks = make_ranks(it, geometry);
      DeviceWorld world(it.rank_count, it.channels, geometry);
      std::thread child([&] {
        for (uint32_t wait_ms = 0; wait_ms < 60'000 && world.result(parent).running == 0; ++wait_ms)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const uint32_t flag = ll::flag_of(0, geometry.slot_count, ranks[parent].buffers(1, false).signature + 1);
        memory::store_release(world.connection(0, other, parent).ll_units(0)[0], ll::pack(0, flag));  // F2
        for (uint32_t wait_ms = 0; wait_ms < 60'000 && world.result(parent).number == 0; ++wait_ms)
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        world.abort(parent);
      });
      world.run(parent, *ranks[parent].plan, ranks[parent].buffers(1, false), 1, lane_threads);
      child.join();
      const DeviceWorld::Ended result = world.result(parent);
      CHECK(device::outcome_in(result.verdict) == device::Outcome::fault);
      CHECK(device::fault_in(result.verdict) == Fault::foreign_slot);
      CHECK(device::peer_in(result.verdict) == other);
    }
}

TEST_CASE("emulated block: a peer's slot of another size is a fault") {
  EmulatedCase longer;
  longer.rank_count = 2;
  longer.count = 100;
  EmulatedCase shorter = longer;
  shorter.count = 90;
  std::vector<CaseRank> ranks = make_ranks(longer, geometry);
  ranks[1] = std::move(make_ranks(shorter, geometry)[1]);
  DeviceWorld world(2, 1, geometry);
  run_ranks(2, [&](uint32_t rank) {
    Buffers buffers = ranks[rank].buffers(1, false);
    buffers.signature = 1;  // the same on both ranks, as if the digests collided
    world.run(rank, *ranks[rank].plan, buffers, 1, 2);
  });
  for (uint32_t rank = 0; rank < 2; ++rank) {
    CHECK(device::outcome_in(world.result(rank).verdict) == device::Outcome::fault);
    CHECK(device::fault_in(world.result(rank).verdict) == Fault::wrong_size);
  }
}

TEST_CASE("emulated block: a fault in one lane ends the others of the rank, on every channel") {
  EmulatedCase it = tree_case(RONDO_PROTOCOL_SIMPLE);
  it.rank_count = 2;
  std::vector<CaseRank> ranks = make_ranks(it, geometry);
  DeviceWorld world(it.rank_count, it.channels, geometry);
  const ConnectionView poisoned = world.connection(0, 0, 1);  // as if rank 0 had sent something else on channel 0
  poisoned.header(0).signature = 77;
  memory::store_release(poisoned.header(0).sequence, 1);  // pairs with S4
  const ConnectionView back = world.connection(0, 1, 0);
  back.header(0).signature = 77;
  memory::store_release(back.header(0).sequence, 1);               // pairs with S4
  world.run(1, *ranks[1].plan, ranks[1].buffers(1, false), 1, 2);  // more threads would wait for ever
  CHECK(device::outcome_in(world.result(1).verdict) == device::Outcome::fault);
  CHECK(device::peer_in(world.result(1).verdict) == 0);
}

// Threads do not vote before they post. So one thread may meet a fault while other threads have not posted yet.
TEST_CASE("emulated block: a post by one_shot is whole though a fault was met before others posted") {
  for (const auto &each : {std::pair(2u, 0u), {4u, 0u}, {8u, 0u}, {2u, 1u}, {8u, 1u}}) {
    const uint32_t threads = each.first, pushes = each.second;
    EmulatedCase it;
    it.algorithm = RONDO_ALGORITHM_ONE_SHOT;
    it.kernel = RONDO_KERNEL_LOAD_STORE;
    it.type = RONDO_INT32;
    it.rank_count = 3;
    it.channels = 2;
    it.count = 100;
    std::vector<CaseRank> ranks = make_ranks(it, geometry);
    DeviceWorld world(it.rank_count, it.channels, geometry, 0, {0, 0, 1024, 256, pushes});
    plant_first_word(world, 1, 2, 0, 77);
    world.run(0, *ranks[0].plan, ranks[0].buffers(1, false), 1, threads);
    CAPTURE(threads, pushes);
    CHECK(device::outcome_in(world.result(0).verdict) == device::Outcome::fault);
    CHECK(device::peer_in(world.result(0).verdict) == 2);
    for (const uint32_t reader : {0u, 1u, 2u})
      CHECK(posted_units(world, 0, reader, ranks[0].buffers(1, false).signature) == it.count);
    world.post(1, 2, 0)[0] = world.post(1, 2, 0)[1] = 0;
    run_ranks(2, [&](uint32_t which) {
      const uint32_t rank = 1 + which;
      world.run(rank, *ranks[rank].plan, ranks[rank].buffers(1, false), 1, threads);
    });
    for (const uint32_t rank : {1u, 2u}) {
      CAPTURE(rank);
      CHECK(world.result(rank).verdict == 0);
      CHECK(is_sum(ranks, rank, it.count));
    }
  }
}

// The peer arrives while one thread of this rank already polls in a long wait.
TEST_CASE("emulated block: a late peer that disagrees is named, even where another peer never comes") {
  for (const auto &each : {std::pair(true, 0u), {true, 1u}, {false, 0u}, {false, 1u}}) {
    const bool posts = each.first;
    const uint32_t pushes = each.second;
    EmulatedCase it;
    it.algorithm = posts ? RONDO_ALGORITHM_ONE_SHOT : RONDO_ALGORITHM_TWO_SHOT;
    it.kernel = RONDO_KERNEL_LOAD_STORE;
    it.rank_count = 3;
    it.count = 100;
    std::vector<CaseRank> ranks = make_ranks(it, geometry);
    DeviceWorld world(it.rank_count, it.channels, geometry, 0, {0, 0, 1024, 256, pushes});
    std::thread other([&] {
      while (world.result(0).running == 0) std::this_thread::yield();
      // Only the second unit of the word shows this difference.
      if (posts) plant_first_word(world, 1, 2, 0, ranks[0].buffers(1, false).signature ^ 1u << 16);
      else
        memory::store_release(  // pairs with R1
            world.place(pushes != 0 ? 0 : 2).counter(world.place(0).geometry.contributed_at(0), 2),
            device::load_store_counter(1, 77));
      for (uint32_t wait_ms = 0; wait_ms < 60'000 && world.result(0).number == 0; ++wait_ms)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      world.abort(0);
    });
    world.run(0, *ranks[0].plan, ranks[0].buffers(1, false), 1, 4);
    other.join();
    CAPTURE(posts, pushes);
    CHECK(device::outcome_in(world.result(0).verdict) == device::Outcome::fault);
    CHECK(device::peer_in(world.result(0).verdict) == 2);
  }
}

TEST_CASE("emulated block: the kernel of a captured call tells the host that it runs, another one only if it waits") {
  for (const auto kernel : {RONDO_KERNEL_INTERPRETER, RONDO_KERNEL_LOAD_STORE})
    for (const bool captured : {false, true}) {
      CAPTURE(kernel, captured);
      EmulatedCase it;
      it.rank_count = 1;  // a single rank waits for no peer
      it.algorithm = kernel == RONDO_KERNEL_LOAD_STORE ? RONDO_ALGORITHM_ONE_SHOT : RONDO_ALGORITHM_RING;
      it.kernel = kernel;
      it.count = 100;
      std::vector<CaseRank> ranks = make_ranks(it, geometry);
      DeviceWorld world(1, it.channels, geometry, 0, {0, 0, 1024, 256});
      if (captured) world.capture();
      for (uint64_t number = 1; number <= 2; ++number) {
        world.run(0, *ranks[0].plan, ranks[0].buffers(number, false), number, 2);
        const DeviceWorld::Ended result = world.result(0);
        CHECK(result.verdict == 0);
        CHECK(result.running == (captured ? number : 0));
        CHECK(result.kernels == number);
      }
    }
}
