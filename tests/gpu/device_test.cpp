// SPDX-License-Identifier: Apache-2.0
// These tests run collectives on device memory by kernels, through the public interface (RONDO_CUDA_LIBRARY).
#include <algorithm>

#include "tests/gpu/device_ranks.h"
#include "tests/sanitized.h"

using namespace rondo_test;
using namespace rondo::cuda;

TEST_CASE("device: an all-reduce of ranks that are threads sums what they have, in and out of place") {
  for (const int rank_count : {1, 2, 3, 5}) {
    DeviceRanks group(rank_count);
    const size_t large = sanitized() ? 100'007 : 300'007;  // both take many chunks
    for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1000}, large}) {
      CAPTURE(rank_count, count);
      const uint64_t seed = 100 * count;
      std::vector<DeviceBuffer> send, recv;
      for (int rank = 0; rank < rank_count; ++rank) {
        send.emplace_back(group.world, bytes_of(whole_numbers(seed + static_cast<uint64_t>(rank), count)));
        recv.emplace_back(group.world, bytes_of(std::vector<float>(count, -1)));
      }
      const auto expected = sum_over_ranks(seed, rank_count, count);
      for (const bool in_place : {false, true}) {
        // One thread calls for all ranks, because no call waits for another rank.
        for (int rank = 0; rank < rank_count; ++rank) {
          const auto index = static_cast<size_t>(rank);
          void *const to = (in_place ? send : recv)[index].pointer();
          REQUIRE(rondo_all_reduce(send[index].pointer(), to, count, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank],
                                   group.stream(rank)) == RONDO_OK);
        }
        group.complete();
        for (int rank = 0; rank < rank_count; ++rank)
          CHECK_VALUES((in_place ? send : recv)[static_cast<size_t>(rank)].read(), expected);
      }
    }
  }
}

TEST_CASE("device: ranks on two devices write into each other's memory") {
  if (!has_two_devices("ranks on two devices")) return;
  const World first(0), second(1);
  const std::vector<const World *> worlds{&first, &second, &second};
  const Ranks ranks({on_device(0), on_device(1), on_device(1)});
  REQUIRE(ranks.status() == RONDO_OK);
  constexpr size_t count = 50'001;
  std::vector<DeviceBuffer> buffers;
  std::vector<Stream> streams;
  for (int rank = 0; rank < 3; ++rank) {
    const World &world = *worlds[static_cast<size_t>(rank)];
    buffers.emplace_back(world, bytes_of(whole_numbers(static_cast<uint64_t>(rank), count)));
    streams.push_back(world.another_stream());
  }
  for (int rank = 0; rank < 3; ++rank) {
    const auto index = static_cast<size_t>(rank);
    void *const pointer = buffers[index].pointer();
    REQUIRE(rondo_all_reduce(pointer, pointer, count, RONDO_FLOAT32, RONDO_SUM, ranks[rank],
                             streams[index].get().object) == RONDO_OK);
  }
  for (const Stream &stream : streams) CU_OK(first.cu.stream_synchronize(stream.get().object));
  for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), sum_over_ranks(0, 3, count));
}

TEST_CASE("device: every algorithm and protocol, over two channels") {
  constexpr int rank_count = 4;
  for (const rondo_algorithm_t algorithm : {RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TREE, RONDO_ALGORITHM_ONE_SHOT,
                                            RONDO_ALGORITHM_TWO_SHOT, RONDO_ALGORITHM_HALVING_DOUBLING})
    for (const rondo_protocol_t protocol : {RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL}) {
      rondo_config_t config = on_device();
      config.algorithm = algorithm;
      config.protocol = protocol;
      config.channels = 2;
      config.chunk_bytes = sanitized() ? 8192 : 16384;  // a ring has two chunks for each rank on each channel
      const size_t count = sanitized() ? 25'001 : 50'001;
      CAPTURE(algorithm, protocol);
      DeviceRanks group(rank_count, config);
      std::vector<DeviceBuffer> buffers;
      for (int rank = 0; rank < rank_count; ++rank)
        buffers.emplace_back(group.world_of(rank), bytes_of(whole_numbers(static_cast<uint64_t>(rank), count)));
      auto expected = sum_over_ranks(0, rank_count, count);
      for (int round = 0; round < 3; ++round) {
        for (int rank = 0; rank < rank_count; ++rank) {
          void *const pointer = buffers[static_cast<size_t>(rank)].pointer();
          REQUIRE(rondo_all_reduce(pointer, pointer, count, RONDO_FLOAT32, round == 0 ? RONDO_SUM : RONDO_MAX,
                                   group.ranks[rank], group.stream(rank)) == RONDO_OK);
        }
      }
      group.complete();
      for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), expected);
    }
}

TEST_CASE("device: more channels than host memory has may be asked for, and run") {
  rondo_config_t config = on_device();
  config.kernel = RONDO_KERNEL_INTERPRETER;
  config.channels = 24;
  DeviceRanks group(2, config);
  constexpr size_t count = 100'003;
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  REQUIRE(rondo_comm_query_plan(group.ranks[0], RONDO_ALL_REDUCE, count, RONDO_FLOAT32, &plan) == RONDO_OK);
  CHECK(plan.channels == 24);
  std::vector<DeviceBuffer> buffers;
  for (int rank = 0; rank < 2; ++rank)
    buffers.emplace_back(group.world, bytes_of(whole_numbers(static_cast<uint64_t>(rank), count)));
  for (int rank = 0; rank < 2; ++rank) {
    void *const pointer = buffers[static_cast<size_t>(rank)].pointer();
    REQUIRE(rondo_all_reduce(pointer, pointer, count, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank],
                             group.stream(rank)) == RONDO_OK);
  }
  group.complete();
  for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), sum_over_ranks(0, 2, count));
}

TEST_CASE("device: the other collectives, a barrier and finalize") {
  constexpr int rank_count = 3;
  constexpr size_t count = 1000;
  DeviceRanks group(rank_count);
  const auto each = [&](auto call) {
    for (int rank = 0; rank < rank_count; ++rank)
      REQUIRE(call(rank, group.ranks[rank], group.stream(rank)) == RONDO_OK);
    group.complete();
  };
  std::vector<DeviceBuffer> whole, part;
  for (int rank = 0; rank < rank_count; ++rank) {
    whole.emplace_back(group.world, bytes_of(whole_numbers(static_cast<uint64_t>(rank), count * rank_count)));
    part.emplace_back(group.world, bytes_of(std::vector<float>(count, -1)));
  }
  const auto at = [](const std::vector<DeviceBuffer> &list, int rank) {
    return list[static_cast<size_t>(rank)].pointer();
  };
  each([&](int rank, rondo_comm_t comm, rondo_stream_t stream) {
    return rondo_reduce_scatter(at(whole, rank), at(part, rank), count, RONDO_FLOAT32, RONDO_SUM, comm, stream);
  });
  const auto sum = sum_over_ranks(0, rank_count, count * rank_count);
  for (int rank = 0; rank < rank_count; ++rank)
    CHECK_VALUES(part[static_cast<size_t>(rank)].read(),
                 std::vector<float>(sum.begin() + rank * static_cast<long>(count),
                                    sum.begin() + (rank + 1) * static_cast<long>(count)));
  each([&](int rank, rondo_comm_t comm, rondo_stream_t stream) {
    return rondo_all_gather(at(part, rank), at(whole, rank), count, RONDO_FLOAT32, comm, stream);
  });
  for (const DeviceBuffer &buffer : whole) CHECK_VALUES(buffer.read(), sum);
  each([&](int rank, rondo_comm_t comm, rondo_stream_t stream) {
    return rondo_broadcast(at(part, 1), at(part, rank), count, RONDO_FLOAT32, 1, comm, stream);
  });
  for (const DeviceBuffer &buffer : part) CHECK_VALUES(buffer.read(), values_of<float>(part[1].read()));
  each([&](int rank, rondo_comm_t comm, rondo_stream_t stream) {
    return rondo_reduce(at(part, rank), at(whole, rank), count, RONDO_FLOAT32, RONDO_MAX, 2, comm, stream);
  });
  each([&](int, rondo_comm_t comm, rondo_stream_t stream) { return rondo_barrier(comm, stream); });
  CHECK(all_ok(group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
}

TEST_CASE("device: one thread drives all ranks in a group, and a refused call cancels all") {
  constexpr int rank_count = 3;
  constexpr size_t count = 1000;
  rondo_config_t config = on_device();
  config.device_executor = RONDO_DEVICE_EXECUTOR_COPY;
  DeviceRanks group(rank_count, config);
  std::vector<DeviceBuffer> buffers;
  for (int rank = 0; rank < rank_count; ++rank)
    buffers.emplace_back(group.world, bytes_of(whole_numbers(static_cast<uint64_t>(rank), count)));
  const auto reduce = [&](int rank) {
    void *const pointer = buffers[static_cast<size_t>(rank)].pointer();
    return rondo_all_reduce(pointer, pointer, count, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank], group.stream(rank));
  };
  REQUIRE(rondo_group_begin() == RONDO_OK);
  for (int rank = 0; rank < rank_count; ++rank) REQUIRE(reduce(rank) == RONDO_OK);
  REQUIRE(rondo_group_end() == RONDO_OK);
  group.complete();
  for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), sum_over_ranks(0, rank_count, count));

  REQUIRE(rondo_group_begin() == RONDO_OK);
  for (int rank = 0; rank < rank_count; ++rank) REQUIRE(reduce(rank) == RONDO_OK);
  CHECK(rondo_send(buffers[0].pointer(), count, RONDO_FLOAT32, rank_count, group.ranks[0], group.stream(0)) ==
        RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(rondo_group_end() == RONDO_ERROR_INVALID_ARGUMENT);
  group.complete();
  for (const DeviceBuffer &buffer : buffers)  // nothing of the group ran
    CHECK_VALUES(buffer.read(), sum_over_ranks(0, rank_count, count));
}

TEST_CASE("device: a device that is not there is named with those that are") {
  const Ranks ranks(1, on_device(99));
  CHECK(ranks.status() == RONDO_ERROR_INVALID_ARGUMENT);
  CHECK(error_message().find("sees") != std::string::npos);
}

TEST_CASE("device: a call is ordered by its stream") {
  DeviceRanks group(2);
  constexpr size_t count = 4096;
  rondo::cuda::conformance::Gate gate(group.world);
  std::vector<DeviceBuffer> buffers;
  for (int rank = 0; rank < 2; ++rank) buffers.emplace_back(group.world, bytes_of(std::vector<float>(count, -1)));
  const HostMemory ones = group.world.pinned(count * sizeof(float));  // a copy from unpinned memory would wait here
  std::fill_n(static_cast<float *>(ones.get().object), count, 1.0f);
  for (int rank = 0; rank < 2; ++rank) {
    const DeviceBuffer &buffer = buffers[static_cast<size_t>(rank)];
    auto *const stream = static_cast<CuStream>(group.stream(rank));
    gate.close(stream);
    CU_OK(group.world.cu.memcpy_htod_async(reinterpret_cast<DevicePointer>(buffer.pointer()), ones.get().object,
                                           count * sizeof(float), stream));
    REQUIRE(rondo_all_reduce(buffer.pointer(), buffer.pointer(), count, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank],
                             stream) == RONDO_OK);
  }
  std::this_thread::sleep_for(rondo::cuda::conformance::a_while);
  for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), std::vector<float>(count, -1));
  gate.open();
  group.complete();
  for (const DeviceBuffer &buffer : buffers) CHECK_VALUES(buffer.read(), std::vector<float>(count, 2));
}

TEST_CASE("device: communicators in flight together do not wait for each other") {
  constexpr size_t count = 4096;
  constexpr size_t group_count = 3;
  const World world;
  std::vector<rondo::cuda::Stream> streams;
  std::vector<std::unique_ptr<Ranks>> groups;
  std::vector<DeviceBuffer> buffers;
  for (size_t group = 0; group < group_count; ++group) {
    groups.push_back(std::make_unique<Ranks>(2, on_device()));
    REQUIRE(groups.back()->status() == RONDO_OK);
    for (int rank = 0; rank < 2; ++rank) {
      streams.push_back(world.another_stream());
      buffers.emplace_back(world, bytes_of(std::vector<float>(count, static_cast<float>(group + 1))));
    }
  }
  const auto call = [&](size_t group, size_t rank) {
    void *const pointer = buffers[2 * group + rank].pointer();
    return rondo_all_reduce(pointer, pointer, count, RONDO_FLOAT32, RONDO_SUM, (*groups[group])[static_cast<int>(rank)],
                            streams[2 * group + rank].get().object);
  };
  for (size_t group = 0; group < group_count; ++group) REQUIRE(call(group, 0) == RONDO_OK);
  for (size_t group = group_count; group-- > 0;) REQUIRE(call(group, 1) == RONDO_OK);
  for (const auto &stream : streams) CU_OK(world.cu.stream_synchronize(stream.get().object));
  for (size_t i = 0; i < buffers.size(); ++i)
    CHECK_VALUES(buffers[i].read(), std::vector<float>(count, static_cast<float>(2 * (i / 2 + 1))));
}

TEST_CASE("device: communicators whose blocks could not all be resident are refused until others are gone") {
  rondo_config_t config = on_device();
  config.channels = 8;
  std::vector<std::unique_ptr<Ranks>> groups;
  constexpr size_t far_too_many = 1000;
  while (groups.size() < far_too_many) {
    auto group = std::make_unique<Ranks>(2, config);
    if (group->status() != RONDO_OK) {
      CHECK(group->status() == RONDO_ERROR_OUT_OF_RESOURCES);
      break;
    }
    groups.push_back(std::move(group));
  }
  const std::string message = error_message();
  CAPTURE(groups.size(), message);
  REQUIRE(groups.size() < far_too_many);
  CHECK(message.find("can be resident at once") != std::string::npos);
  CHECK(message.find("RONDO_MAX_CTAS") != std::string::npos);
  groups.pop_back();
  CHECK(Ranks(2, config).status() == RONDO_OK);
}

TEST_CASE("device: a host function of a stream may ask for errors, and hears of none") {
  DeviceRanks group(1);
  struct Asked {
    rondo_comm_t comm;
    rondo_error_t error = RONDO_ERROR_INIT;
    rondo_status_t status = RONDO_ERROR_INTERNAL;
  } asked{group.ranks[0]};
  const auto ask = [](void *argument) {
    auto &it = *static_cast<Asked *>(argument);
    it.status = rondo_comm_last_error(it.comm, &it.error);
  };
  CU_OK(group.world.cu.launch_host_func(static_cast<CuStream>(group.stream(0)), ask, &asked));
  group.complete();
  CHECK(asked.status == RONDO_OK);
  CHECK(asked.error.status == RONDO_OK);
}

TEST_CASE("device: an abort ends a kernel that waits, and everybody hears of it") {
  DeviceRanks group(2);
  const DeviceBuffer buffer(group.world, bytes_of(std::vector<float>(4096, 1)));
  REQUIRE(rondo_all_reduce(buffer.pointer(), buffer.pointer(), 4096, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                           group.stream(0)) == RONDO_OK);  // rank 1 never calls
  std::this_thread::sleep_for(rondo::cuda::conformance::a_while);
  CHECK(rondo_comm_abort(group.ranks[1]) == RONDO_OK);
  group.synchronize();
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(failure_of(group.ranks[rank]).status == RONDO_ERROR_ABORTED);
  }
}

TEST_CASE("device: a rank that does not come is named when the time is up, ranks that disagree at once") {
  rondo_config_t config = on_device();
  config.timeout_ms = 300;
  {
    DeviceRanks group(2, config);
    const DeviceBuffer buffer(group.world, bytes_of(std::vector<float>(4096, 1)));
    REQUIRE(rondo_all_reduce(buffer.pointer(), buffer.pointer(), 4096, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                             group.stream(0)) == RONDO_OK);
    group.synchronize();
    const rondo_error_t error = failure_of(group.ranks[0]);
    CHECK(error.status == RONDO_ERROR_TIMEOUT);
    CHECK(error.peer == 1);
  }
  config.timeout_ms = 20'000;
  DeviceRanks group(2, config);
  const DeviceBuffer first(group.world, bytes_of(std::vector<float>(4096, 1)));
  const DeviceBuffer second(group.world, bytes_of(std::vector<float>(4096, 1)));
  REQUIRE(rondo_all_reduce(first.pointer(), first.pointer(), 4096, RONDO_FLOAT32, RONDO_SUM, group.ranks[0],
                           group.stream(0)) == RONDO_OK);
  REQUIRE(rondo_all_reduce(second.pointer(), second.pointer(), 4095, RONDO_FLOAT32, RONDO_SUM, group.ranks[1],
                           group.stream(1)) == RONDO_OK);
  group.synchronize();
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(failure_of(group.ranks[rank]).status == RONDO_ERROR_MISMATCH);
  }
}

// This case needs SOFT_CUDA_FAULTS=work#NUMBER=719 for one of the first calls.
TEST_CASE("device: an error of the device is told to the next call, and ends every rank's kernels",
          "[.][work fault]") {
  constexpr size_t count = 4096;
  const World world;
  std::vector<rondo::cuda::Stream> streams;
  std::vector<DeviceBuffer> buffers;
  for (int rank = 0; rank < 2; ++rank) {
    streams.push_back(world.another_stream());
    buffers.emplace_back(world, bytes_of(std::vector<float>(count, 1)));
  }
  Ranks ranks(2, on_device());
  REQUIRE(ranks.status() == RONDO_OK);
  bool refused = false;
  for (int call = 0; call < 200 && !refused; ++call)
    for (size_t rank = 0; rank < 2; ++rank)
      refused |= rondo_all_reduce(buffers[rank].pointer(), buffers[rank].pointer(), count, RONDO_FLOAT32, RONDO_SUM,
                                  ranks[static_cast<int>(rank)], streams[rank].get().object) != RONDO_OK;
  for (int rank = 0; rank < 2; ++rank) {
    CuStream stream = streams[static_cast<size_t>(rank)].get().object;
    CHECK(world.cu.stream_synchronize(stream) == CuStatus::launch_failed);
    const rondo_error_t error = failure_of(ranks[rank]);
    CHECK(std::string(error.message).find("CUDA_ERROR_LAUNCH_FAILED") != std::string::npos);
    CHECK((error.peer == 0 || error.peer == 1));
  }
}
