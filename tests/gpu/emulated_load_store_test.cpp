// SPDX-License-Identifier: Apache-2.0
// These tests run the kernels of load_store on emulated blocks. Results of consecutive operations must have the same
// bits as the host executor's, also after every counter has wrapped. In other cases the operation must fail.
#include <chrono>

#include "tests/gpu/emulated_draw.h"
#include "tests/sanitized.h"

using namespace rondo;
using namespace rondo::test;

namespace {

struct LoadStoreKind {
  rondo_algorithm_t algorithm;
  bool shares_buffers;
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  uint32_t hidden_ranks = 0;
  bool pushes = false;

  [[nodiscard]] std::string text() const {
    return std::string(rondo_collective_string(collective)) + " by " + rondo_algorithm_string(algorithm) +
           (shares_buffers ? " in shared buffers" : "") + (hidden_ranks != 0 ? ", some of them hidden" : "") +
           (pushes ? ", pushed" : "");
  }
  [[nodiscard]] bool reduces() const { return collective != RONDO_ALL_GATHER && collective != RONDO_BROADCAST; }
};
constexpr LoadStoreKind one_shot{RONDO_ALGORITHM_ONE_SHOT, false};
constexpr LoadStoreKind pushed_one_shot{RONDO_ALGORITHM_ONE_SHOT, false, RONDO_ALL_REDUCE, 0, true};

/// Returns all kinds except an all-reduce by one_shot.
std::vector<LoadStoreKind> kinds_of(bool shares_buffers, uint32_t hidden_ranks, bool pushes = false) {
  std::vector<LoadStoreKind> kinds;
  for (const auto collective :
       {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST, RONDO_REDUCE})
    kinds.push_back({uses_blocks(collective) ? RONDO_ALGORITHM_ONE_SHOT : RONDO_ALGORITHM_TWO_SHOT, shares_buffers,
                     collective, hidden_ranks, pushes});
  return kinds;
}
/// Returns the kinds in shared buffers. Some kinds hide some ranks' buffers.
std::vector<LoadStoreKind> shared_kinds() {
  std::vector<LoadStoreKind> kinds = kinds_of(true, 0);
  for (const LoadStoreKind &kind : kinds_of(true, 0b10, true)) kinds.push_back(kind);  // as on several devices
  return kinds;
}
std::vector<LoadStoreKind> load_store_kinds() {
  std::vector<LoadStoreKind> kinds = shared_kinds();
  for (const bool pushes : {false, true})
    for (const LoadStoreKind &kind : kinds_of(false, 0, pushes)) kinds.push_back(kind);
  kinds.insert(kinds.end(), {one_shot, pushed_one_shot});
  return kinds;
}

EmulatedCase load_store_case(const LoadStoreKind &kind, uint32_t rank_count = 2, uint64_t count = 100) {
  EmulatedCase it;
  it.collective = kind.collective;
  it.algorithm = kind.algorithm;
  it.shares_buffers = kind.shares_buffers;
  it.hidden_ranks = kind.hidden_ranks;
  it.pushes = kind.pushes;
  it.kernel = RONDO_KERNEL_LOAD_STORE;
  it.rank_count = rank_count;
  it.count = count;
  return it;
}

DeviceWorld world_for(const EmulatedCase &it) {
  DeviceWorld world(it.rank_count, it.channels, drawn_geometry, 0, load_store_geometry_for(it));
  if (it.shares_buffers) world.share_buffers();
  for (uint32_t rank = 0; rank < it.rank_count; ++rank) world.hide_buffers(rank, it.hidden_ranks);
  return world;
}

struct Operation {
  EmulatedCase it;
  std::vector<CaseRank> ranks;
  std::vector<std::vector<int32_t>> expected;  ///< by rank: the values that it must receive
};

/// Returns the values that a rank must receive. Call it before the operation runs.
std::vector<int32_t> expected_of(const Operation &operation, uint32_t rank) {
  const EmulatedCase &it = operation.it;
  const uint64_t first = it.collective == RONDO_REDUCE_SCATTER ? rank * it.count : 0;
  std::vector<int32_t> elements;
  if (it.collective == RONDO_REDUCE && rank != it.root) return elements;
  for (uint64_t index = 0; index < operation.ranks[rank].plan->recv.count; ++index) {
    uint32_t element = 0;
    if (it.collective == RONDO_ALL_GATHER)
      element = static_cast<uint32_t>(element_of(operation.ranks[index / it.count], false, index % it.count));
    else if (it.collective == RONDO_BROADCAST)
      element = static_cast<uint32_t>(element_of(operation.ranks[it.root], false, index));
    else
      for (const CaseRank &of : operation.ranks) element += static_cast<uint32_t>(element_of(of, false, first + index));
    elements.push_back(static_cast<int32_t>(element));
  }
  return elements;
}

Operation draw_operation(Random &random, uint32_t rank_count, bool shares_buffers) {
  Operation operation;
  const std::vector<LoadStoreKind> kinds = kinds_of(shares_buffers, 0);
  const LoadStoreKind kind = random() % 4 == 0 ? one_shot : kinds[random() % kinds.size()];
  EmulatedCase &it = operation.it = load_store_case(kind, rank_count, draw_count(random) % 700);
  if (uses_blocks(it.collective)) it.count /= rank_count;
  it.type = RONDO_INT32;
  it.root = between(random, 0, rank_count - 1);
  it.channels = between(random, 1, 3);
  it.in_place = random() % 2 == 0;
  it.chunk_bytes = 64 * between(random, 1, 4);
  if (random() % 4 == 0) it.kernel = RONDO_KERNEL_INTERPRETER;
  if (random() % 2 == 0) it.hidden_ranks = between(random, 1, 7);
  const uint64_t seed = random();
  operation.ranks = make_ranks(it, drawn_geometry, seed);
  for (uint32_t rank = 0; rank < rank_count; ++rank) operation.expected.push_back(expected_of(operation, rank));
  return operation;
}

}  // namespace

TEST_CASE("emulated load_store: every type and operation is bit-equal to the host executor") {
  const uint64_t seed = seed_from_environment();
  Random random(seed);
  uint32_t case_count = 0;
  rondo_test::GateShare share("types and operations of emulated load_store");
  for (const LoadStoreKind &kind : load_store_kinds())
    for (int type = RONDO_INT8; type <= RONDO_FLOAT8_E5M2; ++type)
      for (int op = RONDO_SUM; op <= (kind.reduces() ? RONDO_AVG : RONDO_SUM); ++op)
        for (uint32_t round = 0; round < (kind.collective == RONDO_ALL_REDUCE ? 3 : 2); ++round) {
          EmulatedCase it = load_store_case(kind);
          it.type = static_cast<rondo_type_t>(type);
          it.op = static_cast<rondo_op_t>(op);
          draw_rest(it, random, drawn_geometry);
          it.rank_count = std::max(it.rank_count, 2u);
          it.channels = between(random, 1, 3);
          it.count = draw_count(random) / (uses_blocks(it.collective) ? it.rank_count : 1);
          const std::vector<uint32_t> threads = draw_threads(random);
          if (!share.has_next()) continue;
          check(it, drawn_geometry, threads, seed);
          ++case_count;
        }
  CHECK(case_count > 10);
}

TEST_CASE("emulated load_store: every block size, and more ranks than a block has threads or a reduction has turns") {
  const uint64_t seed = seed_from_environment();
  rondo_test::GateShare share("types and counts of ranks of emulated load_store", !under_thread_sanitizer);
  for (const LoadStoreKind &kind : load_store_kinds())
    for (const uint32_t rank_count : {3u, 9u})
      for (const auto type : {RONDO_INT8, RONDO_FLOAT16, RONDO_FLOAT32}) {
        if (!share.has_next()) continue;
        if (under_thread_sanitizer && (rank_count > 3) != (type == RONDO_FLOAT16)) continue;
        EmulatedCase it = load_store_case(kind, rank_count, uses_blocks(kind.collective) ? 301 : 701);
        it.type = type;
        it.op = RONDO_AVG;
        it.root = rank_count - 1;
        it.chunk_bytes = 512;
        check(it, drawn_geometry, under_thread_sanitizer ? std::vector<uint32_t>{2} : std::vector<uint32_t>{1, 2, 4, 8},
              seed);
      }
}

TEST_CASE("emulated load_store: addresses that are no multiple of an element's size are read and written too") {
  const uint64_t seed = seed_from_environment();
  rondo_test::GateShare share("types and offsets of emulated load_store");
  for (const LoadStoreKind &kind : load_store_kinds()) {
    share.skip();  // so that a quarter has other combinations for each kind
    for (const auto type : {RONDO_FLOAT64, RONDO_FLOAT32, RONDO_BFLOAT16, RONDO_INT64})
      for (const uint32_t offset : {1, 3, 4}) {
        if (!share.has_next()) continue;
        EmulatedCase it = load_store_case(kind, 3, 301);
        it.type = type;
        it.op = RONDO_AVG;
        it.root = 1;
        it.offset_bytes = offset;
        it.in_place = offset == 3;
        it.skew_bytes = offset == 4 ? 4 : 0;
        check(it, drawn_geometry, {2}, seed);
      }
  }
}

TEST_CASE("emulated load_store: counts of posts and chunks pass the wraps of flags, of the sweep and of 32 bits") {
  const uint64_t seed = seed_from_environment();
  rondo_test::GateShare share("wraps and counts of emulated load_store");
  for (const LoadStoreKind &kind : load_store_kinds())
    for (const uint64_t first : {device::post_sweep_period - 2, 2 * device::post_sweep_period - 3,
                                 (uint64_t{1} << 32) - 2})
      for (const uint64_t count : {5, 97, 333}) {
        if (!share.has_next()) continue;
        EmulatedCase it = load_store_case(kind, 3, count);
        it.type = RONDO_INT32;
        it.chunk_bytes = 64;
        check(it, drawn_geometry, {1, 4, 2, 1, 2, 4}, seed, first);
      }
}

TEST_CASE("emulated load_store: what a longer post has left is cleared before its flag comes again") {
  for (const auto &[count, swept, pushes] :  // 3 ends in half a word, and 4 allows a short post
       {std::tuple(3u, false, false), {3u, true, false}, {4u, false, false}, {4u, true, false}, {3u, true, true},
        {4u, false, true}, {4u, true, true}}) {
    EmulatedCase it = load_store_case(pushes ? pushed_one_shot : one_shot, 2, 200);
    it.channels = 3;
    std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry);
    CAPTURE(count, swept, pushes);
    EmulatedCase shorter = it;
    shorter.count = count;
    shorter.channels = 1;
    std::vector<CaseRank> short_ranks = make_ranks(shorter, drawn_geometry);
    DeviceWorld world = world_for(it);
    const auto run = [&](std::vector<CaseRank> &of, uint64_t number, uint64_t posts) {
      world.begin_at(posts, 0);
      run_ranks(2,
                [&](uint32_t rank) { world.run(rank, *of[rank].plan, of[rank].buffers(number, false), number, 4); });
    };
    const uint64_t number = swept ? device::post_sweep_period + 1 : 103;
    run(ranks, 1, 100);
    run(short_ranks, 2, number - 1);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      CHECK(world.result(rank).verdict == 0);
      const uint32_t signature = short_ranks[rank].buffers(2, false).signature;
      for (const uint32_t reader : {0u, 1u}) {
        const uint64_t *const units = world.post(number, rank, reader);
        CHECK(ll::flag_in(units[3]) == device::post_flags(number, signature).second);
        CHECK((units[4] == 0) == swept);
        CHECK((units[199] == 0) == swept);
      }
    }
  }
}

TEST_CASE("emulated load_store: operations of all kinds one behind the other, each rank as fast as it can") {
  const uint64_t seed = seed_from_environment();
  Random random(seed);
  const bool shares_buffers = random() % 2 == 0;
  CAPTURE(seed, shares_buffers);
  constexpr uint32_t rank_count = 3, operation_count = under_thread_sanitizer ? 15 : 60;
  std::vector<Operation> operations;
  for (uint32_t which = 0; which < operation_count; ++which)
    operations.push_back(draw_operation(random, rank_count, shares_buffers));
  DeviceWorld world(rank_count, 3, drawn_geometry, 0, {0, 0, 64 * 44, 256, static_cast<uint32_t>(random() % 2)});
  if (shares_buffers) world.share_buffers();
  run_ranks(rank_count, [&](uint32_t rank) {
    Random own(seed + rank);
    for (uint64_t number = 1; number <= operation_count; ++number) {
      CaseRank &of = operations[number - 1].ranks[rank];
      if (own() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 300));
      world.hide_buffers(rank, operations[number - 1].it.hidden_ranks);
      world.run(rank, *of.plan, of.buffers(number, false), number, static_cast<uint32_t>(1 + own() % 3));
    }
  });
  for (size_t which = 0; which < operations.size(); ++which)
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      CAPTURE(which, rank, operations[which].it.text());
      std::vector<int32_t> got;
      for (uint64_t index = 0; index < operations[which].expected[rank].size(); ++index)
        got.push_back(element_of(operations[which].ranks[rank], true, index));
      CHECK(got == operations[which].expected[rank]);
    }
}

TEST_CASE(
    "emulated load_store: abort ends every channel of a rank whose peer never comes; those behind publish nothing") {
  for (const LoadStoreKind &kind : load_store_kinds())
    for (const uint32_t threads : {1u, 4u}) {
      EmulatedCase it = load_store_case(kind, 3, 500);
      it.channels = 2;
      std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry);
      DeviceWorld world = world_for(it);
      std::thread aborter([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        for (uint32_t rank = 0; rank < it.rank_count; ++rank) world.abort(rank);
      });
      run_ranks(2, [&](uint32_t rank) {  // the last rank never starts
        world.run(rank, *ranks[rank].plan, ranks[rank].buffers(1, false), 1, threads);
      });
      aborter.join();
      std::vector<std::vector<uint64_t>> before;
      for (uint32_t rank = 0; rank < 2; ++rank) {
        CAPTURE(rank, threads, kind.text());
        const DeviceWorld::Ended result = world.result(rank);
        CHECK((result.number == 1 && result.failed_number == 1));
        CHECK(device::outcome_in(result.verdict) == device::Outcome::stopped);
        before.push_back(published_in_places(world, rank));
      }
      run_ranks(3, [&](uint32_t rank) {  // now all ranks run; the last one stops, since the others no longer post
        world.run(rank, *ranks[rank].plan, ranks[rank].buffers(2, false), 2, threads);
      });
      for (uint32_t rank = 0; rank < 2; ++rank) {
        CHECK(published_in_places(world, rank) == before[rank]);
        CHECK((world.result(rank).number == 2 && world.result(rank).failed_number == 1));
      }
      CHECK(world.result(2).failed_number == 2);
    }
}

TEST_CASE("emulated load_store: in shared buffers, a rank that comes after a peer gave up touches nothing and ends") {
  for (const LoadStoreKind &kind : shared_kinds())
    for (const uint32_t threads : {1u, 4u}) {
      CAPTURE(kind.text(), threads);
      const EmulatedCase it = load_store_case(kind);
      std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry);
      DeviceWorld world = world_for(it);
      world.abort(0);
      world.run(0, *ranks[0].plan, ranks[0].buffers(1, false), 1, threads);
      CHECK(device::outcome_in(world.result(0).verdict) == device::Outcome::stopped);
      const std::vector<std::byte> given_back = ranks[0].recv;
      world.run(1, *ranks[1].plan, ranks[1].buffers(1, false), 1, threads);  // nothing aborts rank 1 itself
      CHECK(device::outcome_in(world.result(1).verdict) == device::Outcome::stopped);
      CHECK(ranks[0].recv == given_back);
    }
}

TEST_CASE("emulated load_store: shared buffers are not touched any more when their owner's kernel has ended") {
  const uint64_t seed = seed_from_environment();
  Random random(seed);
  CAPTURE(seed);
  const std::vector<LoadStoreKind> kinds = shared_kinds();
  uint32_t done_count = 0, stopped_count = 0;
  for (uint32_t round = 0; round < (rondo_test::sanitized() ? 30 : 200); ++round) {
    EmulatedCase it = load_store_case(kinds[random() % kinds.size()], 3, 2000);
    it.root = between(random, 0, 2);
    it.channels = between(random, 1, 3);
    it.chunk_bytes = 1024;
    std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry, random());
    DeviceWorld world = world_for(it);
    const uint64_t abort_us = random() % 400;
    const auto aborted = round == 0 ? 3 : static_cast<uint32_t>(random() % 4);  // 3 means no rank
    const uint64_t late_us = random() % 300;
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(abort_us));
      for (uint32_t rank = 0; rank < 3 && aborted < 3; ++rank) world.abort((aborted + rank) % 3);
    });
    run_ranks(3, [&](uint32_t rank) {
      if (rank == 2) std::this_thread::sleep_for(std::chrono::microseconds(late_us));
      world.run(rank, *ranks[rank].plan, ranks[rank].buffers(1, false), 1, 2);
      for (std::vector<std::byte> *const memory : {&ranks[rank].send, &ranks[rank].recv})
        std::fill(memory->begin(), memory->end(), static_cast<std::byte>(0xA0 + rank));
    });
    aborter.join();
    for (uint32_t rank = 0; rank < 3; ++rank) {
      CAPTURE(rondo_collective_string(it.collective), round, rank, aborted, abort_us, late_us);
      ++(world.result(rank).verdict == 0 ? done_count : stopped_count);
      for (const std::vector<std::byte> *const memory : {&ranks[rank].send, &ranks[rank].recv})
        CHECK(std::all_of(memory->begin(), memory->end(),
                          [&](std::byte byte) { return byte == static_cast<std::byte>(0xA0 + rank); }));
    }
  }
  CHECK(done_count + stopped_count > 0);
  CHECK(done_count > 0);  // how many were stopped depends on the machine
}

TEST_CASE("emulated load_store: a peer in another operation is a fault that names it") {
  for (const LoadStoreKind &kind : load_store_kinds())
    for (const uint32_t threads : {1u, 4u})
      for (const uint64_t other_count : {100, 3}) {
        const EmulatedCase it = load_store_case(kind, 3);
        EmulatedCase other = it;
        other.count = other_count;
        std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry);
        std::vector<CaseRank> others = make_ranks(other, drawn_geometry);
        DeviceWorld world = world_for(it);
        run_ranks(3, [&](uint32_t rank) {
          CaseRank &of = rank == 2 ? others[rank] : ranks[rank];
          world.run(rank, *of.plan, of.buffers(rank == 2 ? 7 : 1, false), 1, threads);
        });
        for (uint32_t rank = 0; rank < 3; ++rank) {
          CAPTURE(rank, threads, other_count, kind.text());
          const DeviceWorld::Ended result = world.result(rank);
          CHECK(device::outcome_in(result.verdict) == device::Outcome::fault);
          CHECK(device::fault_in(result.verdict) == Fault::foreign_slot);
          CHECK((rank == 2 ? device::peer_in(result.verdict) < 2 : device::peer_in(result.verdict) == 2));
        }
      }
}

TEST_CASE("emulated load_store: every kernel that a plan can name is in the list") {
  for (const std::string &name : device::load_store_kernel_names()) {
    CAPTURE(name);
    CHECK(find_kernel(name) != nullptr);
  }
}
