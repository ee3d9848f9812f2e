// SPDX-License-Identifier: Apache-2.0
// Tests how many driver calls a collective call makes. The driver in software counts them. Each driver call takes up to
// a microsecond of the caller's time.
#include "tests/gpu/device_ranks.h"

using namespace rondo_test;

namespace {

struct DriverCalls {
  uint64_t all = 0;
  uint64_t queries = 0;  ///< calls that neither make nor enqueue anything
};

/// Returns the calls of this thread so far.
DriverCalls driver_calls() {
  auto *const ask = soft_cuda_function<uint64_t(uint64_t *)>(rondo::cuda::conformance::loaded_driver().library,
                                                             "soft_cuda_call_count");
  REQUIRE(ask != nullptr);
  DriverCalls calls;
  calls.all = ask(&calls.queries);
  return calls;
}

/// Returns how many driver calls an all-reduce among two ranks makes at most, after their first calls.
DriverCalls most_calls(rondo_device_executor_t executor, bool in_place) {
  rondo_config_t config = on_device();
  config.device_executor = executor;
  const DeviceRanks group(2, config);
  std::vector<DeviceBuffer> buffers;
  for (int number = 0; number < 4; ++number)
    buffers.emplace_back(group.world, bytes_of(std::vector<float>(16, 1)));
  DriverCalls most;
  for (int round = 0; round < 3; ++round) {
    for (int rank = 0; rank < 2; ++rank) {
      const DriverCalls before = driver_calls();
      void *const recv = buffers[static_cast<size_t>(rank)].pointer();
      const void *const send = in_place ? recv : buffers[static_cast<size_t>(rank) + 2].pointer();
      REQUIRE(rondo_all_reduce(send, recv, 16, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank], group.stream(rank)) ==
              RONDO_OK);
      const DriverCalls after = driver_calls();
      if (round == 0) continue;
      most.all = std::max(most.all, after.all - before.all);
      most.queries = std::max(most.queries, after.queries - before.queries);
    }
    group.complete();
  }
  return most;
}

}  // namespace

TEST_CASE("driver calls: an all-reduce by a kernel makes six, and one by copies asks no more before it enqueues") {
  if (!in_software()) return;  // only the driver in software counts
  for (const bool in_place : {false, true}) {
    CAPTURE(in_place);
    // The queries ask for the context, two buffers, and the stream's capture. A launch and an event are enqueued.
    const DriverCalls by_kernel = most_calls(RONDO_DEVICE_EXECUTOR_KERNEL, in_place);
    CHECK(by_kernel.all <= 6);
    CHECK(by_kernel.queries <= 4);
    CHECK(most_calls(RONDO_DEVICE_EXECUTOR_COPY, in_place).queries <= 4);
  }
}
