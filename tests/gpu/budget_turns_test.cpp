// SPDX-License-Identifier: Apache-2.0
// These tests run ranks on several devices as emulated blocks, and count. Some tests count the loads over links.
// Others count the polls of a long wait, of all peers or of each peer.
#include <numeric>

#include "cuda/kernels/load_store_wait.h"
#include "tests/gpu/device_ranks.h"

using namespace rondo_test;
using soft_cuda::AccessCounts;

namespace {

constexpr size_t kib = 1024;

void count_accesses(bool on) {
  auto *const call_it = soft_cuda_function<void(uint32_t)>(rondo::cuda::conformance::loaded_driver().library,
                                                           "soft_cuda_count_accesses");
  REQUIRE(call_it != nullptr);
  call_it(on ? 1 : 0);
}

/// Ranks that each have a device, and that sum a vector.
struct Apart {
  Apart(int rank_count, size_t bytes, bool hidden, const rondo_config_t &config)
      : group(on_devices(ordinals(rank_count), config)), elements(bytes / sizeof(float)) {
    for (int rank = 0; rank < rank_count; ++rank)
      buffers.emplace_back(group.world_of(rank), bytes_of(std::vector<float>(elements, 1)), hidden);
    for (int call = 0; call < 2; ++call) sum_all();  // after these calls, plans are on the devices
  }
  static std::vector<CuDevice> ordinals(int count) {
    std::vector<CuDevice> devices;
    for (int device = 0; device < count; ++device) devices.push_back(device);
    return devices;
  }
  void sum(int rank) {
    void *const at = buffers[static_cast<size_t>(rank)].pointer();
    REQUIRE(rondo_all_reduce(at, at, elements, RONDO_FLOAT32, RONDO_SUM, group.ranks[rank], group.stream(rank)) ==
            RONDO_OK);
  }
  /// Makes this rank's call of a message from rank 1 to rank 0.
  void message(int rank) {
    void *const at = buffers[static_cast<size_t>(rank)].pointer();
    const auto comm = group.ranks[rank];
    REQUIRE((rank == 0 ? rondo_recv(at, elements, RONDO_FLOAT32, 1, comm, group.stream(rank))
                       : rondo_send(at, elements, RONDO_FLOAT32, 0, comm, group.stream(rank))) == RONDO_OK);
  }
  /// Makes this rank's call of a broadcast from rank 0.
  void broadcast(int rank) {
    void *const at = buffers[static_cast<size_t>(rank)].pointer();
    REQUIRE(rondo_broadcast(at, at, elements, RONDO_FLOAT32, 0, group.ranks[rank], group.stream(rank)) == RONDO_OK);
  }
  void sum_all() {
    for (int rank = 0; rank < group.ranks.size(); ++rank) sum(rank);
    group.complete();
  }
  /// Returns the counts of all ranks since count_accesses().
  [[nodiscard]] std::vector<AccessCounts> counts() const {
    auto *const read = soft_cuda_function<uint32_t(AccessCounts *, uint32_t)>(
        rondo::cuda::conformance::loaded_driver().library, "soft_cuda_access_counts");
    std::vector<AccessCounts> ranks(static_cast<size_t>(group.ranks.size()));
    const auto room = static_cast<uint32_t>(ranks.size());
    REQUIRE(read(ranks.data(), room) == room);
    return ranks;
  }

  DeviceRanks group;
  size_t elements;
  std::vector<DeviceBuffer> buffers;
};

}  // namespace

// If peers cannot read the buffers, ranks go through places. With n ranks, a rank stores (n - 1) / n of the vector for
// the ranks that reduce it, and its result with n - 1 ranks. Only gates and windows are read over links.
TEST_CASE("budgets: an all-reduce through places loads no data over links, 2 and 8 devices", "[.][places budget]") {
  struct Way {
    int ranks;
    rondo_algorithm_t algorithm;
    uint32_t max_ctas;
    size_t bytes;
  };
  for (const Way &way : {Way{2, RONDO_ALGORITHM_AUTO, 0, 512 * kib}, Way{8, RONDO_ALGORITHM_AUTO, 0, 512 * kib},
                         Way{8, RONDO_ALGORITHM_TWO_SHOT, 1, 256 * kib}}) {
    rondo_config_t config = on_device();
    config.timeout_ms = 200'000;
    config.algorithm = way.algorithm;
    config.max_ctas = way.max_ctas;
    Apart apart(way.ranks, way.bytes, true, config);
    rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
    REQUIRE(rondo_comm_query_plan(apart.group.ranks[0], RONDO_ALL_REDUCE, apart.elements, RONDO_FLOAT32, &plan) ==
            RONDO_OK);
    CHECK(plan.algorithm == RONDO_ALGORITHM_TWO_SHOT);
    count_accesses(true);
    apart.sum_all();
    const auto ranks = apart.counts();
    count_accesses(false);
    const auto peers = static_cast<uint64_t>(way.ranks - 1);
    const uint64_t data = 2 * way.bytes / static_cast<uint64_t>(way.ranks) * peers;
    CAPTURE(way.ranks, way.max_ctas, plan.channels);
    for (const AccessCounts &rank : ranks) {
      const uint64_t stored = rank.written_bytes[soft_cuda::other_device_memory];
      std::printf("all_reduce of %zu B through places, %d devices: %llu remote turns; %llu B of data and %llu B of "
                  "flags stored over links\n",
                  way.bytes, way.ranks, static_cast<unsigned long long>(rank.remote_turns),
                  static_cast<unsigned long long>(data), static_cast<unsigned long long>(stored - data));
      CHECK(rank.remote_turns == 0);
      CHECK(rank.read_bytes[soft_cuda::other_device_memory] == 0);
      CHECK(stored >= data);
      CHECK(stored <= data + data / 50);
    }
    for (const DeviceBuffer &buffer : apart.buffers)  // after three sums in place
      CHECK_VALUES(buffer.read(), std::vector<float>(apart.elements,
                                                     static_cast<float>(way.ranks * way.ranks * way.ranks)));
  }
}

// This case needs SOFT_CUDA_THREADS=256, so that 8 B are a short post. Among 8 devices, each rank stores its units with
// 7 others. Nothing that it loads, data or flags, is on another device.
TEST_CASE("budgets: a one_shot among 8 devices loads nothing over links", "[.][places budget]") {
  for (const size_t bytes : {size_t{8}, 32 * kib}) {
    rondo_config_t config = on_device();
    config.timeout_ms = 200'000;
    config.max_ctas = 2;
    Apart apart(8, bytes, false, config);
    count_accesses(true);
    apart.sum_all();
    const auto ranks = apart.counts();
    count_accesses(false);
    CAPTURE(bytes);
    for (const AccessCounts &rank : ranks) {
      std::printf("one_shot of %zu B, 8 devices: %llu looks and %llu B of data over links\n", bytes,
                  static_cast<unsigned long long>(rank.flag_loads[soft_cuda::other_device_memory]),
                  static_cast<unsigned long long>(rank.read_bytes[soft_cuda::other_device_memory]));
      CHECK(rank.operations == 1);
      CHECK(rank.flag_loads[soft_cuda::other_device_memory] == 0);
      CHECK(rank.read_bytes[soft_cuda::other_device_memory] == 0);
      CHECK(rank.written_bytes[soft_cuda::other_device_memory] == 7 * 2 * bytes);
    }
    for (const DeviceBuffer &buffer : apart.buffers)  // after three sums in place
      CHECK_VALUES(buffer.read(), std::vector<float>(apart.elements, 8 * 8 * 8));
  }
}

TEST_CASE("budgets: a rank that waits for long acquires nothing meanwhile", "[budget]") {
  // A group polls 64 times by acquires before a wait is long. It has at most 4 waits, and a block at most 2 groups.
  constexpr uint64_t acquires_of_block = 64 * 4 * 2;
  constexpr uint64_t long_wait_polls = 16 * acquires_of_block;
  constexpr uint64_t loads_per_host_load = 8;  // at most every 8th load reads host memory over PCIe
  auto *const polls = soft_cuda_function<uint64_t(uint32_t)>(rondo::cuda::conformance::loaded_driver().library,
                                                             "soft_cuda_poll_count");
  REQUIRE(polls != nullptr);
  struct Way {
    const char *what;
    size_t bytes;
    bool hidden;
    rondo_kernel_t kernel;
    rondo_protocol_t protocol;
    void (Apart::*call)(int rank);
    int rank_count = 2;  ///< four ranks are a tree, in which rank 2 has the children 1 and 3
    int waiting = 0;     ///< a rank that waits for the last one
  };
  const Way ways[] = {
      {"one_shot", 8, false, RONDO_KERNEL_AUTO, RONDO_PROTOCOL_AUTO, &Apart::sum},
      {"places", 256 * kib, true, RONDO_KERNEL_AUTO, RONDO_PROTOCOL_AUTO, &Apart::sum},
      {"gates", 256 * kib, false, RONDO_KERNEL_AUTO, RONDO_PROTOCOL_AUTO, &Apart::sum},
      {"simple", 256 * kib, false, RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_SIMPLE, &Apart::sum},
      {"ll for data", 8, false, RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_LL, &Apart::sum},
      {"ll for credit", 256 * kib, false, RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_LL, &Apart::broadcast},
      {"ll for a second child", 8, false, RONDO_KERNEL_INTERPRETER, RONDO_PROTOCOL_LL, &Apart::sum, 4, 2},
      {"messages", 256 * kib, false, RONDO_KERNEL_AUTO, RONDO_PROTOCOL_AUTO, &Apart::message}};
  for (const Way &way : ways) {
    CAPTURE(way.what);
    rondo_config_t config = on_device();
    config.kernel = way.kernel;
    config.protocol = way.protocol;
    if (way.rank_count > 2) config.algorithm = RONDO_ALGORITHM_TREE;
    config.max_ctas = way.rank_count > 2 ? 1 : 0;
    Apart apart(way.rank_count, way.bytes, way.hidden, config);
    const auto call = [&](int rank) { (apart.*way.call)(rank); };
    for (int rank = 0; rank < way.rank_count; ++rank) call(rank);
    apart.group.complete();
    count_accesses(true);
    const auto polls_now = [&] { return polls(static_cast<uint32_t>(way.waiting)); };
    const uint64_t before = polls_now();
    for (int rank = 0; rank + 1 < way.rank_count; ++rank) call(rank);
    CHECK(rondo::cuda::conformance::becomes_true([&] { return polls_now() - before > long_wait_polls; }));
    call(way.rank_count - 1);
    apart.group.complete();
    const auto ranks = apart.counts();
    count_accesses(false);
    uint64_t looks = 0;
    for (const AccessCounts &rank : ranks) {
      const uint64_t of_host = rank.flag_loads[soft_cuda::host_memory];
      const uint64_t all = std::accumulate(std::begin(rank.flag_loads), std::end(rank.flag_loads), uint64_t{0});
      looks = std::max(looks, all);
      std::printf("%s: %llu looks, of which %llu at the host, %llu acquires, %llu blocks\n", way.what,
                  static_cast<unsigned long long>(all), static_cast<unsigned long long>(of_host),
                  static_cast<unsigned long long>(rank.flag_acquires), static_cast<unsigned long long>(rank.blocks));
      CHECK(of_host * loads_per_host_load <= all);
      CHECK(rank.flag_acquires <= acquires_of_block * rank.blocks);
    }
    CHECK(looks > acquires_of_block);  // otherwise the wait was not long
  }
}

namespace {

struct OneThread : rondo::SingleThread {
  void pause() const {}
};

}  // namespace

TEST_CASE("budgets: a long wait for peers loads no flag again that was ready") {
  constexpr uint32_t own = 3, late = 6, late_look = 20;
  using rondo::device::Look;
  for (const uint32_t rank_count : {8u, 64u}) {
    CAPTURE(rank_count);
    rondo::device::DeviceProgress progress;
    rondo::device::DeviceResult result;
    const uint64_t abort = 0;
    rondo::device::LoadStoreOperation operation;
    operation.base.progress = &progress;
    operation.base.result = &result;
    operation.base.abort = &abort;
    operation.geometry.rank_count = rank_count;
    operation.rank = own;
    std::vector<uint32_t> looks(rank_count, 0);
    bool told = false;
    const auto load = [&](uint32_t peer) -> uint64_t {
      return ++looks[peer] == (peer == late ? late_look : 1) ? 1 : 0;
    };
    const auto judge = [](uint64_t seen) { return seen != 0 ? Look::ready : Look::waits; };
    REQUIRE(rondo::device::watch_peers(OneThread{}, operation, told, load, judge));
    std::vector<uint32_t> expected(rank_count, 1);
    expected[own] = 0;
    expected[late] = late_look;
    CHECK(looks == expected);
    CHECK(told);
    const auto disagree = [](uint64_t) { return Look::stop; };
    CHECK(rondo::device::watch_peers(OneThread{}, operation, told, load, disagree));  // the caller finds `stop`
    progress.verdict = 1;
    CHECK_FALSE(rondo::device::watch_peers(OneThread{}, operation, told, load, judge));
  }
}
