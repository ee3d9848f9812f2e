// SPDX-License-Identifier: Apache-2.0
// If ranks share buffers, the kernel load_store also runs reduce_scatter, all_gather, broadcast and reduce. These tests
// call and replay them, beside calls that cannot use load_store, and with buffers at any address.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/gpu/collective_buffers.h"
#include "tests/sanitized.h"

using namespace rondo_test;
using namespace rondo::cuda;

namespace {

constexpr int rank_count = 3;
constexpr size_t shared_elements = 60'000;

DeviceCase case_of(rondo_collective_t collective, size_t elements = shared_elements) {
  return rondo_test::case_of(collective, elements, rank_count);
}

}  // namespace

TEST_CASE("load_store: ranks that share buffers have it for every collective and size, in and out of place",
          "[plain]") {
  DeviceRanks group(rank_count);
  const CollectiveBuffers buffers(group, shared_elements);
  rondo_test::GateShare share("collectives in shared buffers");
  uint64_t seed = 0;
  for (const auto collective : other_collectives)
    for (const size_t elements : {size_t{3}, size_t{300}, size_t{8190}, size_t{8193}, size_t{59'997}}) {
      if (!share.has_next()) continue;
      DeviceCase it = case_of(collective, elements);
      CAPTURE(rondo_collective_string(collective), elements);
      CHECK(kernel_of(group.ranks[0], it) == RONDO_KERNEL_LOAD_STORE);
      buffers.fill(seed += 10);
      buffers.call_all(it);
      group.complete();
      buffers.check(it, seed);
      it.in_place = true;
      buffers.fill_in_place(it, seed += 10);
      buffers.call_all(it);
      group.complete();
      buffers.check(it, seed);
    }
  CHECK(all_ok(group.ranks.run([](int, rondo_comm_t comm) { return rondo_comm_finalize(comm); })));
}

TEST_CASE("load_store: calls of every collective in shared buffers are replayed, each time on what is there then",
          "[plain]") {
  rondo_test::GateShare share("replays of collectives in shared buffers");
  for (const auto collective : other_collectives) {
    if (!share.has_next()) continue;
    CAPTURE(rondo_collective_string(collective));
    DeviceRanks group(rank_count);
    const CollectiveBuffers buffers(group, shared_elements), others(group, shared_elements);
    const DeviceCase it = case_of(collective), other = case_of(collective, 9000);
    const DeviceCase small = case_of(RONDO_ALL_REDUCE, 300);
    std::vector<GraphExec> graphs;
    for (int rank = 0; rank < rank_count; ++rank)
      graphs.push_back(captured(group.world, group.stream(rank), [&] {
        for (int times = 0; times < 2; ++times) buffers.call(it, rank);
      }));
    for (uint64_t round = 0; round < 8; ++round) {
      buffers.fill(100 * round);
      if (round % 3 == 1) others.call_all(small);
      if (round % 3 == 2) others.call_all(other);
      for (int rank = 0; rank < rank_count; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
      group.complete();
      buffers.check(it, 100 * round);
    }
  }
}

// A release waits for all stores in its domain. So waiting kernels are in another domain than kernels that compute.
TEST_CASE("load_store: kernels that wait for other ranks are in the remote memory-sync domain, where there is one",
          "[plain][no domains]") {
  if (!in_software()) return;  // only this driver reports launch attributes
  auto *const remote = soft_cuda_function<uint64_t()>(conformance::loaded_driver().library,
                                                      "soft_cuda_remote_launch_count");
  REQUIRE(remote != nullptr);
  const char *const capability = std::getenv("SOFT_CUDA_CAPABILITY");
  const bool has_domains = capability == nullptr || std::atoi(capability) >= 90;
  for (const auto executor : {RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_DEVICE_EXECUTOR_COPY}) {
    rondo_config_t config = on_device();
    config.device_executor = executor;
    DeviceRanks group(rank_count, config);
    const CollectiveBuffers buffers(group, shared_elements);
    buffers.fill(0);
    const uint64_t launched_before = launch_count().value(), remote_before = remote();
    buffers.call_all(case_of(RONDO_ALL_REDUCE, 100));  // by load_store
    buffers.call_all(case_of(RONDO_BROADCAST, 100));   // by the interpreter
    group.complete();
    const uint64_t launched = launch_count().value() - launched_before;
    CAPTURE(executor, launched);
    CHECK(launched >= rank_count);
    CHECK(remote() - remote_before == (has_domains && executor == RONDO_DEVICE_EXECUTOR_KERNEL ? launched : 0));
  }
}

TEST_CASE("load_store: calls with uneven blocks go by the interpreter, beside even ones by load_store", "[plain]") {
  DeviceRanks group(rank_count);
  const CollectiveBuffers buffers(group, shared_elements);
  constexpr size_t counts[] = {20'000, 30'000, 10'000};
  constexpr size_t begins[] = {0, 20'000, 50'000};
  for (uint64_t round = 0; round < 3; ++round) {
    const uint64_t seed = 50 * round;
    // The interpreter adds in another order, so uneven blocks have whole numbers.
    const auto fill_whole = [&] {
      for (size_t rank = 0; rank < rank_count; ++rank)
        buffers.send[rank].write(bytes_of(whole_numbers(seed + rank, shared_elements)));
    };
    const auto call_even = [&](rondo_collective_t collective) {
      buffers.fill(seed);
      buffers.call_all(case_of(collective));
      group.complete();
      buffers.check(case_of(collective), seed);
      fill_whole();
    };
    call_even(RONDO_ALL_GATHER);
    const auto pointers = [&](int rank) {
      const auto at = static_cast<size_t>(rank);
      return std::pair(buffers.send[at].pointer(), buffers.recv[at].pointer());
    };
    for (int rank = 0; rank < rank_count; ++rank)
      REQUIRE(rondo_all_gather_v(pointers(rank).first, pointers(rank).second, counts, nullptr, RONDO_FLOAT32,
                                 group.ranks[rank], group.stream(rank)) == RONDO_OK);
    group.complete();
    std::vector<float> expected;
    for (size_t peer = 0; peer < rank_count; ++peer)
      for (const float value : whole_numbers(seed + peer, counts[peer])) expected.push_back(value);
    for (int rank = 0; rank < rank_count; ++rank) CHECK_VALUES(buffers.received(rank), expected);
    call_even(RONDO_REDUCE_SCATTER);
    for (int rank = 0; rank < rank_count; ++rank)
      REQUIRE(rondo_reduce_scatter_v(pointers(rank).first, pointers(rank).second, counts, RONDO_FLOAT32, RONDO_SUM,
                                     group.ranks[rank], group.stream(rank)) == RONDO_OK);
    group.complete();
    const auto sums = sum_over_ranks(seed, rank_count, shared_elements);
    for (size_t rank = 0; rank < rank_count; ++rank) {
      const auto got = values_of<float>(buffers.received(static_cast<int>(rank)));
      CHECK(std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(counts[rank]),
                       sums.begin() + static_cast<std::ptrdiff_t>(begins[rank])));
    }
  }
}

TEST_CASE("load_store: every collective in shared buffers of unlike alignment, and of elements that no vector has",
          "[plain]") {
  DeviceRanks group(rank_count);
  rondo_test::GateShare share("alignments of shared buffers");
  for (const size_t skew_bytes : {size_t{4}, size_t{12}}) {
    const CollectiveBuffers buffers(group, shared_elements, 0, skew_bytes);
    for (const auto collective : other_collectives)
      for (const size_t elements : {size_t{8197}, shared_elements}) {
        if (!share.has_next()) continue;
        CAPTURE(rondo_collective_string(collective), skew_bytes, elements);
        const DeviceCase it = case_of(collective, elements);
        buffers.fill(elements);
        buffers.call_all(it);
        group.complete();
        buffers.check(it, elements);
      }
  }
  // Blocks have an odd number of 2-byte elements, so they begin at any even byte of a vector.
  const CollectiveBuffers buffers(group, shared_elements);
  buffers.fill(7);
  DeviceCase it = case_of(RONDO_ALL_GATHER, 60'003);
  it.type = RONDO_BFLOAT16;
  REQUIRE(it.count % 2 == 1);
  REQUIRE(kernel_of(group.ranks[0], it) == RONDO_KERNEL_LOAD_STORE);
  buffers.call_all(it);
  group.complete();
  std::vector<std::byte> expected;
  for (uint64_t rank = 0; rank < rank_count; ++rank) {
    const auto sent = bytes_of(fractions(7 + rank, shared_elements));
    expected.insert(expected.end(), sent.begin(), sent.begin() + static_cast<std::ptrdiff_t>(2 * it.count));
  }
  for (int rank = 0; rank < rank_count; ++rank) {
    auto bytes = buffers.received(rank);
    bytes.resize(expected.size());
    CHECK(bytes == expected);
  }
}
