// SPDX-License-Identifier: Apache-2.0
// These tests compare the copy-engine executor with the host executor. The same calls with the same algorithm and
// chunks must give the same bytes. tests/unit/matrix_test.cpp compares the host's results with the documented order.

#include "src/plan/schedule.h"
#include "tests/gpu/device_case.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/settings.h"
#include "tests/sanitized.h"

using namespace rondo_test;

namespace {

rondo_config_t config_of(rondo_algorithm_t algorithm, int device) {
  rondo_config_t config = on_device(device);
  config.device_executor = RONDO_DEVICE_EXECUTOR_COPY;
  config.algorithm = algorithm;
  config.protocol = RONDO_PROTOCOL_SIMPLE;
  config.channels = 2;
  config.chunk_bytes = 1024;
  return config;
}

/// Returns elements of random bits. Floats are finite and below 2, because the content of a NaN is not specified.
std::vector<std::byte> random_elements(uint64_t seed, rondo_type_t type, size_t count) {
  const size_t size = rondo_type_size(type);
  QuickNumbers numbers(seed);
  std::vector<std::byte> bytes(count * size);
  std::byte *const all = bytes.data();
  for (size_t i = 0; i < bytes.size(); ++i) all[i] = static_cast<std::byte>(numbers.next() >> 24);
  if (type >= RONDO_FLOAT16)
    for (size_t last = size - 1; last < bytes.size(); last += size) bytes[last] &= std::byte{0xBF};
  return bytes;
}

/// Communicators on the host and on the device, with the same configuration.
struct Both {
  Both(int rank_count, rondo_algorithm_t algorithm)
      : device(rank_count, config_of(algorithm, 0)), host(rank_count, config_of(algorithm, RONDO_DEVICE_HOST)) {
    REQUIRE(host.status() == RONDO_OK);
  }

  void compare(const DeviceCase &it, uint64_t seed) {
    fill(it, seed);
    for (int rank = 0; rank < host.size(); ++rank) REQUIRE(call_on_device(it, rank) == RONDO_OK);
    check(it, seed);
  }

  /// Captures the calls once, and replays them with other inputs each time.
  void compare_replays(const DeviceCase &it, uint64_t seed) {
    fill(it, seed);
    std::vector<rondo::cuda::GraphExec> graphs;
    for (int rank = 0; rank < host.size(); ++rank)
      graphs.push_back(
          captured(device.world, device.stream(rank), [&] { REQUIRE(call_on_device(it, rank) == RONDO_OK); }));
    for (uint64_t replay = 0; replay < 3; ++replay) {
      fill(it, seed + 100 * replay);
      for (int rank = 0; rank < host.size(); ++rank) device.launch(graphs[static_cast<size_t>(rank)], rank);
      check(it, seed + 100 * replay);
    }
  }

  DeviceRanks device;
  Ranks host;

 private:
  rondo_status_t call_on_device(const DeviceCase &it, int rank) const {
    const auto index = static_cast<size_t>(rank);
    return call(it, rank, device.ranks[rank], device.stream(rank),
                static_cast<std::byte *>(device_send[index].pointer()),
                static_cast<std::byte *>(device_recv[index].pointer()));
  }

  void fill(const DeviceCase &it, uint64_t seed) {
    const auto rank_count = static_cast<size_t>(host.size());
    const size_t elements =
        it.offset_bytes / rondo_type_size(it.type) + it.count * (in_blocks(it.collective) ? rank_count : 1);
    const bool fresh = send.size() != rank_count || send[0].size() != elements * rondo_type_size(it.type);
    if (fresh) {
      device_send.clear();
      device_recv.clear();
    }
    send.resize(rank_count);
    recv.resize(rank_count);
    for (size_t rank = 0; rank < rank_count; ++rank) {
      send[rank] = random_elements(seed + 2 * rank, it.type, elements);
      recv[rank] = random_elements(seed + 2 * rank + 1, it.type, elements);
      if (fresh) {
        device_send.emplace_back(device.world, send[rank]);
        device_recv.emplace_back(device.world, recv[rank]);
      } else {
        device_send[rank].write(send[rank]);
        device_recv[rank].write(recv[rank]);
      }
    }
  }

  /// Compares both buffers of each rank as a whole, including the bytes that a call must not touch.
  void check(const DeviceCase &it, uint64_t seed) {
    const int rank_count = host.size();
    CAPTURE(rank_count, rondo_collective_string(it.collective), rondo_type_string(it.type), rondo_op_string(it.op),
            it.count, it.root, it.in_place, it.offset_bytes, seed);
    REQUIRE(all_ok(host.run([&](int rank, rondo_comm_t comm) {
      const auto index = static_cast<size_t>(rank);
      return call(it, rank, comm, nullptr, send[index].data(), recv[index].data());
    })));
    device.complete();
    for (size_t rank = 0; rank < send.size(); ++rank) {
      CAPTURE(rank);
      CHECK((device_send[rank].read() == send[rank]));  // the brackets keep Catch2 from printing it
      CHECK((device_recv[rank].read() == recv[rank]));
    }
  }

  std::vector<std::vector<std::byte>> send, recv;  // the host's buffers
  std::vector<DeviceBuffer> device_send, device_recv;
};

constexpr rondo_collective_t collectives[] = {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER, RONDO_BROADCAST,
                                              RONDO_REDUCE};

}  // namespace

TEST_CASE("copy executor: every collective and algorithm, called and replayed, gives what host memory gets") {
  const uint64_t seed = rondo::test::seed_from_environment();
  auto share = GateShare::in_every_build("collectives and algorithms by copies");
  for (const rondo_algorithm_t algorithm :
       {RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TREE, RONDO_ALGORITHM_HALVING_DOUBLING, RONDO_ALGORITHM_ONE_SHOT,
        RONDO_ALGORITHM_TWO_SHOT})
    for (const int rank_count : {1, 2, 3, 5}) {
      if (rondo::test::under_thread_sanitizer && rank_count != 3) continue;
      Both both(rank_count, algorithm);
      for (const rondo_collective_t collective : collectives) {
        if (!rondo::find_algorithm(algorithm)->supports(collective)) continue;
        CAPTURE(rondo_algorithm_string(algorithm));
        share.skip();  // the next collective has other cases in this quarter
        for (const size_t count : {size_t{0}, size_t{1}, size_t{4099}})
          for (const bool in_place : {false, true}) {
            if (!share.has_next()) continue;
            DeviceCase it{
                collective, RONDO_FLOAT32, RONDO_SUM, count, rank_count - 1, in_place, count % 2 * sizeof(float)};
            both.compare(it, seed);
            if (in_place || count != 1) both.compare_replays(it, seed);
            it.op = RONDO_AVG;
            if (collective != RONDO_ALL_GATHER && collective != RONDO_BROADCAST) both.compare(it, seed);
          }
      }
    }
}

TEST_CASE("copy executor: every type and operation gives what host memory gets, bit for bit") {
  const uint64_t seed = rondo::test::seed_from_environment();
  Both both(3, RONDO_ALGORITHM_RING);
  auto share = GateShare::in_every_build("types and operations by copies");
  for (int type = 0; rondo_type_string(static_cast<rondo_type_t>(type)) != nullptr; ++type)
    for (const rondo_op_t op : {RONDO_SUM, RONDO_PROD, RONDO_MIN, RONDO_MAX, RONDO_AVG})
      if (share.has_next())
        both.compare({RONDO_ALL_REDUCE, static_cast<rondo_type_t>(type), op, 3001, 0, op == RONDO_MIN,
                      rondo_type_size(static_cast<rondo_type_t>(type))},
                     seed);
}

TEST_CASE("copy executor: uneven blocks, empty ones among them") {
  constexpr int rank_count = 3;
  const size_t counts[rank_count] = {1001, 0, 7};
  const size_t places[rank_count] = {7, 0, 0};
  DeviceRanks group(rank_count, config_of(RONDO_ALGORITHM_RING, 0));
  std::vector<DeviceBuffer> part, whole;
  for (int rank = 0; rank < rank_count; ++rank) {
    part.emplace_back(group.world, bytes_of(whole_numbers(static_cast<uint64_t>(rank), counts[rank])));
    whole.emplace_back(group.world, bytes_of(std::vector<float>(1008, -1)));
  }
  const auto each = [&](auto one) {
    for (int rank = 0; rank < rank_count; ++rank)
      REQUIRE(one(static_cast<size_t>(rank), group.ranks[rank], group.stream(rank)) == RONDO_OK);
    group.complete();
  };
  each([&](size_t rank, rondo_comm_t comm, rondo_stream_t stream) {
    return rondo_all_gather_v(part[rank].pointer(), whole[rank].pointer(), counts, places, RONDO_FLOAT32, comm, stream);
  });
  std::vector<float> expected = whole_numbers(2, counts[2]);
  const auto first = whole_numbers(0, counts[0]);
  expected.insert(expected.end(), first.begin(), first.end());
  for (const DeviceBuffer &buffer : whole) CHECK_VALUES(buffer.read(), expected);
  each([&](size_t rank, rondo_comm_t comm, rondo_stream_t stream) {
    return rondo_reduce_scatter_v(whole[rank].pointer(), part[rank].pointer(), counts, RONDO_FLOAT32, RONDO_SUM, comm,
                                  stream);
  });
  size_t at = 0;
  for (size_t rank = 0; rank < rank_count; at += counts[rank++]) {
    std::vector<float> sum(expected.begin() + static_cast<long>(at),
                           expected.begin() + static_cast<long>(at + counts[rank]));
    for (float &value : sum) value *= rank_count;
    CHECK_VALUES(part[rank].read(), sum);
  }
}
