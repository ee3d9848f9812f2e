// SPDX-License-Identifier: Apache-2.0
// These tests compute a rank's share of a device: slots, channels of connections, and blocks. The share depends on the
// device's multiprocessors and on the number of its ranks.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "cuda/executors/connection_shape.h"
#include "cuda/executors/load_store_shape.h"
#include "cuda/executors/residency.h"
#include "cuda/executors/segment_memory.h"
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

/// Returns a claim of `blocks` blocks by communicators that have `ranks` ranks in all.
ClaimedBlocks claimed(uint64_t blocks, uint64_t ranks) { return {{}, blocks, ranks}; }

/// Links to a rank of another host, without memory.
struct FarLinks final : rondo::Links {
  rondo::ConnectionGeometry slots{8, 64 << 10, 0};

  [[nodiscard]] rondo::ConnectionGeometry geometry() const override { return slots; }
  [[nodiscard]] uint32_t channel_count() const override { return 1; }
  [[nodiscard]] rondo::ConnectionView outgoing(uint32_t, uint32_t) const override { return {nullptr, slots}; }
  [[nodiscard]] rondo::ConnectionView incoming(uint32_t, uint32_t) const override { return {nullptr, slots}; }
  [[nodiscard]] rondo::ConnectionView outgoing_messages(uint32_t) const override { return {nullptr, slots}; }
  [[nodiscard]] rondo::ExchangeView exchange() const override { return {}; }
  [[nodiscard]] uint32_t readable_kinds(uint32_t) const override { return 0; }
  [[nodiscard]] rondo::PeerAccess &peers() override { std::abort(); }
  void set_running(bool) override {}
  void wait_for_readers() const override {}
  [[nodiscard]] uint64_t shared_bytes() const override { return 0; }
  [[nodiscard]] rondo::Result<uint64_t> used_bytes() const override { return uint64_t{0}; }
};

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

TEST_CASE("budgets: a rank's share of a device is its multiprocessors, then what others need not have, then one block",
          "[budget]") {
  const BlockBudget budget = budget_of_132();
  const auto share = [&](uint64_t ranks, uint64_t blocks, uint64_t others) {
    return share_of_rank(budget, claimed(blocks, others), ranks);
  };
  CHECK(share(1, 0, 0) == 132);
  CHECK(share(2, 0, 0) == 66);
  CHECK(share(8, 0, 0) == 16);
  CHECK(share(64, 0, 0) == 3);      // 64 blocks are kept for 64 more ranks
  CHECK(share(2, 132, 2) == 4);     // of the 132 blocks left, 124 are kept for 62 communicators of two
  CHECK(share(2, 140, 4) == 1);
  CHECK(share(8, 128, 8) == 3);
  CHECK(share(1, 128, 4) == 13);    // a process per device: four communicators have 32 blocks each
  CHECK(share(8, 264 - 8, 200) == 1);
  CHECK(share(8, 300, 200) == 1);   // more blocks are claimed than exist, so this communicator is refused
}

TEST_CASE("budgets: a device has blocks for 128 ranks, or for half as many as it has blocks", "[budget]") {
  BlockBudget budget = budget_of_132();
  for (const auto &[blocks, multiprocessors] : {std::pair(264u, 132u), std::pair(64u, 64u), std::pair(32u, 16u)}) {
    budget.blocks = blocks;
    budget.multiprocessors = multiprocessors;
    for (const uint32_t ranks : {1u, 2u, 8u}) {
      ClaimedBlocks all = claimed(0, 0);
      for (;;) {
        const uint64_t each = share_of_rank(budget, all, ranks);
        if (all.blocks + each * ranks > blocks) break;
        all.blocks += each * ranks;
        all.rank_count += ranks;
      }
      CAPTURE(blocks, ranks, all.rank_count);
      CHECK(all.rank_count >= std::min<uint64_t>(kept_ranks_max, blocks / 2));
    }
  }
}

TEST_CASE("budgets: a rank wants its multiprocessors, by load_store or by connections among threads", "[budget]") {
  rondo::Settings settings;
  const rondo::GroupInfo group;
  PlacedRequest request{{{0, 1, settings, group}}};
  request.executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  const BlockBudget budget = budget_of_132();
  const auto wanted = [&](uint32_t ranks, uint32_t most = 0) {
    request.rank_count = request.neighbours.in_process = ranks;
    settings.max_ctas = most;
    const ChannelCounts counts = wanted_channels(request, budget, true);
    return std::pair(counts.connections, counts.load_store);
  };
  CHECK(wanted(1) == std::pair(4u, 0u));
  CHECK(wanted(2) == std::pair(4u, 66u));
  CHECK(wanted(8) == std::pair(4u, 16u));
  CHECK(wanted(64) == std::pair(4u, 4u));
  CHECK(wanted(8, 5) == std::pair(4u, 5u));
  CHECK(wanted(2, 1) == std::pair(1u, 1u));
  settings.kernel = RONDO_KERNEL_INTERPRETER;
  CHECK(wanted(2) == std::pair(64u, 0u));
  CHECK(wanted(8) == std::pair(16u, 0u));
  settings.kernel = RONDO_KERNEL_AUTO;
  CHECK(wanted_channels(request, budget, false).connections == 16);  // in a build without kernels of load_store
  settings.channels = 7;  // requested by the user
  CHECK(wanted(8) == std::pair(7u, 7u));
  settings.channels = 0;
  request.rank_count = 9;  // one rank is on another device
  settings.max_ctas = 0;
  CHECK(wanted_channels(request, budget, true).connections == 4);
  CHECK(wanted_channels(request, budget, true).load_store == 0);
  CHECK(choose_load_store(request, 4).rank_count == 0);
  settings.kernel = RONDO_KERNEL_LOAD_STORE;
  CHECK(wanted_channels(request, budget, true).load_store == 4);
  CHECK(choose_load_store(request, 4).channel_count == 4);
  CHECK(choose_load_store(request, 4).chunk_bytes == 256 << 10);
}

TEST_CASE("budgets: a rank has at most 6 MiB among 2 ranks and 16 MiB among 8, and more if a kernel is asked for",
          "[budget]") {
  rondo::Settings settings;
  const BlockBudget budget = budget_of_132();
  for (const bool on_one_device : {true, false}) {
    CHECK(plan_segment_memory(settings, budget, 2, on_one_device).value().all <= 6 << 20);
    CHECK(plan_segment_memory(settings, budget, 8, on_one_device).value().all <= 16 << 20);
    const SegmentMemory memory = plan_segment_memory(settings, budget, 8, on_one_device).value();
    const uint64_t named = memory.connections + memory.places + memory.messages + memory.plans;
    CHECK(memory.all >= named);
    CHECK(memory.all - named < 1 << 20);
  }
  settings.kernel = RONDO_KERNEL_INTERPRETER;
  CHECK(plan_segment_memory(settings, budget, 2, true).value().connections > 64 << 20);
}

TEST_CASE("budgets: copies between two ranks have 4 slots of 1 MiB in 6 MiB, since a rank sends none to itself",
          "[budget]") {
  rondo::Settings settings;
  const rondo::GroupInfo group;
  PlacedRequest request{{{0, 2, settings, group}}};
  request.executor = RONDO_DEVICE_EXECUTOR_COPY;
  const SegmentShape two = choose_copy_segment(request).value();
  CHECK(two.bytes() <= 6 << 20);
  CHECK(two.geometry.slot_bytes == 1 << 20);
  CHECK(two.geometry.slot_count == 4);
  CHECK(two.message_geometry.slot_bytes >= 250 << 10);
  CHECK(two.connection_offset(0, 1, 0) == 0);
  CHECK(two.connection_offset(0, 0, 1) == 0);
  request.rank_count = 8;
  const SegmentShape eight = choose_copy_segment(request).value();
  CHECK(eight.bytes() <= 16 << 20);
  CHECK(eight.connection_offset(0, 7, 7) + eight.connection_bytes() <= eight.ends_offset(0, 0));
}

TEST_CASE("budgets: a limit of memory is kept by smaller slots, or refused with what is needed", "[budget]") {
  rondo::Settings settings;
  const BlockBudget budget = budget_of_132();
  for (const rondo_kernel_t kernel : {RONDO_KERNEL_AUTO, RONDO_KERNEL_INTERPRETER, RONDO_KERNEL_LOAD_STORE}) {
    settings.kernel = kernel;
    for (const bool on_one_device : {true, false}) {
      for (const uint32_t rank_count : {2u, 8u}) {
        CAPTURE(kernel, on_one_device, rank_count);
        settings.max_memory_bytes = 0;
        const uint64_t usual = plan_segment_memory(settings, budget, rank_count, on_one_device).value().all;
        settings.max_memory_bytes = usual;
        CHECK(plan_segment_memory(settings, budget, rank_count, on_one_device).value().all == usual);
        settings.max_memory_bytes = usual / 2;
        const auto smaller = plan_segment_memory(settings, budget, rank_count, on_one_device);
        REQUIRE(smaller.ok());
        CHECK(smaller.value().all <= usual / 2);
        CHECK(smaller.value().all >= usual / 16);
      }
    }
  }
  settings.max_memory_bytes = 64 << 10;
  const auto refused = plan_segment_memory(settings, budget, 8, true);
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().status == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(refused.error().message.find("is 64 KiB, and this communicator needs") != std::string::npos);
}

TEST_CASE("budgets: a refusal by the limit of memory says which slots would fit", "[budget]") {
  rondo::Settings settings;
  settings.kernel = RONDO_KERNEL_INTERPRETER;
  settings.channels = 2;
  settings.slot_count = 64;
  settings.slot_bytes = 1 << 20;
  settings.max_memory_bytes = 256 << 20;
  const auto refused = plan_segment_memory(settings, budget_of_132(), 2, true);
  REQUIRE_FALSE(refused.ok());
  const std::string &message = refused.error().message;
  CAPTURE(message);
  CHECK(message.find("with 64 slots of 1M bytes; with 16 slots of 1M bytes, ") != std::string::npos);
  CHECK(message.find("would fit") != std::string::npos);
  settings.slot_count = 16;
  CHECK(plan_segment_memory(settings, budget_of_132(), 2, true).ok());
}

TEST_CASE("budgets: between hosts the limit of memory holds for the connections of messages, too", "[budget]") {
  rondo::Settings settings;
  const rondo::GroupInfo group(std::vector<uint32_t>{0, 1});
  FarLinks links;
  PlacedRequest request{{{0, 2, settings, group}}};
  request.executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  request.links = &links;
  ChannelCounts channels;
  channels.connections = 1;
  const SegmentShape usual = choose_segment(request, channels, false).value();
  CHECK(usual.message_channels == 1);
  CHECK(usual.message_geometry.slot_bytes == links.slots.slot_bytes);
  settings.max_memory_bytes = usual.bytes();
  CHECK(choose_segment(request, channels, false).value().bytes() == usual.bytes());
  settings.max_memory_bytes -= usual.message_connection_bytes();  // less memory for plans cannot make up for this
  CHECK_FALSE(choose_segment(request, channels, false).ok());
}

TEST_CASE("budgets: a block has a thread for each word of a short post, and a warp for first words", "[budget]") {
  CHECK(load_store_threads(false, 0) == 256);
  CHECK(load_store_threads(true, 1) == 64);  // a warp for words, and one for first words
  CHECK(load_store_threads(true, 32) == 64);
  CHECK(load_store_threads(true, 33) == 96);
  CHECK(load_store_threads(true, 224) == 256);
  CHECK(load_store_threads(true, 256) == 256);  // each thread has a word
}

// If two ranks with 66 blocks each divided 256 MiB at multiples of 64 bytes, half of the parts would straddle lines.
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
