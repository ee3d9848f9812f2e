// SPDX-License-Identifier: Apache-2.0
// These tests capture calls by kernels, and replay the graphs.
#include "tests/gpu/device_ranks.h"
#include "tests/test_clock.h"

using namespace rondo_test;
using namespace rondo::cuda;

TEST_CASE("device: a captured all-reduce is replayed, each time on what is there then") {
  DeviceRanks group(2);
  constexpr size_t count = 10'000;
  std::vector<DeviceBuffer> buffers;
  std::vector<GraphExec> graphs;
  for (int rank = 0; rank < 2; ++rank) {
    buffers.emplace_back(group.world, bytes_of(std::vector<float>(count, 1)));
    graphs.push_back(captured(group.world, group.stream(rank), [&] {
      REQUIRE(rondo_all_reduce(buffers.back().pointer(), buffers.back().pointer(), count, RONDO_FLOAT32, RONDO_SUM,
                               group.ranks[rank], group.stream(rank)) == RONDO_OK);
    }));
  }
  for (const DeviceBuffer &buffer : buffers) CHECK(values_of<float>(buffer.read())[0] == 1);  // nothing ran yet
  float expected = 1;
  for (int replay = 0; replay < 4; ++replay) {
    for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
    group.complete();
    expected *= 2;
    for (const DeviceBuffer &buffer : buffers)
      CHECK_VALUES(buffer.read(), std::vector<float>(count, expected));
  }
  // A replay right after a call must not hide the end of that call, for which finalize waits.
  for (int round = 0; round < 20; ++round) {
    for (int rank = 0; rank < 2; ++rank) {
      const auto index = static_cast<size_t>(rank);
      void *const pointer = buffers[index].pointer();
      REQUIRE(rondo_all_reduce(pointer, pointer, count, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank],
                               group.stream(rank)) == RONDO_OK);
      group.launch(graphs[index], rank);
    }
    expected *= 4;
  }
  group.complete();  // replays are not ordered with later work on other streams, nor with finalize
  std::vector<rondo_status_t> ends(2, RONDO_ERROR_INTERNAL);
  std::thread other([&] { ends[1] = rondo_comm_finalize(group.ranks[1]); });
  ends[0] = rondo_comm_finalize(group.ranks[0]);
  other.join();
  CHECK(ends == std::vector<rondo_status_t>(2, RONDO_OK));
  group.synchronize();
  for (const DeviceBuffer &buffer : buffers)
    CHECK_VALUES(buffer.read(), std::vector<float>(count, expected));
}

TEST_CASE("device: a captured call is one node, of a plan that is new, too: its kernel") {
  auto *const nodes =
      soft_cuda_function<uint64_t()>(conformance::loaded_driver().library, "soft_cuda_captured_count");
  if (nodes == nullptr) {
    std::puts("skipped: nodes of captured calls: only the driver in software counts them");
    return;
  }
  struct Way {
    rondo_protocol_t protocol;
    rondo_kernel_t kernel;
  };
  for (const Way &way : {Way{RONDO_PROTOCOL_SIMPLE, RONDO_KERNEL_AUTO}, Way{RONDO_PROTOCOL_LL, RONDO_KERNEL_AUTO},
                         Way{RONDO_PROTOCOL_AUTO, RONDO_KERNEL_LOAD_STORE}}) {
    rondo_config_t config = on_device();
    config.protocol = way.protocol;
    config.kernel = way.kernel;
    DeviceRanks group(2, config);
    std::vector<DeviceBuffer> buffers;
    std::vector<GraphExec> graphs;
    for (int rank = 0; rank < 2; ++rank) {
      buffers.emplace_back(group.world, bytes_of(std::vector<float>(100, 1)));
      const uint64_t before = nodes();
      graphs.push_back(captured(group.world, group.stream(rank), [&] {
        REQUIRE(rondo_all_reduce(buffers.back().pointer(), buffers.back().pointer(), 100, RONDO_FLOAT32, RONDO_SUM,
                                 group.ranks[rank], group.stream(rank)) == RONDO_OK);
      }));
      CAPTURE(way.protocol, way.kernel, rank);
      CHECK(nodes() - before == 1);
    }
    for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
    group.complete();
    for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), std::vector<float>(100, 2));
  }
}

TEST_CASE("device: what a graph runs stays, however many other calls come before its replay") {
  constexpr size_t count = 1000, other_counts = 300;  // more sizes than a communicator keeps plans for
  DeviceRanks group(2);
  std::vector<DeviceBuffer> buffers, others;
  std::vector<GraphExec> graphs;
  for (int rank = 0; rank < 2; ++rank) {
    buffers.emplace_back(group.world, bytes_of(std::vector<float>(count, 1)));
    others.emplace_back(group.world, bytes_of(std::vector<float>(count, 1)));
    graphs.push_back(captured(group.world, group.stream(rank), [&] {
      REQUIRE(rondo_all_reduce(buffers.back().pointer(), buffers.back().pointer(), count, RONDO_FLOAT32, RONDO_SUM,
                               group.ranks[rank], group.stream(rank)) == RONDO_OK);
    }));
  }
  for (size_t more = 1; more <= other_counts; ++more) {
    for (int rank = 0; rank < 2; ++rank) {
      void *const pointer = others[static_cast<size_t>(rank)].pointer();
      REQUIRE(rondo_all_reduce(pointer, pointer, count - more, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank],
                               group.stream(rank)) == RONDO_OK);  // their plans do not sum the last elements
    }
    group.complete();
  }
  for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
  group.complete();
  for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), std::vector<float>(count, 2));
}

TEST_CASE("device: a capture that binds all threads is not ended by the one that looks after calls") {
  DeviceRanks group(1);
  const DeviceBuffer buffer(group.world, bytes_of(std::vector<float>(64, 1)));
  const auto other = group.world.another_stream();
  const auto sum_on = [&](rondo_stream_t stream) {
    return rondo_all_reduce(buffer.pointer(), buffer.pointer(), 64, RONDO_FLOAT32, RONDO_SUM, group.ranks[0], stream);
  };
  REQUIRE(sum_on(other.get().object) == RONDO_OK);
  CU_OK(group.world.cu.stream_synchronize(other.get().object));
  auto *const stream = static_cast<CuStream>(group.stream(0));
  CU_OK(group.world.cu.stream_begin_capture(stream, CaptureMode::global));
  REQUIRE(sum_on(stream) == RONDO_OK);  // this call checks whether the call on the other stream has ended
  std::this_thread::sleep_for(3 * rondo::cuda::conformance::a_while);  // the monitor polls every 20 ms
  CuGraph graph = nullptr;
  CU_OK(group.world.cu.stream_end_capture(stream, &graph));
  CU_OK(group.world.cu.graph_destroy(graph));
}

// With this number of ranks and channels, a communicator's memory for plans is full before its cache has 256 plans.
TEST_CASE("device: calls of more sizes than a communicator has memory for plans", "[.][plan memory]") {
  constexpr size_t size_count = 240, count = 4096;
  constexpr int rank_count = 8;
  rondo_config_t config = on_device();
  config.device_executor = RONDO_DEVICE_EXECUTOR_KERNEL;
  config.kernel = RONDO_KERNEL_INTERPRETER;
  config.algorithm = RONDO_ALGORITHM_TWO_SHOT;
  config.channels = 40;
  DeviceRanks group(rank_count, config);
  std::vector<DeviceBuffer> buffers;
  for (int rank = 0; rank < rank_count; ++rank)
    buffers.emplace_back(group.world, bytes_of(std::vector<float>(count, 1)));
  const auto call = [&](size_t elements) {
    for (int rank = 0; rank < rank_count; ++rank) {
      void *const pointer = buffers[static_cast<size_t>(rank)].pointer();
      if (rondo_all_reduce(pointer, pointer, elements, RONDO_FLOAT32, RONDO_MAX, group.ranks[rank],
                           group.stream(rank)) != RONDO_OK)
        FAIL(elements << " elements, rank " << rank << ": " << error_message());
    }
  };
  const HeldClock clock;  // so no call times out while it waits for the end of an earlier call
  const uint64_t uploads = upload_count();
  const auto plans_made = [&] { return upload_count() - uploads; };
  for (size_t size = 0; size < size_count; ++size) call(count - size);
  if (in_software()) CHECK(plans_made() == rank_count * size_count);
  call(count - (size_count - 1));  // its plan is still in memory
  if (in_software()) CHECK(plans_made() == rank_count * size_count);
  call(count);  // its plan was removed, and is uploaded again
  if (in_software()) CHECK(plans_made() == rank_count * (size_count + 1));
  group.complete();
  for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), std::vector<float>(count, 1));
}
