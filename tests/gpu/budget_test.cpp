// SPDX-License-Identifier: Apache-2.0
// These tests bound the cost of collectives on a device by a table of budgets. The cost is counted, not measured.
// Kernels run as emulated blocks, which count their accesses (tests/soft_cuda/access_counts.h), so the tests need the
// driver in software. Ranks are threads that share a device, with the default settings.
#include <array>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "cuda/driver/budget.h"
#include "tests/gpu/device_case.h"
#include "tests/gpu/device_ranks.h"
#include "tests/sanitized.h"

using namespace rondo_test;
using namespace rondo::cuda;
using soft_cuda::AccessCounts;

namespace {

constexpr size_t KiB = 1024, MiB = 1024 * KiB;
constexpr uint32_t device_count_max = 4;

/// The counts of all ranks for one call. Some calls that are not counted precede this call.
struct Counted {
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  int rank_count = 0;
  size_t bytes = 0;  ///< size of the vector, or of all blocks together
  std::vector<AccessCounts> ranks;
  bool in_place = false;
  std::array<std::array<double, device_count_max>, device_count_max> between{};  ///< bytes by soft_cuda_moved_bytes()

  [[nodiscard]] double most(double (*of)(const AccessCounts &)) const {
    double found = 0;
    for (const AccessCounts &rank : ranks) found = std::max(found, of(rank));
    return found;
  }
  /// Returns how many bytes all ranks read and write for each byte of the vector.
  [[nodiscard]] double moved() const {
    uint64_t all = 0;
    for (const AccessCounts &rank : ranks)
      for (uint32_t kind = 0; kind < soft_cuda::memory_kind_count; ++kind)
        all += rank.read_bytes[kind] + rank.written_bytes[kind];
    return static_cast<double>(all) / static_cast<double>(bytes);
  }
};

std::vector<rondo_config_t> same_device(int rank_count, const rondo_config_t &config = on_device()) {
  return std::vector<rondo_config_t>(static_cast<size_t>(rank_count), config);
}

/// Makes a call of all ranks, and counts its accesses. Only a broadcast may be `in_place`, because repeats do not
/// change its result. If ranks share launches, all accesses of their kernel count as accesses of rank 0.
Counted count(rondo_collective_t collective, std::vector<rondo_config_t> configs, size_t bytes, bool in_place = false) {
  // Counting is slow under a sanitizer on a busy machine, so the timeout is long.
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
  const auto call_all = [&] {
    REQUIRE(all_ok(call_each(group.ranks, call_one)));
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

/// A line of the table.
struct Budget {
  int rank_count;
  size_t bytes;
  const char *what;
  double (*value)(const Counted &);
  double most;
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  bool in_place = false;
};

double moved(const Counted &of) { return of.moved(); }
/// Returns 1 / blocks of the rank with the fewest blocks. An upper limit of this value is a lower limit of blocks.
double block_share(const Counted &of) {
  return of.most([](const AccessCounts &rank) { return 1 / static_cast<double>(rank.blocks); });
}

// The device has 32 multiprocessors. "bytes moved" is in bytes for each byte of the vector. Its budget lets kernels
// move each input and each output once, and 5 % more.
const Budget budgets[] = {
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (2 + 2)},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 8)},
    {2, 8 * MiB, "bytes moved", moved, 1.05 * (2 + 2)},
    {8, 8 * MiB, "bytes moved", moved, 1.05 * (8 + 8)},
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (2 + 1), RONDO_REDUCE},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 1), RONDO_REDUCE},
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (2 + 1), RONDO_REDUCE_SCATTER},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 1), RONDO_REDUCE_SCATTER},
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 2), RONDO_ALL_GATHER},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 8), RONDO_ALL_GATHER},
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 2), RONDO_BROADCAST},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 8), RONDO_BROADCAST},
    {8, 1 * MiB, "bytes moved in place", moved, 1.05 * (1 + 7), RONDO_BROADCAST, true},
    {8, 8 * MiB, "share of a block", block_share, 1.0 / 4, RONDO_REDUCE_SCATTER},
    {8, 8 * MiB, "share of a block", block_share, 1.0 / 4, RONDO_BROADCAST},
    {2, 8 * MiB, "share of a block", block_share, 1.0 / 16},
    {8, 8 * MiB, "share of a block", block_share, 1.0 / 4},
    {8, 32 * KiB, "share of a block", block_share, 1.0 / 4},
};

// Here one kernel runs all ranks, which are threads that share launches. The kernel loads a word or a vector from each
// rank, and stores the sum to each.
const Budget shared_budgets[] = {
    {2, 1 * MiB, "bytes moved", moved, 1.05 * (2 + 2)},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 8)},
    {8, 8 * MiB, "bytes moved", moved, 1.05 * (8 + 8)},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 1), RONDO_REDUCE},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (8 + 1), RONDO_REDUCE_SCATTER},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 8), RONDO_ALL_GATHER},
    {8, 1 * MiB, "bytes moved", moved, 1.05 * (1 + 8), RONDO_BROADCAST},
    {8, 8 * MiB, "share of a block", block_share, 1.0 / 64},
    {8, 32 * KiB, "share of a block", block_share, 1.0 / 16},
};

void check_budgets(std::span<const Budget> lines) {
  std::vector<Counted> known;
  GateShare share("lines of the table of budgets");
  for (const Budget &line : lines) {
    if (!share.has_next()) continue;
    const Counted *counted = nullptr;
    for (const Counted &it : known)
      if (it.collective == line.collective && it.rank_count == line.rank_count && it.bytes == line.bytes &&
          it.in_place == line.in_place)
        counted = &it;
    if (counted == nullptr) {
      known.push_back(count(line.collective, same_device(line.rank_count), line.bytes, line.in_place));
      known.back().in_place = line.in_place;
      counted = &known.back();
    }
    const double value = line.value(*counted);
    const char *const name = rondo_collective_string(line.collective);
    CAPTURE(name, line.rank_count, line.bytes, line.what, value, line.most);
    std::printf("%s, %d ranks, %8zu bytes: %-40s %8.3f (budget %.3f)\n", name, line.rank_count, line.bytes, line.what,
                value, line.most);
    CHECK(value <= line.most);
  }
}

}  // namespace

TEST_CASE("budgets: a collective costs no more than the table says", "[budget]") { check_budgets(budgets); }

TEST_CASE("budgets: one kernel for all ranks costs no more than the table says", "[.][shared budget]") {
  check_budgets(shared_budgets);
}

// For each byte of the vector, a rank may read its input and write its output once in its own device's memory, and 5 %
// more. With n ranks, a link between devices may carry (n - 1) / n bytes that are loaded, as many that are stored, and
// 2 % more.
TEST_CASE("budgets: an all-reduce among devices costs their memory and links no more than the table says", "[budget]") {
  GateShare share("budgets among devices");
  for (const std::vector<CuDevice> &devices : {std::vector<CuDevice>{0, 1}, {0, 1, 2, 3}, {0, 1, 0, 1}})
    for (const size_t bytes : {1 * MiB, 8 * MiB}) {
      if (!share.has_next()) continue;
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

// The interpreter runs these calls. With ll, a block gets one slot's bytes, so all blocks have work long before 4 MiB.
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
        CHECK(rank.written_bytes[soft_cuda::other_device_memory] > MiB);
        CHECK(rank.read_bytes[soft_cuda::other_device_memory] == 0);
        CHECK(rank.flag_loads[soft_cuda::other_device_memory] == 0);
      }
    }
}

// These devices have no atomics between them. So a call goes through places without gates, and all flags are counters.
// A chunk has `channels` * 64 KiB, and for each chunk a rank stores two counters with each peer.
TEST_CASE("budgets: through places ranks load nothing over links, and store each byte and counter once for each reader",
          "[.][apart budget]") {
  constexpr size_t bytes = 1 * MiB, chunk_bytes = 64 * KiB, chunks = bytes / chunk_bytes;
  for (const size_t n : {size_t{2}, size_t{8}}) {
    rondo_config_t config = on_device();
    config.kernel = RONDO_KERNEL_LOAD_STORE;
    config.algorithm = RONDO_ALGORITHM_TWO_SHOT;
    config.channels = 2;
    config.chunk_bytes = chunk_bytes;
    std::vector<CuDevice> devices;
    for (size_t rank = 0; rank < n; ++rank) devices.push_back(static_cast<CuDevice>(rank));
    constexpr size_t counters = chunks * 2 * sizeof(uint64_t);
    const size_t part = bytes / n, others = bytes - part;
    struct Line {
      rondo_collective_t collective;
      size_t root, other;  ///< bytes of data that the root stores, and that each other rank stores
    };
    for (const Line &line : {Line{RONDO_ALL_REDUCE, 2 * others, 2 * others}, Line{RONDO_REDUCE_SCATTER, others, others},
                             Line{RONDO_ALL_GATHER, others, others}, Line{RONDO_REDUCE, others, bytes},
                             Line{RONDO_BROADCAST, 2 * others, others - part}}) {
      config.algorithm = in_blocks(line.collective) ? RONDO_ALGORITHM_AUTO : RONDO_ALGORITHM_TWO_SHOT;
      const Counted counted = count(line.collective, on_devices(devices, config), bytes);
      std::vector<uint64_t> stored, expected(n, line.other + counters * (n - 1));
      expected[0] = line.root + counters * (n - 1);
      for (const AccessCounts &rank : counted.ranks) {
        stored.push_back(rank.written_bytes[soft_cuda::other_device_memory]);
        CHECK(rank.flag_loads[soft_cuda::other_device_memory] == 0);
        CHECK(rank.read_bytes[soft_cuda::other_device_memory] == 0);
        CHECK(rank.remote_turns == 0);
      }
      std::sort(stored.begin(), stored.end());
      std::sort(expected.begin(), expected.end());
      CAPTURE(rondo_collective_string(line.collective), n);
      CHECK(stored == expected);
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
