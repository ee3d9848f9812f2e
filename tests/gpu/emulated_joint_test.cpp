// SPDX-License-Identifier: Apache-2.0
// A joint kernel runs all ranks on emulated blocks. Its results must have the same bits as the host executor's.
#include "tests/gpu/emulated_draw.h"

using namespace rondo;
using namespace rondo::test;

namespace {

constexpr rondo_collective_t joint_collectives[] = {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER,
                                                    RONDO_BROADCAST, RONDO_REDUCE};

bool reduces(rondo_collective_t collective) {
  return collective != RONDO_ALL_GATHER && collective != RONDO_BROADCAST;
}

EmulatedCase joint_case(rondo_collective_t collective, uint32_t rank_count = 2, uint64_t count = 100) {
  EmulatedCase it;
  it.collective = collective;
  it.algorithm = uses_blocks(collective) ? RONDO_ALGORITHM_ONE_SHOT : RONDO_ALGORITHM_TWO_SHOT;
  it.kernel = RONDO_KERNEL_LOAD_STORE;
  it.rank_count = rank_count;
  it.count = count;
  it.joint_blocks = 1;
  return it;
}

}  // namespace

TEST_CASE("emulated joint: every type and operation is bit-equal to the host executor") {
  const uint64_t seed = seed_from_environment();
  Random random(seed);
  rondo_test::GateShare share("types and operations of emulated joint kernels");
  for (const rondo_collective_t collective : joint_collectives)
    for (int type = RONDO_INT8; type <= RONDO_FLOAT8_E5M2; ++type)
      for (int op = RONDO_SUM; op <= (reduces(collective) ? RONDO_AVG : RONDO_SUM); ++op)
        for (uint32_t round = 0; round < (collective == RONDO_ALL_REDUCE ? 4 : 2); ++round) {
          EmulatedCase it = joint_case(collective);
          it.type = static_cast<rondo_type_t>(type);
          it.op = static_cast<rondo_op_t>(op);
          draw_rest(it, random, drawn_geometry);
          it.exports = false;
          it.rank_count = between(random, 2, device::ranks_per_kernel_max);
          it.root = between(random, 0, it.rank_count - 1);
          it.joint_blocks = between(random, 1, 20);
          it.count = draw_count(random) / (uses_blocks(collective) ? it.rank_count : 1);
          const std::vector<uint32_t> threads = draw_threads(random);
          if (share.has_next()) check(it, drawn_geometry, threads, seed);
        }
}

TEST_CASE("emulated joint: addresses that are no multiple of an element's size are read and written too") {
  const uint64_t seed = seed_from_environment();
  for (const rondo_collective_t collective : joint_collectives)
    for (const auto type : {RONDO_FLOAT64, RONDO_FLOAT32, RONDO_BFLOAT16, RONDO_INT64})
      for (const uint32_t offset : {1, 3, 4}) {
        EmulatedCase it = joint_case(collective, 3, 301);
        it.type = type;
        it.op = RONDO_AVG;
        it.root = 1;
        it.joint_blocks = 3;
        it.offset_bytes = offset;
        it.in_place = offset == 3;
        it.skew_bytes = offset == 4 ? 4 : 0;
        check(it, drawn_geometry, {2}, seed);
      }
}

TEST_CASE("emulated joint: calls are counted among those by kernels of each rank") {
  constexpr uint32_t rank_count = 3;
  EmulatedCase it = joint_case(RONDO_ALL_REDUCE, rank_count, 700);
  it.type = RONDO_INT32;
  it.shares_buffers = true;
  DeviceWorld world(rank_count, it.channels, drawn_geometry, 0, load_store_geometry_for(it));
  world.share_buffers();
  for (uint64_t number = 1; number <= 6; ++number) {
    std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry, number);
    if (number % 2 == 1)
      run_joint(world, ranks, number, 4, number == 1 ? 1 : 5);
    else
      run_ranks(rank_count, [&](uint32_t rank) {
        world.run(rank, *ranks[rank].plan, ranks[rank].buffers(number, false), number, 4);
      });
    for (uint32_t rank = 0; rank < rank_count; ++rank) {
      const DeviceWorld::Ended ended = world.result(rank);
      CAPTURE(number, rank);
      CHECK(ended.number == number);
      CHECK(ended.kernels == number);
      CHECK(ended.verdict == 0);
      CHECK(is_sum(ranks, rank, it.count));
    }
  }
}

TEST_CASE("emulated joint: a replay says that it runs, and all ranks tell of its end") {
  const uint64_t count = GENERATE(2, 50'001);  // with 2 elements the kernel moves words, with 50,001 vectors
  EmulatedCase it = joint_case(RONDO_ALL_REDUCE, 3, count);
  it.type = RONDO_INT32;
  DeviceWorld world(3, 1, drawn_geometry, 0, load_store_geometry_for(it));
  world.capture();
  std::vector<CaseRank> ranks = make_ranks(it, drawn_geometry);
  for (uint64_t replay = 1; replay <= 2; ++replay) {
    run_joint(world, ranks, 1, 2, 7);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      const DeviceWorld::Ended ended = world.result(rank);
      CHECK(ended.number == 1);
      CHECK(ended.kernels == replay);
      CHECK(ended.running == replay);
    }
  }
}

TEST_CASE("emulated joint: a call has as many blocks as give each thread a word or a vector") {
  const std::vector<device::JointRank> ranks(4);
  cuda::JointPlan plan;
  plan.element_bytes = 4;
  struct Case {
    device::LoadStoreCollective collective;
    uint64_t bytes;
    uint32_t blocks_max, block_count, word_count;
  };
  using enum device::LoadStoreCollective;
  for (const Case &it : {Case{all_reduce, 0, 264, 1, 0}, Case{all_reduce, 8, 264, 1, 1},
                         Case{all_reduce, 2048, 264, 1, 256}, Case{all_reduce, 2056, 264, 2, 257},
                         Case{all_reduce, 32 << 10, 264, 16, 4096}, Case{all_reduce, 32 << 10, 3, 3, 4096},
                         Case{all_reduce, 128 << 10, 264, 64, 16384}, Case{all_reduce, (128 << 10) + 8, 264, 33, 0},
                         Case{all_reduce, 12, 264, 1, 0}, Case{all_reduce, 256 << 20, 264, 264, 0},
                         Case{reduce, 32 << 10, 264, 8, 0}, Case{reduce_scatter, 8, 264, 4, 0},
                         Case{reduce_scatter, 1 << 20, 264, 264, 0}, Case{all_gather, 1 << 20, 6, 4, 0}}) {
    plan.collective = it.collective;
    plan.count = it.bytes / plan.element_bytes;
    const cuda::JointLaunch made = cuda::make_joint(plan, {0, 0, it.blocks_max}, ranks);
    CAPTURE(static_cast<int>(it.collective), it.bytes, it.blocks_max);
    CHECK(made.operation.block_count == it.block_count);
    CHECK(made.size.blocks == it.block_count);
    CHECK(made.operation.word_count == it.word_count);
  }
}
