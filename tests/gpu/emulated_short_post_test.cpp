// SPDX-License-Identifier: Apache-2.0
// These tests make short posts on emulated blocks. A one_shot posts short if each thread has at most one word. Results
// must equal the results of longer posts, also if other ranks' buffers or blocks allow no short post.
#include <chrono>

#include "tests/gpu/emulated_draw.h"
#include "tests/sanitized.h"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr uint32_t threads_max = 8;

EmulatedCase short_case(uint32_t rank_count, uint64_t count = 6, bool pushes = false) {
  EmulatedCase it;
  it.algorithm = RONDO_ALGORITHM_ONE_SHOT;
  it.kernel = RONDO_KERNEL_LOAD_STORE;
  it.type = RONDO_INT32;
  it.rank_count = rank_count;
  it.count = count;
  it.channels = 2;
  it.pushes = pushes;
  return it;
}

DeviceWorld world_after_post(const EmulatedCase &it) {
  DeviceWorld world(it.rank_count, it.channels, drawn_geometry, 0, load_store_geometry_for(it));
  world.begin_at(1, 0);  // as after one post, because the first post is never a short one
  return world;
}

}  // namespace

TEST_CASE("short posts: which calls have them") {
  using namespace rondo::device;
  const auto words_of = [](uint32_t ranks, uint64_t count, uint32_t element_bytes) {
    std::vector<PaddedCounter> memory(64);
    LoadStoreOperation operation;
    operation.geometry = {ranks, 2, 1024, 64, ranks / 4 % 2};
    for (uint32_t rank = 0; rank < ranks; ++rank)
      operation.places[rank] = reinterpret_cast<std::byte *>(memory.data() + rank);
    operation.rank = 1;
    operation.mode = LoadStoreMode::one_shot;
    operation.count = count;
    const ShortPost post = short_post(operation, element_bytes);
    if (post.word_count != 0) {
      const LoadStorePlace own = operation.place(1);
      CHECK(post.units == own.units(2, 1));
      CHECK(post.units + post.units_of_area == own.units(3, 1));
    }
    return post.word_count;
  };
  for (const uint32_t ranks : {2u, 4u, 8u}) CHECK(words_of(ranks, 14, 4) == 7);
  for (const uint32_t ranks : {3u, 5u, 7u, 9u, 16u}) CHECK(words_of(ranks, 14, 4) == 0);
  CHECK(words_of(2, 15, 4) == 0);  // the last word is only half full
  CHECK(words_of(2, 16, 1) == 2);
  alignas(8) std::byte memory[32];
  const auto words_at = [&](size_t send, size_t recv) {
    LoadStoreOperation operation;
    operation.base.buffers.send.data = memory + send;
    operation.base.buffers.recv.data = memory + recv;
    operation.short_post.word_count = 1;
    fit_to_buffers(operation);
    return operation.short_post.word_count;
  };
  CHECK(words_at(0, 16) == 1);
  CHECK(words_at(4, 16) == 0);
  CHECK(words_at(0, 12) == 0);
}

TEST_CASE("short posts: the calls of these tests have them") {
  const EmulatedCase it = short_case(4);
  const std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry);
  std::vector<PaddedCounter> memory(4);
  device::LoadStoreOperation operation;
  operation.geometry = load_store_geometry_for(it);
  operation.geometry.rank_count = it.rank_count;
  operation.geometry.channel_count = it.channels;
  operation.places[1] = reinterpret_cast<std::byte *>(memory.data());
  operation.rank = 1;
  device::describe_load_store(*ranks[1].plan, BufferPlace::device, 256, operation);
  CHECK(operation.short_post.word_count == 3);
  CHECK(operation.post_words == 2);
}

TEST_CASE("short posts: every type and operation is bit-equal to the host executor") {
  const uint64_t seed = seed_from_environment();
  Random random(seed);
  rondo_test::GateShare share("types and operations of short posts");
  for (const uint32_t rank_count : {2u, 4u, 8u})
    for (int type = RONDO_INT8; type <= RONDO_FLOAT8_E5M2; ++type)
      for (int op = RONDO_SUM; op <= RONDO_AVG; ++op) {
        EmulatedCase it = short_case(rank_count);
        it.type = static_cast<rondo_type_t>(type);
        it.op = static_cast<rondo_op_t>(op);
        it.channels = between(random, 1, 3);
        // There are at most as many words as threads. Some channels have no word, and some last words are half full.
        const uint64_t bytes = 8 * between(random, 1, threads_max * it.channels) - (random() % 4 == 0 ? 4 : 0);
        it.count = std::max<uint64_t>(1, bytes / rondo_type_size(it.type));
        it.in_place = random() % 2 == 0;
        it.pushes = random() % 2 == 0;
        if (random() % 4 == 0) it.offset_bytes = static_cast<uint32_t>(rondo_type_size(it.type));
        if (share.has_next()) check(it, drawn_geometry, {8, 8, 4}, seed, 1);
      }
}

TEST_CASE("short posts: counts of posts pass the wraps of flags and of the sweep") {
  const uint64_t seed = seed_from_environment();
  for (const uint32_t rank_count : {2u, 4u, 8u})
    for (const uint64_t first :
         {device::post_sweep_period - 3, 2 * device::post_sweep_period - 3, (uint64_t{1} << 32) - 3})
      for (const bool pushes : {false, true})
        check(short_case(rank_count, 6, pushes), drawn_geometry, {8, 8, 8, 8, 8, 8}, seed, first);
}

TEST_CASE("short posts: beside ranks that have none, one behind the other, each as fast as it can") {
  for (const bool pushes : {false, true}) {
    CAPTURE(pushes);
    const uint64_t seed = seed_from_environment();
    const EmulatedCase it = short_case(4, 22, pushes);
    CAPTURE(seed);
    constexpr uint64_t operation_count = under_thread_sanitizer ? 10 : 40;
    std::vector<std::vector<CaseRank>> operations;
    for (uint64_t number = 0; number < operation_count; ++number) operations.push_back(make_ranks(it, drawn_geometry));
    DeviceWorld world = world_after_post(it);
    run_ranks(it.rank_count, [&](uint32_t rank) {
      Random own(seed + rank);
      for (uint64_t number = 1; number <= operation_count; ++number) {
        CaseRank &of = operations[number - 1][rank];
        if (own() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 300));
        world.run(rank, *of.plan, of.buffers(number, false), number, own() % 2 == 0 ? 8 : 3);
      }
    });
    for (const std::vector<CaseRank> &ranks : operations)
      for (uint32_t rank = 0; rank < it.rank_count; ++rank) CHECK(is_sum(ranks, rank, it.count));
  }
}

TEST_CASE("short posts: abort ends a rank whose peer never comes, and the kernel behind it posts nothing") {
  for (const bool pushes : {false, true}) {
    CAPTURE(pushes);
    const EmulatedCase it = short_case(4, 6, pushes);
    std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry);
    DeviceWorld world = world_after_post(it);
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      for (uint32_t rank = 0; rank < it.rank_count; ++rank) world.abort(rank);
    });
    run_ranks(3, [&](uint32_t rank) {  // the last rank never starts
      world.run(rank, *ranks[rank].plan, ranks[rank].buffers(1, false), 1, 8);
    });
    aborter.join();
    for (uint32_t rank = 0; rank < 3; ++rank) {
      CAPTURE(rank);
      CHECK((world.result(rank).number == 1 && world.result(rank).failed_number == 1));
      CHECK(device::outcome_in(world.result(rank).verdict) == device::Outcome::stopped);
      const std::vector<uint64_t> before = published_in_places(world, rank);
      world.run(rank, *ranks[rank].plan, ranks[rank].buffers(2, false), 2, 8);
      CHECK(published_in_places(world, rank) == before);
      CHECK((world.result(rank).number == 2 && world.result(rank).failed_number == 1));
    }
  }
}

TEST_CASE("short posts: a peer in another operation is a fault that names it, in every order of words") {
  for (const auto &[rank_count, pushes] : {std::pair(4u, false), {8u, false}, {4u, true}, {8u, true}})
    for (const uint32_t threads : {8u, 4u})   // 8 ranks have more first words than 4 threads
      for (const uint64_t number : {1u, 2u})  // an odd operation polls first words together with others
        for (const uint64_t other_count : {uint64_t{6}, uint64_t{3}, uint64_t{60}}) {
          const EmulatedCase it = short_case(rank_count, 6, pushes);
          EmulatedCase other = it, larger = it;
          other.count = other_count;
          larger.count = 60;
          std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry);
          std::vector<CaseRank> others = make_ranks(other, drawn_geometry);
          DeviceWorld world = world_after_post(larger);
          run_ranks(rank_count, [&](uint32_t rank) {
            CaseRank &of = rank == 2 ? others[rank] : ranks[rank];
            world.run(rank, *of.plan, of.buffers(rank == 2 ? 7 : 1, false), number, threads);
          });
          for (uint32_t rank = 0; rank < rank_count; ++rank) {
            CAPTURE(rank, rank_count, pushes, threads, other_count, number);
            const DeviceWorld::Ended result = world.result(rank);
            CHECK(device::outcome_in(result.verdict) == device::Outcome::fault);
            CHECK(device::fault_in(result.verdict) == Fault::foreign_slot);
            CHECK((rank == 2 ? device::peer_in(result.verdict) != 2 : device::peer_in(result.verdict) == 2));
          }
        }
}

// Rank 0 is one post ahead: it has seen rank 1's post 2, and stores its post 3 before rank 1 has read anything.
TEST_CASE("short posts: a rank that is one post ahead leaves the post that its peer has not read") {
  for (const bool pushes : {false, true}) {
    CAPTURE(pushes);
    const EmulatedCase it = short_case(2, 2, pushes);  // one word
    std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry), next = make_ranks(it, drawn_geometry);
    DeviceWorld world = world_after_post(it);
    plant_first_word(world, 2, 1, 0, ranks[1].buffers(1, false).signature);
    world.run(0, *ranks[0].plan, ranks[0].buffers(1, false), 1, 8);
    CHECK(world.result(0).verdict == 0);
    world.abort(0);
    world.run(0, *next[0].plan, next[0].buffers(2, false), 2, 8);
    CHECK(device::outcome_in(world.result(0).verdict) == device::Outcome::stopped);
    const device::PostFlags flags = device::post_flags(3, next[0].buffers(2, false).signature);
    CHECK(ll::flag_in(world.post(3, 0, 1)[0]) == flags.first);
    world.run(1, *ranks[1].plan, ranks[1].buffers(1, false), 1, 8);
    CHECK(world.result(1).verdict == 0);
    CHECK(is_sum(ranks, 1, it.count));
  }
}

// Threads do not vote before they post. So one thread may meet a fault while other threads have not posted yet.
TEST_CASE("short posts: a post is whole though a fault was met") {
  for (const bool pushes : {false, true}) {
    CAPTURE(pushes);
    const EmulatedCase it = short_case(4, 6, pushes);
    std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry);
    DeviceWorld world = world_after_post(it);
    // Rank 2 seems to make another call. Only the second unit of its word shows the difference.
    plant_first_word(world, 2, 2, 0, ranks[0].buffers(1, false).signature ^ 1u << 16);
    world.run(0, *ranks[0].plan, ranks[0].buffers(1, false), 1, 8);
    CHECK(device::outcome_in(world.result(0).verdict) == device::Outcome::fault);
    CHECK(device::peer_in(world.result(0).verdict) == 2);
    world.post(2, 2, 0)[0] = world.post(2, 2, 0)[1] = 0;
    run_ranks(3, [&](uint32_t which) {
      const uint32_t rank = 1 + which;
      world.run(rank, *ranks[rank].plan, ranks[rank].buffers(1, false), 1, 8);
    });
    for (const uint32_t rank : {1u, 2u, 3u}) {
      CAPTURE(rank);
      CHECK(world.result(rank).verdict == 0);
      CHECK(is_sum(ranks, rank, it.count));
    }
  }
}

TEST_CASE("short posts: the kernel of a captured call tells the host that it runs, another one only if it waits") {
  const EmulatedCase it = short_case(2);
  for (const bool captured : {false, true}) {
    std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry);
    DeviceWorld world = world_after_post(it);
    if (captured) world.capture();
    for (uint64_t number = 1; number <= 2; ++number) {
      // Rank 0 runs alone until it has reported that it runs. Then it waits for rank 1.
      std::thread first([&] { world.run(0, *ranks[0].plan, ranks[0].buffers(number, false), number, 8); });
      while (world.result(0).running < number) std::this_thread::yield();
      world.run(1, *ranks[1].plan, ranks[1].buffers(number, false), number, 8);
      first.join();
      CAPTURE(captured, number);
      CHECK(world.result(1).verdict == 0);
      if (captured) CHECK(world.result(1).running == number);
    }
  }
}
