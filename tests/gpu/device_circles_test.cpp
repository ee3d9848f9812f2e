// SPDX-License-Identifier: Apache-2.0
// In these tests, ranks on devices wait for each other in a circle, or wait long.
#include <string>
#include <vector>

#include "src/base/clock.h"
#include "tests/gpu/device_failures.h"
#include "tests/gpu/device_ranks.h"
#include "tests/gpu/settings.h"

using namespace rondo_test;

namespace {

/// A call outside a group, on a buffer of `count` float32.
struct Single {
  enum Kind { send, receive, all_reduce } kind;
  int peer = 0;
  size_t count = 0;
};

/// Makes one buffer for all calls of each rank. Call it first, because making a buffer may wait for running kernels.
std::vector<DeviceBuffer> buffers_for(const DeviceRanks &group, size_t count) {
  std::vector<DeviceBuffer> buffers;
  for (int rank = 0; rank < group.ranks.size(); ++rank)
    buffers.emplace_back(group.world_of(rank), bytes_of(whole_numbers(1, count)));
  return buffers;
}

void run_singles(DeviceRanks &group, int rank, const std::vector<Single> &calls, const DeviceBuffer &buffer) {
  void *const at = buffer.pointer();
  const rondo_comm_t comm = group.ranks[rank];
  const rondo_stream_t stream = group.stream(rank);
  for (const Single &each : calls) {
    const rondo_status_t status =
        each.kind == Single::send      ? rondo_send(at, each.count, RONDO_FLOAT32, each.peer, comm, stream)
        : each.kind == Single::receive ? rondo_recv(at, each.count, RONDO_FLOAT32, each.peer, comm, stream)
                                       : rondo_all_reduce(at, at, each.count, RONDO_FLOAT32, RONDO_SUM, comm, stream);
    REQUIRE(status == RONDO_OK);
  }
}

}  // namespace

TEST_CASE("device messages: ranks that wait for each other in a circle are named") {
  constexpr size_t large = 1'000'000, small = 10;  // a large message does not fit into the slots
  const auto send = [](int peer, size_t count) { return Single{Single::send, peer, count}; };
  const auto receive = [](int peer, size_t count) { return Single{Single::receive, peer, count}; };
  const Single sum{Single::all_reduce, 0, small};
  struct Case {
    std::vector<std::vector<Single>> calls;
    std::string circle;
  };
  const Case cases[] = {
      {{{send(1, large), receive(1, large)}, {send(0, large), receive(0, large)}},
       "rank 0 waits in send 1 to rank 1, which waits in send 1 to rank 0"},
      {{{receive(1, small), send(1, small)}, {receive(0, small), send(0, small)}},
       "rank 0 waits in receive 1 from rank 1, which waits in receive 1 from rank 0"},
      {{{send(1, large), receive(2, large)}, {send(2, large), receive(0, large)}, {send(0, large), receive(1, large)}},
       "rank 0 waits in send 1 to rank 1, which waits in send 1 to rank 2, which waits in send 1 to rank 0"},
      {{{send(1, small), send(1, large), sum}, {receive(0, small), sum, receive(0, large)}},
       "rank 0 waits in send 2 to rank 1, which waits in operation 1 (all_reduce of 10 float32 (sum)) for rank 0"},
  };
  for (const Case &each : cases) {
    const bool sums = each.circle.find("all_reduce") != std::string::npos;
    if (rondo::test::skips_released_copies(sums && by_copies(), "a circle with a collective by copies")) continue;
    DeviceRanks group(static_cast<int>(each.calls.size()), on_executor());
    const std::vector<DeviceBuffer> buffers = buffers_for(group, large);
    for (size_t rank = 0; rank < each.calls.size(); ++rank)
      run_singles(group, static_cast<int>(rank), each.calls[rank], buffers[rank]);
    for (int rank = 0; rank < group.ranks.size(); ++rank)
      check_failure(group.ranks[rank], RONDO_ERROR_MISMATCH, {each.circle, "put messages that cross into one group"});
    group.synchronize();
  }
}

TEST_CASE("device messages: ranks that wait long, but not in a circle, are not accused") {
  constexpr size_t large = 1'000'000;
  DeviceRanks group(3, on_executor());
  const std::vector<DeviceBuffer> buffers = buffers_for(group, large);
  run_singles(group, 0, {{Single::send, 1, large}, {Single::receive, 2, large}}, buffers[0]);
  rondo::sleep_for_ns(500'000'000);  // meanwhile the ranks search for circles
  run_singles(group, 1, {{Single::receive, 0, large}, {Single::send, 2, large}}, buffers[1]);
  rondo::sleep_for_ns(500'000'000);
  run_singles(group, 2, {{Single::receive, 1, large}, {Single::send, 0, large}}, buffers[2]);
  group.complete();
  CHECK(all_ok(group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
}

// This case needs SOFT_CUDA_QUEUES=1, CUDA_DEVICE_MAX_CONNECTIONS=1.
TEST_CASE("device messages: replays that wait in one hardware queue time out with what to set", "[.][queue]") {
  rondo_config_t config = on_executor();
  config.timeout_ms = 500;
  DeviceRanks group(2, config);
  const std::vector<DeviceBuffer> buffers = buffers_for(group, 10);
  std::vector<rondo::cuda::GraphExec> graphs;
  for (int rank = 0; rank < 2; ++rank)
    graphs.push_back(captured(group.world_of(rank), group.stream(rank), [&] {
      run_singles(group, rank, {{rank == 0 ? Single::receive : Single::send, 1 - rank, 10}},
                  buffers[static_cast<size_t>(rank)]);
    }));
  for (int rank = 0; rank < 2; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
  for (int rank = 0; rank < 2; ++rank)
    check_failure(group.ranks[rank], RONDO_ERROR_TIMEOUT,
                  {"2 ranks of this process share CUDA device 0", "set CUDA_DEVICE_MAX_CONNECTIONS=32"});
  group.synchronize();
}
