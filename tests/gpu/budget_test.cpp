// SPDX-License-Identifier: Apache-2.0
// The table of budgets bounds the cost of collectives on a device, counted and not measured. The kernels run as
// emulated blocks, which count their accesses (src/proto/access_counts.h), so this needs the driver in software. Ranks
// are threads that share a device, with the default settings.
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "cuda/driver/budget.h"
#include "tests/gpu/device_case.h"
#include "tests/gpu/device_ranks.h"

using namespace rondo_test;
using namespace rondo::cuda;
using rondo::AccessCounts;

namespace {

constexpr size_t KiB = 1024, MiB = 1024 * KiB;
constexpr uint32_t device_count_max = 4;

/// The counts of one call of every rank, which follows some calls that are not counted.
struct Counted {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  int rank_count = 0;
  size_t bytes = 0;  ///< size of the vector, of all blocks
  std::vector<AccessCounts> ranks;
  bool graph = false;
  bool in_place = false;
  std::array<std::array<double, device_count_max>, device_count_max> between{};  ///< bytes by soft_cuda_moved_bytes()

  [[nodiscard]] double most(double (*of)(const AccessCounts &)) const {
    double found = 0;
    for (const AccessCounts &rank : ranks) found = std::max(found, of(rank));
    return found;
  }
  /// The bytes that all ranks read and write for each byte of the vector.
  [[nodiscard]] double moved() const {
    uint64_t all = 0;
    for (const AccessCounts &rank : ranks)
      for (uint32_t kind = 0; kind < rondo::memory_kind_count; ++kind)
        all += rank.work.read_bytes[kind] + rank.work.written_bytes[kind];
    return static_cast<double>(all) / static_cast<double>(bytes);
  }
};

std::vector<rondo_config_t> same_device(int rank_count, const rondo_config_t &config = on_device()) {
  return std::vector<rondo_config_t>(static_cast<size_t>(rank_count), config);
}

/// Counts a call, or with `graph` a replay of a captured call. `in_place` is for a broadcast, which can be repeated.
/// If ranks share launches, all accesses of their kernel count as accesses of rank 0.
Counted count(rondo_collective_t collective, std::vector<rondo_config_t> configs, size_t bytes, bool graph = false,
              bool in_place = false) {
  // Counting is slow under a sanitizer on a busy machine. Every rank calls, so no wait here is in vain.
  for (rondo_config_t &config : configs) config.timeout_ms = 200'000;
  const auto rank_count = static_cast<int>(configs.size());
  const std::string library = conformance::loaded_driver().library;
  auto *const counts = soft_cuda_function<void(uint32_t)>(library, "soft_cuda_count_accesses");
  auto *const read = soft_cuda_function<uint32_t(AccessCounts *, uint32_t)>(library, "soft_cuda_access_counts");
  auto *const moved = soft_cuda_function<uint64_t(uint32_t, uint32_t)>(library, "soft_cuda_moved_bytes");
  REQUIRE((counts != nullptr && read != nullptr && moved != nullptr));
  DeviceRanks group(configs);
  const size_t elements = bytes / sizeof(float);
  DeviceCase it{collective};
  it.count = in_blocks(collective) ? elements / static_cast<size_t>(rank_count) : elements;
  it.root = 1;
  it.in_place = in_place;
  std::vector<DeviceBuffer> send, recv;
  for (int rank = 0; rank < rank_count; ++rank) {
    send.emplace_back(group.world_of(rank), bytes_of(whole_numbers(static_cast<uint64_t>(rank), elements)));
    recv.emplace_back(group.world_of(rank), std::vector<std::byte>(bytes));
  }
  const auto call_one = [&](int rank, rondo_comm_t comm) {
    const auto at = [&](const std::vector<DeviceBuffer> &of) {
      return static_cast<std::byte *>(of[static_cast<size_t>(rank)].pointer());
    };
    return call(it, rank, comm, group.stream(rank), at(send), at(recv));
  };
  std::vector<GraphExec> graphs;
  for (int rank = 0; graph && rank < rank_count; ++rank)
    graphs.push_back(captured(group.world_of(rank), group.stream(rank),
                              [&] { REQUIRE(call_one(rank, group.ranks[rank]) == RONDO_OK); }));
  const auto call_all = [&] {
    for (int rank = 0; graph && rank < rank_count; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
    if (!graph) REQUIRE(all_ok(call_each(group.ranks, call_one)));
    group.complete();
  };
  call_all();
  call_all();
  counts(1);
  call_all();
  const uint32_t told = calls_wait() ? 1 : static_cast<uint32_t>(rank_count);
  Counted counted{collective, rank_count, bytes, std::vector<AccessCounts>(told)};
  CHECK(read(counted.ranks.data(), told) == told);
  for (uint32_t from = 0; from < device_count_max; ++from)
    for (uint32_t to = 0; to < device_count_max; ++to) counted.between[from][to] = static_cast<double>(moved(from, to));
  counts(0);
  for (const AccessCounts &rank : counted.ranks) CHECK(rank.operations == 1);
  for (int rank = 0; rank < rank_count; ++rank)
    check_received((in_place ? send : recv)[static_cast<size_t>(rank)].read(), it, rank, rank_count);
  return counted;
}

/// A line of the table. If the budget does not hold yet, `present` is the present value, which must not get worse.
struct Budget {
  int rank_count;
  size_t bytes;
  const char *what;
  double (*value)(const Counted &);
  double most;
  double present = 0;
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  bool graph = false;  ///< replayed
  bool in_place = false;
};

double moved(const Counted &of) { return of.moved(); }
double host_loads(const Counted &of) {
  return of.most([](const AccessCounts &rank) { return static_cast<double>(rank.work.host_loads); });
}
double early_host_stores(const Counted &of) {
  return of.most([](const AccessCounts &rank) { return static_cast<double>(rank.work.early_host_stores); });
}
double read_modify_writes(const Counted &of) {
  return of.most([](const AccessCounts &rank) {
    return static_cast<double>(rank.work.read_modify_writes + rank.report.read_modify_writes);
  });
}
double block_releases(const Counted &of) {
  return of.most([](const AccessCounts &rank) {
    return static_cast<double>(rank.work.releases) / static_cast<double>(rank.blocks);
  });
}
double block_barriers(const Counted &of) {
  return of.most([](const AccessCounts &rank) {
    return static_cast<double>(rank.work.barriers) / static_cast<double>(rank.blocks);
  });
}
double chain(const Counted &of) {
  return of.most([](const AccessCounts &rank) { return static_cast<double>(rank.chain_to_result); });
}
/// Returns 1 / blocks of the rank with the fewest blocks, so that a maximum of this value is a minimum of blocks.
double block_share(const Counted &of) {
  return of.most([](const AccessCounts &rank) { return 1 / static_cast<double>(rank.blocks); });
}

// The device has 32 multiprocessors. The budget of "bytes moved", for each byte of the vector, is each input and each
// output once, and 5 % more.
const Budget budgets[] = {
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (2 + 2)},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 8)},
    {2, 8 * MiB, "bytes moved", moved, 1.05 * (2 + 2)},
    {8, 8 * MiB, "bytes moved", moved, 1.05 * (8 + 8)},
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (2 + 1), 0, RONDO_REDUCE},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 1), 0, RONDO_REDUCE},
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (2 + 1), 0, RONDO_REDUCE_SCATTER},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 1), 0, RONDO_REDUCE_SCATTER},
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 2), 0, RONDO_ALL_GATHER},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 8), 0, RONDO_ALL_GATHER},
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 2), 0, RONDO_BROADCAST},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 8), 0, RONDO_BROADCAST},
    {8, 1 * MiB, "bytes moved in place", moved, 1.05 * (1 + 7), 0, RONDO_BROADCAST, false, true},
    {8, 8 * MiB, "share of a block", block_share, 1.0 / 4, 0, RONDO_REDUCE_SCATTER},
    {8, 8 * MiB, "share of a block", block_share, 1.0 / 4, 0, RONDO_BROADCAST},
    {2, 8 * MiB, "share of a block", block_share, 1.0 / 16},
    {8, 8 * MiB, "share of a block", block_share, 1.0 / 4},
    {2, 8, "loads from the host", host_loads, 0},
    {8, 8, "loads from the host", host_loads, 0},
    {8, 32 * KiB, "loads from the host", host_loads, 0},
    {2, 8, "stores to the host before the last post", early_host_stores, 0},
    {8, 8, "stores to the host before the last post", early_host_stores, 0},
    {8, 32 * KiB, "stores to the host before the last post", early_host_stores, 0},
    {2, 8, "stores to the host before the last post", early_host_stores, 0, 0, RONDO_ALL_REDUCE, true},
    {8, 8, "stores to the host before the last post", early_host_stores, 0, 0, RONDO_ALL_REDUCE, true},
    {8, 32 * KiB, "stores to the host before the last post", early_host_stores, 0, 0, RONDO_ALL_REDUCE, true},
    {8, 8, "loads from the host", host_loads, 0, 0, RONDO_ALL_REDUCE, true},
    {8, 8, "adds and exchanges", read_modify_writes, 0},
    {8, 8, "adds and exchanges", read_modify_writes, 0, 0, RONDO_ALL_REDUCE, true},
    {8, 8, "accesses one after the other", chain, 3, 0, RONDO_ALL_REDUCE, true},
    {8, 8, "barriers of a block", block_barriers, 1, 0, RONDO_ALL_REDUCE, true},
    {2, 8, "barriers of a block", block_barriers, 1},  // the vote on arrived words; then thread 0 reports
    {8, 8, "barriers of a block", block_barriers, 1},
    {8, 32 * KiB, "barriers of a block", block_barriers, 1},
    {2, 8, "releases of a block", block_releases, 0},
    {8, 8, "releases of a block", block_releases, 0},
    {8, 32 * KiB, "releases of a block", block_releases, 0},
    {8, 8, "accesses one after the other", chain, 3},
    {8, 32 * KiB, "accesses one after the other", chain, 4},
    {8, 32 * KiB, "share of a block", block_share, 1.0 / 4},
};

// Here one kernel runs all ranks, which are threads that share launches. The kernel loads a word or a vector from each
// rank, and stores the sum to each.
const Budget shared_budgets[] = {
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (2 + 2)},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 8)},
    {8, 8 * MiB, "bytes moved", moved, 1.05 * (8 + 8)},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 1), 0, RONDO_REDUCE},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 1), 0, RONDO_REDUCE_SCATTER},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 8), 0, RONDO_ALL_GATHER},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 8), 0, RONDO_BROADCAST},
    {8, 8 * MiB, "share of a block", block_share, 1.0 / 64},
    {8, 8, "loads from the host", host_loads, 0},
    {8, 32 * KiB, "loads from the host", host_loads, 0},
    {8, 8, "stores to the host before the results", early_host_stores, 0},
    {8, 8, "adds and exchanges", read_modify_writes, 0},
    {8, 8, "releases of a block", block_releases, 0},
    {8, 32 * KiB, "releases of a block", block_releases, 0},
    {8, 8, "barriers of a block", block_barriers, 1},
    {8, 8, "accesses one after the other", chain, 1},
    {8, 32 * KiB, "accesses one after the other", chain, 1},
    {8, 32 * KiB, "share of a block", block_share, 1.0 / 16},
};

void check_budgets(std::span<const Budget> lines) {
  std::vector<Counted> known;
  for (const Budget &line : lines) {
    const Counted *counted = nullptr;
    for (const Counted &it : known)
      if (it.collective == line.collective && it.rank_count == line.rank_count && it.bytes == line.bytes &&
          it.graph == line.graph && it.in_place == line.in_place)
        counted = &it;
    if (counted == nullptr) {
      known.push_back(count(line.collective, same_device(line.rank_count), line.bytes, line.graph, line.in_place));
      known.back().graph = line.graph;
      known.back().in_place = line.in_place;
      counted = &known.back();
    }
    const double value = line.value(*counted);
    const char *const name = rondo_collective_string(line.collective);
    CAPTURE(name, line.rank_count, line.bytes, line.graph, line.what, value, line.most, line.present);
    std::printf("%s%s, %d ranks, %8zu bytes: %-40s %8.3f (budget %.3f)\n", name, line.graph ? " replayed" : "",
                line.rank_count, line.bytes, line.what, value, line.most);
    CHECK(value <= std::max(line.most, line.present));
    // If a budget now holds, remove its `present` from the table.
    if (line.present != 0) CHECK(value > line.most);
  }
}

}  // namespace

TEST_CASE("budgets: a collective costs no more than the table says", "[budget]") { check_budgets(budgets); }

TEST_CASE("budgets: one kernel for all ranks costs no more than the table says", "[.][shared budget]") {
  check_budgets(shared_budgets);
}

// For each byte of the vector, the memory of a rank's device reads its input and writes its output once, and 5 % more.
// Between devices, the budget is (n - 1) / n for the part that is read and again for the part that is stored, and 2 %
// more.
TEST_CASE("budgets: an all-reduce among devices costs their memory and links no more than the table says", "[budget]") {
  for (const std::vector<CuDevice> &devices : {std::vector<CuDevice>{0, 1}, {0, 1, 2, 3}, {0, 1, 0, 1}})
    for (const size_t bytes : {1 * MiB, 8 * MiB}) {
      const Counted counted = count(RONDO_ALL_REDUCE, on_devices(devices), bytes);
      const auto ranks = static_cast<double>(devices.size());
      const double link_max = 1.02 * 2 * (ranks - 1) / ranks;
      constexpr double least = 0.95;  // if less moved, some accesses were not counted
      for (uint32_t device = 0; device < device_count_max; ++device) {
        const auto here = static_cast<double>(std::count(devices.begin(), devices.end(), static_cast<int>(device)));
        if (here == 0) continue;
        double sent = 0, received = 0;
        for (uint32_t peer = 0; peer < device_count_max; ++peer) {
          if (peer == device) continue;
          sent += counted.between[device][peer] / here / static_cast<double>(bytes);
          received += counted.between[peer][device] / here / static_cast<double>(bytes);
        }
        const double in_memory = counted.between[device][device] / here / static_cast<double>(bytes);
        CAPTURE(devices.size(), bytes, device, sent, received, in_memory);
        std::printf("all_reduce, %zu ranks on %.0f devices, %8zu bytes: device %u: memory %.3f (budget 2.1), "
                    "sent %.3f, received %.3f (budget %.3f)\n",
                    devices.size(), ranks / here, bytes, device, in_memory, sent, received, link_max);
        CHECK((in_memory >= least * 2 && in_memory <= 2.1));
        const double link_min = least * 2 * (ranks - here) / ranks;
        CHECK((sent >= link_min && sent <= link_max));
        CHECK((received >= link_min && received <= link_max));
      }
    }
}

// This case does without load_store. By ll, each slot has a block, so a call has all blocks long before 4 MiB.
TEST_CASE("budgets: the interpreter has all blocks above 4 MiB", "[budget]") {
  for (const auto protocol : {RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL})
    for (const int ranks : {2, 8}) {
      rondo_config_t config = on_device();
      config.protocol = protocol;
      const Counted counted = count(RONDO_ALL_REDUCE, same_device(ranks, config), 4 * MiB + sizeof(float));
      CAPTURE(rondo_protocol_string(protocol), ranks);
      for (const AccessCounts &rank : counted.ranks) CHECK(rank.blocks == 32 / static_cast<uint64_t>(ranks));
    }
}

// There is one channel, so a rank has one block. In a ring of n ranks, a rank has 2 n - 1 hops: the first sends, the
// last receives, all others do both.
TEST_CASE("budgets: a hop releases once by simple; by ll never on one device, and once between devices", "[budget]") {
  for (const auto protocol : {RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL})
    for (const std::vector<CuDevice> &devices : {std::vector<CuDevice>{0, 0}, {0, 0, 0, 0}, {0, 1}, {0, 1, 0, 1}})
      for (const size_t bytes : {size_t{8}, 4 * KiB, 32 * KiB}) {
        std::vector<rondo_config_t> configs = on_devices(devices);
        for (rondo_config_t &config : configs) {
          config.kernel = RONDO_KERNEL_INTERPRETER;
          config.algorithm = RONDO_ALGORITHM_RING;
          config.protocol = protocol;
          config.channels = 1;
        }
        const Counted counted = count(RONDO_ALL_REDUCE, configs, bytes);
        const size_t slot_bytes = protocol == RONDO_PROTOCOL_LL ? 4 * KiB : 128 * KiB;
        const size_t ranks = devices.size(), chunk = bytes / ranks, slots = (chunk + slot_bytes - 1) / slot_bytes;
        const double released = block_releases(counted) / static_cast<double>((2 * ranks - 1) * slots);
        const bool one_device = devices[1] == devices[0];
        const double most = protocol == RONDO_PROTOCOL_LL && one_device ? 0 : 1;
        const char *const name = rondo_protocol_string(protocol);
        CAPTURE(name, ranks, one_device, bytes, released);
        std::printf("all_reduce by %s, %zu ranks on %s, %8zu bytes: releases of a block and hop %.3f (budget %.0f)\n",
                    name, ranks, one_device ? "one device" : "2 devices", bytes, released, most);
        CHECK(released <= most);
        CHECK((released > 0) == (most > 0));  // the release orders the callers' accesses before and after
        for (const AccessCounts &rank : counted.ranks) CHECK(rank.work.written_bytes[one_device ? 0 : 1] >= 2 * chunk);
      }
}

// There is one channel and one slice. A lane begins and ends with a barrier. A step has one after its waits, and one
// before it publishes. In a tree, a rank has two lanes of one step; in a ring, one lane of 2 n - 1 steps.
TEST_CASE("budgets: a step has two barriers, however many links it waits for and sends on", "[budget]") {
  for (const auto protocol : {RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL})
    for (const auto algorithm : {RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TREE})
      for (const int ranks : {2, 4, 8}) {
        rondo_config_t config = on_device();
        config.kernel = RONDO_KERNEL_INTERPRETER;
        config.algorithm = algorithm;
        config.protocol = protocol;
        config.channels = 1;
        const auto bytes = static_cast<size_t>(ranks) * rondo::cache_line_bytes;  // in a ring, each step has a line
        const Counted counted = count(RONDO_ALL_REDUCE, same_device(ranks, config), bytes);
        const bool ring = algorithm == RONDO_ALGORITHM_RING;
        const int steps = ring ? 2 * ranks - 1 : 2, lanes = ring ? 1 : 2;
        const double most = 2 * steps + 2 * lanes;
        const double barriers =
            counted.most([](const AccessCounts &rank) { return static_cast<double>(rank.work.barriers); });
        CAPTURE(rondo_protocol_string(protocol), rondo_algorithm_string(algorithm), ranks, barriers, most);
        std::printf("all_reduce by %s and %s, %d ranks: barriers of a rank %.0f (budget %.0f)\n",
                    rondo_algorithm_string(algorithm), rondo_protocol_string(protocol), ranks, barriers, most);
        CHECK(barriers == most);
      }
}

// Slots have been used before, so a sender has to poll for credit.
TEST_CASE("budgets: links between devices load from their own device alone", "[budget]") {
  for (const auto protocol : {RONDO_PROTOCOL_SIMPLE, RONDO_PROTOCOL_LL})
    for (const auto algorithm : {RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TREE}) {
      std::vector<rondo_config_t> configs = on_devices({0, 1, 2});
      for (rondo_config_t &config : configs) {
        config.kernel = RONDO_KERNEL_INTERPRETER;
        config.algorithm = algorithm;
        config.protocol = protocol;
      }
      const Counted counted = count(RONDO_ALL_REDUCE, configs, 4 * MiB);
      for (const AccessCounts &rank : counted.ranks) {
        CAPTURE(rondo_protocol_string(protocol), rondo_algorithm_string(algorithm));
        CHECK(rank.work.written_bytes[rondo::other_device_memory] > MiB);
        CHECK(rank.work.read_bytes[rondo::other_device_memory] == 0);
      }
    }
}

TEST_CASE("budgets: no kernel has larger blocks than are reckoned with, whatever it runs", "[budget]") {
  auto *const largest =
      soft_cuda_function<uint64_t()>(conformance::loaded_driver().library, "soft_cuda_block_threads");
  REQUIRE(largest != nullptr);
  for (const auto kernel : {RONDO_KERNEL_AUTO, RONDO_KERNEL_LOAD_STORE, RONDO_KERNEL_INTERPRETER})
    for (const auto algorithm : {RONDO_ALGORITHM_AUTO, RONDO_ALGORITHM_TWO_SHOT, RONDO_ALGORITHM_TREE}) {
      if (algorithm == RONDO_ALGORITHM_TREE && kernel != RONDO_KERNEL_INTERPRETER) continue;
      rondo_config_t config = on_device();
      config.kernel = kernel;
      config.algorithm = algorithm;
      static_cast<void>(count(RONDO_ALL_REDUCE, same_device(3, config), 1 * MiB));
    }
  CHECK(largest() == block_threads_max);
}

TEST_CASE("budgets: communicators of a process fit beside each other, whatever runs on them", "[budget]") {
  DeviceRanks first(8), second(8);
  const auto channels_of = [](const DeviceRanks &group) {
    rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
    REQUIRE(rondo_comm_query_plan(group.ranks[0], RONDO_ALL_REDUCE, 8 * MiB, RONDO_FLOAT32, &plan) == RONDO_OK);
    return plan.channels;
  };
  CHECK(channels_of(first) == 4);
  CHECK(channels_of(second) == 2);  // 16 blocks are left for 16 more ranks
}
