// SPDX-License-Identifier: Apache-2.0
// These tests run reduce_scatter, all_gather, broadcast and reduce by load_store on several devices. Ranks are threads.
// If peers can read all ranks' buffers, the kernel uses them. Otherwise it uses the ranks' places. If no device reaches
// another, requested calls use only places. The file load_store_peers_test.cpp explains the tags.
#include <string>
#include <vector>

#include "tests/gpu/collective_buffers.h"
#include "tests/sanitized.h"

using namespace rondo_test;
using namespace rondo::cuda;

namespace {

constexpr size_t vector_elements = 20'004;  // above the interpreter's sizes; three or four equal blocks

/// Checks every collective, out of place and in place. Some blocks are whole vectors of 16 bytes, others are not.
void check_calls(const DeviceRanks &group, uint32_t hidden, size_t skew_bytes) {
  const CollectiveBuffers buffers(group, vector_elements, hidden, skew_bytes);
  const auto rank_count = group.ranks.size();
  uint64_t seed = 0;
  for (const auto collective : other_collectives)
    for (const size_t elements : {vector_elements, vector_elements - 7}) {
      DeviceCase it = case_of(collective, elements, rank_count);
      CAPTURE(rondo_collective_string(collective), rank_count, elements, hidden, skew_bytes);
      CHECK(kernel_of(group.ranks[0], it) == RONDO_KERNEL_LOAD_STORE);
      for (const bool in_place : {false, true}) {
        it.in_place = in_place;
        seed += 10;
        in_place ? buffers.fill_in_place(it, seed) : buffers.fill(seed);
        buffers.call_all(it);
        group.complete();
        buffers.check(it, seed);
      }
    }
}

}  // namespace

TEST_CASE("peers: every collective is by load_store, whichever ranks' buffers can be read, in and out of place",
          "[peers]") {
  auto share = GateShare::in_every_build("collectives that peers read");
  for (const std::vector<CuDevice> &devices :
       {std::vector<CuDevice>{0, 1}, {0, 1, 1}, {1, 0, 1, 0}, {0, 1, 2, 3, 4, 5, 6, 7}}) {
    if (!has_peers(devices)) continue;
    const DeviceRanks group(on_devices(devices));
    const auto all = (1u << devices.size()) - 1;
    for (const uint32_t hidden : {0u, 1u, 2u, 1u << (devices.size() - 1), all}) {
      if (!share.has_next()) continue;
      const AccessCheck checked;
      check_calls(group, hidden, hidden == 0 ? 4 : 12);
    }
    const DeviceCase small = case_of(RONDO_BROADCAST, 8192, group.ranks.size());
    CHECK(kernel_of(group.ranks[0], small) == RONDO_KERNEL_INTERPRETER);
  }
}

TEST_CASE("peers: a buffer that no peer touches need not be one that peers can read", "[peers]") {
  auto *const moved = soft_cuda_function<uint64_t(uint32_t, uint32_t)>(conformance::loaded_driver().library,
                                                                       "soft_cuda_moved_bytes");
  if (!has_peers(2) || moved == nullptr) return;
  const DeviceRanks group(on_devices({0, 1}));
  const CollectiveBuffers readable(group, vector_elements), hidden(group, vector_elements, 0b11);
  for (const auto collective : other_collectives) {
    const DeviceCase it = case_of(collective, vector_elements, 2);
    CAPTURE(rondo_collective_string(collective));
    readable.fill(3);
    hidden.fill(3);
    const AccessCheck checked;
    const auto is_touched = [&](bool send, int rank) {  // a broadcast has only the root's send, a reduce only its recv
      if (collective == (send ? RONDO_BROADCAST : RONDO_REDUCE)) return rank == it.root;
      return collective != (send ? RONDO_ALL_GATHER : RONDO_REDUCE_SCATTER);
    };
    const auto pointer = [&](bool send, int rank) {
      const CollectiveBuffers &of = is_touched(send, rank) ? readable : hidden;
      return static_cast<std::byte *>((send ? of.send : of.recv)[static_cast<size_t>(rank)].pointer());
    };
    for (int rank = 0; rank < 2; ++rank)
      REQUIRE(call(it, rank, group.ranks[rank], group.stream(rank), pointer(true, rank), pointer(false, rank)) ==
              RONDO_OK);
    group.complete();
    (collective == RONDO_REDUCE_SCATTER ? hidden : readable).check(it, 3);
    const uint64_t bytes = moved(0, 0) + moved(1, 1);  // moved in the devices' own memory
    CAPTURE(bytes);
    CHECK(2 * bytes <= 7 * vector_elements * sizeof(float));  // 3 moves of a byte in buffers, 5 to 6 through places
  }
}

TEST_CASE("peers: captured calls of every collective are replayed, whether buffers can be read or not", "[peers]") {
  if (!has_peers(2)) return;
  rondo_test::GateShare share("replays of collectives that peers read");
  for (const uint32_t hidden : {0u, 2u}) {
    const DeviceRanks group(on_devices({0, 1}));
    const CollectiveBuffers buffers(group, vector_elements, hidden), others(group, vector_elements, 2 - hidden);
    for (const auto collective : other_collectives) {
      if (!share.has_next()) continue;
      CAPTURE(rondo_collective_string(collective), hidden);
      const DeviceCase it = case_of(collective, vector_elements, 2);
      std::vector<GraphExec> graphs;
      for (int rank = 0; rank < 2; ++rank)
        graphs.push_back(captured(group.world_of(rank), group.stream(rank), [&] {
          for (int times = 0; times < 2; ++times) buffers.call(it, rank);
        }));
      for (uint64_t round = 0; round < 4; ++round) {
        buffers.fill(100 * round);
        if (round % 2 == 1)
          for (const auto other : other_collectives) others.call_all(case_of(other, 9000, 2));
        for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
        group.complete();
        buffers.check(it, 100 * round);
      }
    }
  }
}

TEST_CASE("load_store: where it is asked for among devices that share nothing, every collective goes through places",
          "[.][apart]") {
  if (!has_devices(2)) return;
  rondo_config_t config = on_device();
  config.kernel = RONDO_KERNEL_LOAD_STORE;
  const DeviceRanks group(on_devices({0, 1, 1}, config));
  const AccessCheck checked;
  check_calls(group, 0, 4);
}
