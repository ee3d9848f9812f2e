// SPDX-License-Identifier: Apache-2.0
// These tests suspend and resume nonblocking ranks on a device. One thread drives all ranks.
#include <future>
#include <vector>

#include "src/base/clock.h"
#include "tests/gpu/device_ranks.h"
#include "tests/unit/nonblocking.h"

using namespace rondo_test;

namespace {

constexpr size_t element_count = 100'000;
constexpr uint64_t pause_ns = 1'000'000;

/// Two nonblocking ranks on device 0, each with a stream.
struct DevicePair {
  DevicePair() { REQUIRE(are_over()); }
  static rondo_config_t config() {
    rondo_config_t config = nonblocking();
    config.device = 0;
    config.timeout_ms = 600'000;  // longer than a test may take
    return config;
  }
  [[nodiscard]] bool are_over() const {
    return outcome_of(begun.comms[0]) == RONDO_OK && outcome_of(begun.comms[1]) == RONDO_OK;
  }
  [[nodiscard]] rondo_stream_t stream(size_t rank) const { return streams[rank].get().object; }
  [[nodiscard]] size_t free_bytes() const {
    size_t free = 0, total = 0;
    CU_OK(world.cu.mem_get_info(&free, &total));
    return free;
  }

  const World world;
  const rondo::cuda::Stream streams[2] = {world.another_stream(), world.another_stream()};
  const Begun begun{2, 2, config()};
};

}  // namespace

TEST_CASE("suspend: nonblocking ranks give memory back after a wait for signals, and take it again") {
  if (!in_software()) return;
  const DevicePair pair;
  const auto &comms = pair.begun.comms;
  const DeviceBuffer buffers[] = {{pair.world, bytes_of(std::vector<float>(element_count, 1))},
                                  {pair.world, bytes_of(std::vector<float>(element_count, 1))}};
  // The first call of a rank pins memory, and so waits for the device.
  CHECK(rondo_signal(0, 1, comms[0], pair.stream(0)) == RONDO_OK);
  CHECK(rondo_signal(1, 1, comms[1], pair.stream(1)) == RONDO_OK);
  for (int round = 0; round < 2; ++round) {
    CAPTURE(round);
    CHECK(rondo_wait_signal(0, 0, 1, comms[1], pair.stream(1)) == RONDO_OK);
    const size_t before = pair.free_bytes();
    CHECK(rondo_comm_suspend(comms[1], RONDO_SUSPEND_MEMORY) == RONDO_OK);
    CHECK(state_of(comms[1]) == RONDO_NOT_READY);
    CHECK(rondo_signal(1, 0, comms[0], pair.stream(0)) == RONDO_OK);
    CHECK(pair.free_bytes() == before);
    CHECK(rondo_comm_suspend(comms[0], RONDO_SUSPEND_MEMORY) == RONDO_OK);
    REQUIRE(pair.are_over());
    uint64_t bytes = 0;
    CHECK(rondo_comm_device_memory(comms[0], &bytes, nullptr, nullptr) == RONDO_OK);
    CHECK(bytes > 1 << 20);
    CHECK(pair.free_bytes() == before + 2 * bytes);
    for (const rondo_comm_t comm : comms) CHECK(rondo_comm_resume(comm) == RONDO_OK);
    REQUIRE(pair.are_over());
    CHECK(pair.free_bytes() == before);
    for (size_t rank = 0; rank < 2; ++rank)
      CHECK(rondo_all_reduce(buffers[rank].pointer(), buffers[rank].pointer(), element_count, RONDO_FLOAT32, RONDO_SUM,
                             comms[rank], pair.stream(rank)) == RONDO_OK);
    for (const auto &stream : pair.streams) CU_OK(pair.world.cu.stream_synchronize(stream.get().object));
    CHECK_VALUES(buffers[1].read(), std::vector<float>(element_count, static_cast<float>(2 << round)));
  }
}

TEST_CASE("suspend: a nonblocking rank waits for those that share its kernel, and refuses calls meanwhile",
          "[shared]") {
  const DevicePair pair;
  const auto &comms = pair.begun.comms;
  const auto barriers = [&](size_t rank) {  // after the first one, calls share a kernel
    rondo_status_t status = RONDO_OK;
    for (int each = 0; each < 3 && status == RONDO_OK; ++each) status = rondo_barrier(comms[rank], pair.stream(rank));
    return status;
  };
  auto other = std::async(std::launch::async, barriers, 1);
  CHECK(barriers(0) == RONDO_OK);
  CHECK(other.get() == RONDO_OK);
  CHECK(rondo_comm_suspend(comms[0], RONDO_SUSPEND_MEMORY) == RONDO_OK);
  for (int look = 0; look < 100; ++look) {  // at some of these moments, the barrier of the suspend waits for rank 1
    CHECK(rondo_comm_flush(comms[0]) == RONDO_NOT_READY);
    CHECK(rondo_comm_finalize(comms[0]) == RONDO_NOT_READY);
    CHECK(rondo_barrier(comms[0], pair.stream(0)) == RONDO_NOT_READY);
    rondo::sleep_for_ns(pause_ns);
  }
  CHECK(rondo_comm_suspend(comms[1], RONDO_SUSPEND_MEMORY) == RONDO_OK);
  REQUIRE(pair.are_over());
}
