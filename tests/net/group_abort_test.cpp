// SPDX-License-Identifier: Apache-2.0
// These tests abort communicators on several hosts, with threads of one process as ranks.
#include <atomic>
#include <vector>

#include "tests/catch.h"
#include "tests/net/group_world.h"

using namespace rondo;
using rondo_test::run_ranks;
using rondo_test::World;

namespace {

const std::vector<std::vector<uint32_t>> worlds{{0, 0, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 7, 8, 8}};

Result<void> sum_up(Communicator &comm, std::vector<int32_t> &values) {
  Call call;
  call.signature = {RONDO_ALL_REDUCE, RONDO_INT32, RONDO_SUM, 0, values.size(), 0};
  call.send = call.recv = values.data();
  call.in_place = true;
  return comm.submit(call, {});
}

}  // namespace

TEST_CASE("several hosts: an abort is told on the other hosts", "[net]") {
  for (const std::vector<uint32_t> &node_of : worlds) {
    World world(node_of);
    const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
      std::vector<int32_t> values(10, 1);
      auto failed = sum_up(comm, values);
      if (rank == 2) return comm.abort(), failed.ok();
      if (failed.ok()) failed = sum_up(comm, values);
      return !failed.ok() && failed.error().status == RONDO_ERROR_ABORTED && failed.error().peer == 2;
    });
    CHECK(wrong == std::vector<uint32_t>());
  }
}

TEST_CASE("several hosts: an abort between operations lets the others receive what this rank has sent", "[net]") {
  for (const std::vector<uint32_t> &node_of : worlds) {
    World world(node_of);
    std::atomic<bool> aborted = false;
    std::atomic<size_t> received_count = 0;  // of ranks whose broadcast is complete
    const auto wrong = run_ranks(world, [&](uint32_t rank, Communicator &comm) {
      std::vector<int32_t> values(100, rank == 0 ? 7 : 0);
      Call call;
      call.signature = {RONDO_BROADCAST, RONDO_INT32, RONDO_SUM, 0, values.size(), 0};
      call.send = call.recv = values.data();
      call.in_place = true;
      const uint64_t deadline_ns = now_ns() + 60 * second_ns;
      while (rank != 0 && !aborted && now_ns() < deadline_ns) sleep_for_ns(1'000'000);
      const bool done = comm.submit(call, {}).ok() && values.back() == 7;
      if (rank == 0) return comm.abort(), aborted = true, done;  // the end of the life closes the communicator
      ++received_count;  // the sum fails the communicator, so it must not begin during another rank's broadcast
      while (received_count + 1 < node_of.size() && now_ns() < deadline_ns) sleep_for_ns(1'000'000);
      const auto failed = sum_up(comm, values);
      return done && !failed.ok() && failed.error().status == RONDO_ERROR_ABORTED && failed.error().peer == 0;
    });
    CHECK(wrong == std::vector<uint32_t>());
  }
}
