// SPDX-License-Identifier: Apache-2.0
// These tests run the collectives that only move data: every type, algorithm and protocol, even and uneven blocks, any
// alignment, in place and out of place. Every byte pattern must arrive unchanged, also signalling NaNs.
#include <cstring>
#include <random>
#include <vector>

#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/unit/reduction_reference.h"
#include "tests/unit/ranks.h"

using rondo_test::Ranks;

namespace {

using Buffer = std::vector<unsigned char>;

struct Gather {
  rondo_type_t type;
  bool uneven;     ///< with counts and displacements; blocks are in reverse order, with gaps
  bool in_place;
  size_t offset;   ///< bytes by which the buffers are unaligned
  std::vector<size_t> counts;
  std::vector<size_t> displacements;
  size_t end;      ///< elements of recv
};

Gather make_gather(rondo_type_t type, uint32_t rank_count, size_t count, std::mt19937_64 &random) {
  Gather it{type, random() % 2 == 0, random() % 2 == 0, random() % 2 == 0 ? 0 : 1 + random() % 63, {}, {}, 0};
  for (uint32_t rank = 0; rank < rank_count; ++rank) it.counts.push_back(it.uneven ? count * (rank % 3) + rank : count);
  it.displacements.resize(rank_count);
  for (uint32_t i = 0; i < rank_count; ++i) {
    const uint32_t rank = it.uneven ? rank_count - 1 - i : i;
    it.displacements[rank] = it.end + (it.uneven ? 3 : 0);
    it.end = it.displacements[rank] + it.counts[rank];
  }
  return it;
}

/// Returns how many ranks have a wrong recv buffer at the end, or -1 if a call failed.
int wrong_gathers(Ranks &ranks, const Gather &it, std::mt19937_64 &random) {
  const size_t size = rondo_type_size(it.type);
  Buffer expected(it.end * size + 64, 0xAB);
  std::vector<Buffer> sends;
  std::vector<Buffer> recvs(it.counts.size(), expected);
  for (size_t rank = 0; rank < it.counts.size(); ++rank) {
    Buffer &send = sends.emplace_back(it.counts[rank] * size + 64);
    for (unsigned char &byte : send) byte = static_cast<unsigned char>(random());
    const size_t own = it.offset + it.displacements[rank] * size;
    std::memcpy(expected.data() + own, send.data() + it.offset, it.counts[rank] * size);
    if (it.in_place) std::memcpy(recvs[rank].data() + own, send.data() + it.offset, it.counts[rank] * size);
  }
  const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
    const auto own = static_cast<size_t>(rank);
    unsigned char *const recv = recvs[own].data() + it.offset;
    const unsigned char *const send =
        it.in_place ? recv + it.displacements[own] * size : sends[own].data() + it.offset;
    if (!it.uneven) return rondo_all_gather(send, recv, it.counts[0], it.type, comm, nullptr);
    return rondo_all_gather_v(send, recv, it.counts.data(), it.displacements.data(), it.type, comm, nullptr);
  });
  if (!rondo_test::all_ok(statuses)) return -1;
  int wrong = 0;
  for (const Buffer &recv : recvs) wrong += recv != expected ? 1 : 0;
  return wrong;
}

int wrong_broadcasts(Ranks &ranks, rondo_type_t type, size_t count, std::mt19937_64 &random) {
  const size_t bytes = count * rondo_type_size(type);
  const size_t offset = random() % 64;
  const auto root = static_cast<size_t>(random() % static_cast<size_t>(ranks.size()));
  const bool in_place = random() % 2 == 0;
  Buffer expected(bytes + 128, 0xAB);
  std::vector<Buffer> recvs(static_cast<size_t>(ranks.size()), expected);
  Buffer send(bytes);
  for (unsigned char &byte : send) byte = static_cast<unsigned char>(random());
  std::copy(send.begin(), send.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
  if (in_place) recvs[root] = expected;
  const auto statuses = ranks.run([&](int rank, rondo_comm_t comm) {
    const auto own = static_cast<size_t>(rank);
    unsigned char *const recv = recvs[own].data() + offset;
    const void *const from = own != root ? nullptr : in_place ? recv : send.data();
    return rondo_broadcast(from, recv, count, type, static_cast<int>(root), comm, nullptr);
  });
  if (!rondo_test::all_ok(statuses)) return -1;
  int wrong = 0;
  for (const Buffer &recv : recvs) wrong += recv != expected ? 1 : 0;
  return wrong;
}

}  // namespace

TEST_CASE("all_gather and broadcast: every type arrives bit for bit by every algorithm, even and uneven") {
  const uint64_t seed = reduction_test::seed_from_environment();
  CAPTURE(seed);  // RONDO_SEED selects it again
  std::mt19937_64 random(seed);
  rondo_test::GateShare share("types that all_gather and broadcast move");
  for (int algorithm = 1; rondo_algorithm_string(static_cast<rondo_algorithm_t>(algorithm)) != nullptr; ++algorithm)
    for (uint32_t rank_count = 1; rank_count <= 5; ++rank_count) {
      rondo_config_t config = RONDO_CONFIG_INIT;
      config.algorithm = static_cast<rondo_algorithm_t>(algorithm);
      config.protocol = random() % 2 == 0 ? RONDO_PROTOCOL_SIMPLE : RONDO_PROTOCOL_LL;
      config.channels = 1 + static_cast<uint32_t>(random() % 2);
      config.chunk_bytes = 128;
      Ranks ranks(static_cast<int>(rank_count), config);
      REQUIRE(ranks.status() == RONDO_OK);
      rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
      const bool gathers = rondo_comm_query_plan(ranks[0], RONDO_ALL_GATHER, 1, RONDO_INT8, &plan) == RONDO_OK;
      const bool broadcasts = rondo_comm_query_plan(ranks[0], RONDO_BROADCAST, 1, RONDO_INT8, &plan) == RONDO_OK;
      share.skip();  // so that a quarter has other types for each number of ranks
      for (int type = 0; rondo_type_string(static_cast<rondo_type_t>(type)) != nullptr; ++type) {
        if (!share.has_next()) continue;
        for (const size_t count : {0, 1, 61, 1'009}) {
          CAPTURE(rondo_algorithm_string(config.algorithm), rank_count, type, count, config.protocol, config.channels);
          const Gather gather = make_gather(static_cast<rondo_type_t>(type), rank_count, count, random);
          CAPTURE(gather.uneven, gather.in_place, gather.offset);
          if (gathers) CHECK(wrong_gathers(ranks, gather, random) == 0);
          if (broadcasts) CHECK(wrong_broadcasts(ranks, static_cast<rondo_type_t>(type), count, random) == 0);
        }
      }
    }
}
