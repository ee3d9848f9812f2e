// SPDX-License-Identifier: Apache-2.0
// These tests check a rank's share of a device, by its multiprocessors and the ranks on it: slots, channels of
// connections, blocks.
#include <algorithm>

#include "cuda/executors/connection_shape.h"
#include "cuda/executors/load_store_shape.h"
#include "cuda/kernels/load_store_shared.h"
#include "tests/catch.h"

using namespace rondo::cuda;

namespace {

/// Returns the budget of an H100, where a multiprocessor holds two blocks.
BlockBudget budget_of_132() {
  BlockBudget budget;
  budget.multiprocessors = 132;
  budget.blocks = 264;
  return budget;
}

/// Puts all ranks on one device, in one process.
void put_there(PlacedRequest &request, uint32_t ranks, uint64_t claimed_blocks) {
  request.rank_count = request.neighbours.in_process = ranks;
  request.claimed_blocks = claimed_blocks;
}

}  // namespace

TEST_CASE("budgets: slots shrink as ranks and channels grow, and stay under what a rank may have", "[budget]") {
  CHECK(slot_bytes_for(8, 4, 8) == 128 << 10);
  CHECK(slot_bytes_for(16, 4, 8) == 128 << 10);
  CHECK(slot_bytes_for(17, 4, 8) == 64 << 10);
  CHECK(slot_bytes_for(8, 64, 8) == 16 << 10);
  for (const uint32_t ranks : {2u, 3u, 8u, 33u, 64u})
    for (const uint32_t channels : {1u, 4u, 8u, 64u})
      CHECK((uint64_t{slot_bytes_for(ranks, channels, 8)} * ranks * channels * 8 <= slot_memory_bytes ||
             slot_bytes_for(ranks, channels, 8) == slot_bytes_min));
}

TEST_CASE("budgets: fewer slots before they are smaller", "[budget]") {
  CHECK(slot_count_for(8, 8) == 8);
  CHECK(slot_count_for(8, 9) == 4);
  CHECK(slot_bytes_for(8, 16, slot_count_for(8, 16)) == 128 << 10);
  CHECK(slot_bytes_for(2, 64, slot_count_for(2, 64)) == 128 << 10);
}

TEST_CASE("budgets: channels of connections are a device's multiprocessors, and leave half of what is free",
          "[budget]") {
  rondo::Settings settings;
  const rondo::GroupInfo group;
  PlacedRequest request{{{0, 1, settings, group}}};
  const BlockBudget budget = budget_of_132();
  const auto channels_of = [&](uint32_t ranks, uint64_t claimed, uint32_t most = 0) {
    put_there(request, ranks, claimed);
    settings.max_ctas = most;
    return choose_connection_channels(request, budget, connection_channels(settings.channels, most));
  };
  CHECK(channels_of(1, 0) == 4);  // it has no connections
  CHECK(channels_of(2, 0) == 64);
  CHECK(channels_of(8, 0) == 16);
  CHECK(channels_of(8, 128) == 8);
  CHECK(channels_of(8, 192) == 4);
  CHECK(channels_of(8, 300) == 4);
  CHECK(channels_of(64, 0) == 4);
  CHECK(channels_of(8, 0, 5) == 5);
  CHECK(channels_of(8, 0, 1) == 1);
  settings.channels = 7;  // asked for
  CHECK(channels_of(8, 0) == 7);
  settings.channels = 0;
  request.rank_count = 9;  // one is elsewhere
  settings.max_ctas = 0;
  CHECK(choose_connection_channels(request, budget, 4) == 4);
}

TEST_CASE("budgets: blocks of ranks that share buffers are a device's, and leave half of what is free", "[budget]") {
  rondo::Settings settings;
  const rondo::GroupInfo group;
  PlacedRequest request{{{0, 1, settings, group}}};
  request.executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  const BlockBudget budget = budget_of_132();
  const auto channels_of = [&](uint32_t ranks, uint64_t claimed, uint32_t most = 0) {
    put_there(request, ranks, claimed);
    settings.max_ctas = most;
    const auto load_store = choose_load_store(request, budget, most == 0 ? 4 : std::min(most, 4u));
    // A rank then takes these, and the next communicator finds all ranks' blocks claimed.
    CHECK(blocks_of_a_rank(4, load_store) == std::max(4u, load_store.channel_count));
    return load_store.channel_count;
  };
  CHECK(channels_of(8, 0) == 16);
  CHECK(channels_of(2, 0) == 66);
  CHECK(channels_of(64, 0) == 4);
  CHECK(channels_of(8, 128) == 8);  // a second communicator takes half of what the first has left,
  CHECK(channels_of(8, 192) == 4);   // and a third what its connections want
  CHECK(channels_of(2, 0, 5) == 5);
  CHECK(channels_of(2, 0, 1) == 1);
  settings.channels = 7;  // asked for
  CHECK(choose_load_store(request, budget, 7).channel_count == 7);
  request.neighbours.in_process = 1;  // some are elsewhere
  CHECK(choose_load_store(request, budget, 4).rank_count == 0);
  settings.kernel = RONDO_KERNEL_LOAD_STORE;
  CHECK(choose_load_store(request, budget, 4).channel_count == 4);
  CHECK(choose_load_store(request, budget, 4).chunk_bytes == 256 << 10);
  CHECK(load_store_threads(false, 0) == 256);
  CHECK(load_store_threads(true, 1) == 64);  // a warp for words, and one for headers
  CHECK(load_store_threads(true, 32) == 64);
  CHECK(load_store_threads(true, 33) == 96);
  CHECK(load_store_threads(true, 224) == 256);
  CHECK(load_store_threads(true, 256) == 256);  // a word for each
}

// 66 blocks of each of two ranks and 256 MiB: with parts at multiples of 64 bytes half of them lay across lines.
TEMPLATE_TEST_CASE("budgets: parts in shared buffers begin at whole lines of a device's cache, and are the vector",
                   "[budget]", uint8_t, float, double) {
  using namespace rondo::device;
  for (const uint32_t ranks : {2u, 3u, 8u})
    for (const uint32_t channels : {1u, 16u, 66u})
      for (const uint64_t count : {uint64_t{1}, uint64_t{1000}, uint64_t{64} << 20, (uint64_t{64} << 20) + 5}) {
        LoadStoreOperation operation;
        operation.geometry.rank_count = ranks;
        operation.base.lane_count = channels;
        operation.count = count;
        operation.shared_chunk_elements = shared_chunk_bytes / sizeof(TestType);
        CAPTURE(ranks, channels, count);
        uint64_t next = 0, misplaced = 0;
        for (uint32_t channel = 0; channel < channels; ++channel) {
          const Share share = make_share<TestType>(operation, channel, false);
          for (uint32_t index = 0; index < share.chunk_count; ++index)
            for (uint32_t rank = 0; rank < ranks; ++rank) {
              const rondo::Range part = share.part(index, rank);
              if (part.count == 0) continue;
              misplaced += part.begin != next || part.begin * sizeof(TestType) % device_line_bytes != 0 ? 1 : 0;
              next = part.begin + part.count;
            }
        }
        CHECK(misplaced == 0);
        CHECK(next == count);
      }
}
