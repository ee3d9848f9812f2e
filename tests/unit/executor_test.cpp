// SPDX-License-Identifier: Apache-2.0
// The host executor runs all algorithms, collectives and protocols in plain memory, with threads as ranks.
#include <algorithm>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "src/plan/schedule.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/executor_world.h"

using namespace rondo;
using World = rondo::test::HostWorld;

namespace {

struct Setting {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  PlanChoice choice;
  uint32_t rank_count = 1;
  uint32_t root = 0;
  uint64_t count = 0;
  bool in_place = false;
  bool exports = false;
};

constexpr int32_t poison = -77'777;

int32_t input(uint32_t rank, uint64_t element) {
  return static_cast<int32_t>((element * 31 + rank * 1009) % 1000) + static_cast<int32_t>(rank);
}

/// A rank's buffers, and the expected content of recv.
struct RankData {
  std::vector<int32_t> send;
  std::vector<int32_t> recv;
  std::vector<int32_t> expected;
};

RankData make_data(const Setting &setting, uint32_t rank) {
  const uint64_t n = setting.rank_count;
  const uint64_t all = uses_blocks(setting.collective) ? setting.count * n : setting.count;
  const auto sum = [&](uint64_t element) {
    int32_t total = 0;
    for (uint32_t peer = 0; peer < n; ++peer) total += input(peer, element);
    return total;
  };
  RankData data;
  const auto fill = [&](uint64_t first, uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) data.send.push_back(input(rank, first + i));
  };
  switch (setting.collective) {
    case RONDO_REDUCE_SCATTER:
      fill(0, all);
      for (uint64_t i = 0; i < setting.count; ++i) data.expected.push_back(sum(rank * setting.count + i));
      break;
    case RONDO_ALL_GATHER:
      fill(rank * setting.count, setting.count);
      for (uint64_t i = 0; i < all; ++i) data.expected.push_back(input(static_cast<uint32_t>(i / setting.count), i));
      break;
    case RONDO_BROADCAST:
      fill(0, all);
      for (uint64_t i = 0; i < all; ++i) data.expected.push_back(input(setting.root, i));
      break;
    default:
      fill(0, all);
      for (uint64_t i = 0; i < all; ++i) data.expected.push_back(sum(i));
  }
  data.recv.assign(data.expected.size(), poison);
  if (setting.collective == RONDO_REDUCE && rank != setting.root) data.expected = data.recv;
  return data;
}

Buffers make_buffers(const Setting &setting, const Plan &plan, RankData &data, uint32_t rank) {
  Buffers buffers;
  auto *send = reinterpret_cast<std::byte *>(data.send.data());
  auto *recv = reinterpret_cast<std::byte *>(data.recv.data());
  if (setting.in_place) {
    const uint64_t own = rank * setting.count;
    if (setting.collective == RONDO_REDUCE_SCATTER) recv = send + own * 4;
    if (setting.collective == RONDO_ALL_GATHER) {
      std::copy(data.send.begin(), data.send.end(), data.recv.begin() + static_cast<ptrdiff_t>(own));
      send = recv + own * 4;
    }
    if (!uses_blocks(setting.collective)) recv = send;
  }
  buffers.signature = fingerprint(extend_history(0, plan.identity));
  buffers.send = {send, plan.send.begin, {}};
  buffers.recv = {recv, plan.recv.begin, {}};
  buffers.send.handle.exported = buffers.recv.handle.exported = setting.exports;
  return buffers;
}

void check_once(World &world, const Setting &setting, const ConnectionGeometry &geometry) {
  std::vector<std::unique_ptr<Plan>> plans;
  std::vector<RankData> data;
  for (uint32_t rank = 0; rank < setting.rank_count; ++rank) {
    OperationKey key;
    key.signature = {static_cast<uint32_t>(setting.collective), RONDO_INT32, RONDO_SUM, setting.root, setting.count, 0};
    const bool counts = setting.collective != RONDO_REDUCE && setting.collective != RONDO_BROADCAST;
    key.in_place = setting.in_place && (counts || rank == setting.root);
    if (uses_blocks(setting.collective))
      for (uint32_t peer = 0; peer < setting.rank_count; ++peer)
        key.blocks.push_back({peer * setting.count, setting.count});
    auto plan = build_plan(key, setting.choice, geometry, rank, setting.rank_count);
    REQUIRE(plan.ok());
    plans.push_back(std::move(plan).value());
    data.push_back(make_data(setting, rank));
  }
  std::vector<std::thread> threads;
  std::vector<Buffers> buffers;
  for (uint32_t rank = 0; rank < setting.rank_count; ++rank) {
    Setting own = setting;
    own.in_place = plans[rank]->key.in_place;
    buffers.push_back(make_buffers(own, *plans[rank], data[rank], rank));
  }
  for (uint32_t rank = 1; rank < setting.rank_count; ++rank)
    threads.emplace_back([&, rank] { world.run(rank, *plans[rank], buffers[rank]); });
  world.run(0, *plans[0], buffers[0]);
  for (auto &thread : threads) thread.join();
  REQUIRE(world.failures() == 0);
  for (uint32_t rank = 0; rank < setting.rank_count; ++rank) {
    CAPTURE(rank);
    if (setting.collective == RONDO_REDUCE && rank != setting.root) {
      CHECK(data[rank].recv == data[rank].expected);
      continue;
    }
    const auto *got = reinterpret_cast<const int32_t *>(buffers[rank].recv.data);
    CHECK(std::vector<int32_t>(got, got + data[rank].expected.size()) == data[rank].expected);
  }
}

void check_all(const ConnectionGeometry &geometry, std::span<const uint64_t> counts, uint64_t chunk_bytes,
               uint32_t rank_count, uint64_t first_counter) {
  static auto share = rondo_test::GateShare::in_every_build("counts of the host executor among threads");
  World world(rank_count, 2, geometry, first_counter);
  for (const Algorithm &algorithm : algorithms())
    for (int collective = 0; collective < RONDO_BARRIER; ++collective) {
      const auto which = static_cast<rondo_collective_t>(collective);
      if (!algorithm.supports(which)) continue;
      for (const auto protocol : {RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL})
        for (const uint64_t count : counts) {
          if (!share.has_next()) continue;
          for (int variant = 0; variant < 4; ++variant) {
            const uint64_t limit = protocol == RONDO_PROTOCOL_LL ? geometry.ll_slot_bytes : geometry.slot_bytes;
            const uint64_t chunk = std::min(chunk_bytes, limit * (geometry.slot_count - 1)) / 64 * 64;
            const Setting setting{which,
                                  {algorithm.id, protocol, count % 2 == 1 ? 1u : 2u, chunk},
                                  rank_count,
                                  static_cast<uint32_t>(count % rank_count),
                                  count,
                                  (variant & 1) != 0,
                                  (variant & 2) != 0};
            CAPTURE(rondo_algorithm_string(algorithm.id), rondo_collective_string(which), count, variant,
                    rondo_protocol_string(protocol), setting.root, rank_count);
            check_once(world, setting, geometry);
          }
        }
      share.skip();  // so that the next collective has other cases in the same quarter
    }
}

}  // namespace

TEST_CASE("host executor: every algorithm, collective and protocol gives the exact result among threads") {
  const ConnectionGeometry geometry{4, 512, 128};
  const std::vector<uint64_t> counts{0, 1, 7, 250, 1999};
  for (const uint32_t rank_count : {1u, 2u, 3u, 4u, 5u}) check_all(geometry, counts, 256, rank_count, 0);
}

TEST_CASE("host executor: two slots a connection suffice") {
  const ConnectionGeometry geometry{2, 64, 64};
  const std::vector<uint64_t> counts{13, 700};
  for (const uint32_t rank_count : {2u, 3u, 6u}) check_all(geometry, counts, 64, rank_count, 0);
}

TEST_CASE("host executor: counters pass the wrap of the ll flag and of its sweep without a wrong slot") {
  const ConnectionGeometry geometry{4, 256, 64};
  const std::vector<uint64_t> counts{5, 97, 333};
  for (const uint64_t first : {uint64_t{4 * (ll::sweep_laps - 2)}, uint64_t{4 * (ll::lap_count - 2)}})
    check_all(geometry, counts, 128, 3, first);
}
