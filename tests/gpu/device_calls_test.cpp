// SPDX-License-Identifier: Apache-2.0
// Tests how many driver calls a collective call makes. The driver in software counts them. Each driver call takes up to
// a microsecond of the caller's time.
#include <utility>
#include <vector>

#include "tests/gpu/collective_buffers.h"
#include "tests/sanitized.h"

using namespace rondo_test;

namespace {

constexpr size_t all_elements = size_t{32} << 10;  ///< of a vector

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

/// Returns how many driver calls this collective makes at most among two ranks, after their first calls. `hidden` is
/// that of CollectiveBuffers.
DriverCalls most_calls(const DeviceRanks &group, const DeviceCase &it, uint32_t hidden = 0, bool registered = false) {
  const CollectiveBuffers buffers(group, all_elements, hidden);
  std::vector<std::pair<rondo_comm_t, rondo_registration_t>> registrations;
  for (int rank = 0; registered && rank < 2; ++rank)
    for (const auto *const side : {&buffers.send, &buffers.recv}) {
      rondo_registration_t made = nullptr;
      REQUIRE(rondo_comm_register(group.ranks[rank], (*side)[static_cast<size_t>(rank)].pointer(),
                                  all_elements * sizeof(float), 0, &made) == RONDO_OK);
      registrations.emplace_back(group.ranks[rank], made);
    }
  DriverCalls most;
  constexpr int rounds = 3;
  for (int round = 0; round < rounds; ++round) {
    const bool last = round + 1 == rounds;  // its results suffice, since its input replaces what the others left
    if (last) it.in_place ? buffers.fill_in_place(it, 1) : buffers.fill(1);
    for (int rank = 0; rank < 2; ++rank) {
      // The thread has chosen the rank's device, as programs do. Otherwise Rondo also sets and resets the context.
      const World &world = group.world_of(rank);
      const rondo::cuda::ContextGuard chosen(world.cu, world.context().get().context);
      const DriverCalls before = driver_calls();
      buffers.call(it, rank);
      const DriverCalls after = driver_calls();
      if (round == 0) continue;
      most.all = std::max(most.all, after.all - before.all);
      most.queries = std::max(most.queries, after.queries - before.queries);
    }
    group.complete();
    if (last) buffers.check(it, 1);
  }
  for (const auto &[comm, made] : registrations) REQUIRE(rondo_comm_deregister(comm, made) == RONDO_OK);
  return most;
}

}  // namespace

TEST_CASE("driver calls: a collective by a kernel makes six, and one by copies asks no more before it enqueues") {
  if (!in_software()) return;  // only the driver in software counts
  rondo_test::GateShare share("buffers of counted calls");
  for (const bool apart : {false, true})
    for (const auto executor : {RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_DEVICE_EXECUTOR_COPY}) {
      share.skip();  // so a quarter has other buffers here, too
      rondo_config_t config = on_device();
      config.device_executor = executor;
      const DeviceRanks group(on_devices(std::vector<CuDevice>{0, apart ? 1 : 0}, config));
      // An all-reduce of few elements posts words, and one of many uses the buffers of the other rank.
      std::vector<DeviceCase> cases{case_of(RONDO_ALL_REDUCE, 16, 2), case_of(RONDO_ALL_REDUCE, all_elements, 2)};
      for (const rondo_collective_t other : other_collectives) cases.push_back(case_of(other, all_elements, 2));
      for (DeviceCase &it : cases) {
        share.skip();  // so a quarter has other buffers for each case
        for (const bool in_place : {false, true})
          for (const bool registered : {false, true})
            for (const uint32_t hidden : {0u, 3u}) {
              if (!share.has_next()) continue;
              it.in_place = in_place;
              CAPTURE(apart, static_cast<int>(executor), static_cast<int>(it.collective), it.count, in_place,
                      registered, hidden);
              const DriverCalls most = most_calls(group, it, hidden, registered);
              // The queries ask for the context, two buffers, and the stream's capture.
              CHECK(most.queries <= 4);
              if (executor == RONDO_DEVICE_EXECUTOR_KERNEL) CHECK(most.all <= 6);  // and a launch and an event
            }
      }
    }
}
