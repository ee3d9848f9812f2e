// SPDX-License-Identifier: Apache-2.0
// The kernels' bodies run on emulated blocks. Results must have the same bits as the host executor's.
#include "tests/gpu/emulated_draw.h"
#include "tests/sanitized.h"

using namespace rondo;
using namespace rondo::test;

TEST_CASE("emulated block: a ring of float32 sums is bit-equal to the host executor, whatever the threads") {
  const uint64_t seed = seed_from_environment();
  for (const uint64_t count : {0, 1, 7, 250, 1999}) {
    EmulatedCase it;
    it.rank_count = 3;
    it.count = count;
    it.channels = 2;
    check(it, drawn_geometry, {0, 1, 2, 4, 8}, seed);
  }
}

TEST_CASE("emulated block: every type, operation, algorithm and protocol is bit-equal to the host executor") {
  const uint64_t seed = seed_from_environment();
  Random random(seed);
  uint32_t case_count = 0;
  rondo_test::GateShare share("types and operations of emulated blocks");
  for (const Algorithm &algorithm : algorithms())
    for (const auto protocol : device_protocols)
      for (int type = RONDO_INT8; type <= RONDO_FLOAT8_E5M2; ++type)
        for (int op = RONDO_SUM; op <= RONDO_AVG; ++op) {
          EmulatedCase it;
          it.algorithm = algorithm.id;
          it.protocol = protocol;
          it.type = static_cast<rondo_type_t>(type);
          it.op = static_cast<rondo_op_t>(op);
          draw_rest(it, random, drawn_geometry);
          it.count = draw_count(random);
          const std::vector<uint32_t> threads = draw_threads(random);
          if (!share.has_next()) continue;
          check(it, drawn_geometry, threads, seed);
          ++case_count;
        }
  CHECK(case_count > 10);
}

TEST_CASE("emulated block: every collective of every algorithm is bit-equal to the host executor") {
  const uint64_t seed = seed_from_environment();
  Random random(seed);
  uint32_t case_count = 0;
  rondo_test::GateShare share("collectives of emulated blocks");
  for (const Algorithm &algorithm : algorithms())
    for (int collective = 0; collective < RONDO_BARRIER; ++collective)
      for (const auto protocol : device_protocols) {
        share.skip();  // so that a quarter has both types
        for (uint32_t round = 0; round < 12; ++round) {
          EmulatedCase it;
          it.collective = static_cast<rondo_collective_t>(collective);
          it.algorithm = algorithm.id;
          it.protocol = protocol;
          it.type = round % 2 == 0 ? RONDO_FLOAT32 : RONDO_FLOAT16;
          if (!algorithm.supports(it.collective)) continue;
          draw_rest(it, random, drawn_geometry);
          it.count = draw_count(random);
          if (uses_blocks(it.collective)) it.count /= it.rank_count;
          const std::vector<uint32_t> threads = draw_threads(random);
          if (!share.has_next()) continue;
          check(it, drawn_geometry, threads, seed);
          ++case_count;
        }
      }
  CHECK(case_count > 10);
}

TEST_CASE("emulated block: two slots a connection suffice, and slots of large vectors are filled") {
  const uint64_t seed = seed_from_environment();
  Random random(seed);
  for (const ConnectionGeometry &slots : {ConnectionGeometry{2, 64, 64}, ConnectionGeometry{2, 8192, 2048}})
    for (const Algorithm &algorithm : algorithms())
      for (const auto protocol : device_protocols) {
        EmulatedCase it;
        it.algorithm = algorithm.id;
        it.protocol = protocol;
        it.type = RONDO_BFLOAT16;
        draw_rest(it, random, slots);
        it.chunk_bytes = slot_payload_bytes(protocol, slots) / 64 * 64;
        it.count = slots.slot_bytes == 64 ? 333 : 20'011;
        if (under_thread_sanitizer) it.count /= 10;
        check(it, slots, draw_threads(random), seed);
      }
}

TEST_CASE("emulated block: counters pass the wrap of ll's laps and of their sweep without a wrong slot") {
  const uint64_t seed = seed_from_environment();
  for (const uint64_t first : {uint64_t{4 * (ll::sweep_laps - 2)}, uint64_t{4 * (ll::lap_count - 2)}})
    for (const uint64_t count : {5, 97, 333}) {
      EmulatedCase it;
      it.protocol = RONDO_PROTOCOL_LL;
      it.type = RONDO_INT32;
      it.rank_count = 3;
      it.count = count;
      it.chunk_bytes = 128;
      check(it, {4, 256, 64}, {1, 4}, seed, first);
    }
}

TEST_CASE("emulated block: addresses that are no multiple of an element's size are read and written all the same") {
  const uint64_t seed = seed_from_environment();
  for (const auto type : {RONDO_FLOAT64, RONDO_FLOAT32, RONDO_BFLOAT16})
    for (const auto op : {RONDO_SUM, RONDO_AVG})
      for (const uint32_t offset : {1, 3}) {
        EmulatedCase it;
        it.type = type;
        it.op = op;
        it.rank_count = 2;
        it.count = 301;
        it.offset_bytes = offset;
        check(it, drawn_geometry, {2}, seed);
      }
}

TEST_CASE("emulated block: every kernel that a plan can name is in the list") {
  for (int type = RONDO_INT8; type <= RONDO_FLOAT8_E5M2; ++type)
    for (int op = RONDO_SUM; op <= RONDO_AVG; ++op)
      for (const auto protocol : device_protocols)
        for (int collective = 0; collective < RONDO_BARRIER; ++collective) {
          OperationKey key;
          key.signature.collective = static_cast<uint32_t>(collective);
          key.signature.type = static_cast<uint32_t>(type);
          key.signature.op = static_cast<uint32_t>(op);
          if (uses_blocks(static_cast<rondo_collective_t>(collective))) key.blocks = {{0, 0}, {0, 0}};
          const auto plan = build_plan(key, {RONDO_ALGORITHM_RING, protocol, 1, 64}, drawn_geometry, 0, 2);
          const std::string name = device::kernel_name(*plan.value());
          CAPTURE(name);
          CHECK(find_kernel(name) != nullptr);
        }
}
