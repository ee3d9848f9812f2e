// SPDX-License-Identifier: Apache-2.0
// The mean of integers on a device must be exact near the limits of each type, by kernels and by copies, called and
// replayed, while the workspace grows.
#include <cstring>
#include <limits>

#include "tests/gpu/device_ranks.h"
#include "tests/sim/random.h"

using namespace rondo_test;
using namespace rondo::cuda;

namespace {

__extension__ using Exact = __int128;
constexpr int rank_count = 3;

/// Returns element `index` of a rank. The index selects the largest value, the lowest, a mix of both, or random values.
template <class T>
T operand(uint64_t seed, int rank, size_t index) {
  switch (index % 4) {
    case 0: return std::numeric_limits<T>::max();
    case 1: return std::numeric_limits<T>::min();
    case 2: return rank == 0 ? std::numeric_limits<T>::min() : std::numeric_limits<T>::max();
    default: return static_cast<T>(rondo::sim::Random(seed + index * rank_count + static_cast<size_t>(rank)).next());
  }
}

template <class T>
std::vector<T> operands(uint64_t seed, int rank, size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = operand<T>(seed, rank, i);
  return values;
}

/// Returns the mean of each element.
template <class T>
std::vector<T> means_of(const std::vector<std::vector<T>> &all, size_t count) {
  std::vector<T> means(count);
  for (size_t i = 0; i < count; ++i) {
    Exact sum = 0;
    for (const std::vector<T> &of_rank : all) sum += static_cast<Exact>(of_rank[i]);
    means[i] = static_cast<T>(sum / rank_count);
  }
  return means;
}

/// Buffers and calls of all ranks, with `count` elements of a type.
template <class T>
class Means {
 public:
  Means(DeviceRanks &group, size_t count, rondo_type_t type) : group_(group), count_(count), type_(type) {
    for (int rank = 0; rank < rank_count; ++rank) {
      send_.emplace_back(group.world, std::vector<std::byte>(count * sizeof(T)));
      recv_.emplace_back(group.world, std::vector<std::byte>(count * sizeof(T)));
    }
    write(0);
  }

  void write(uint64_t seed) {
    std::vector<std::vector<T>> all;
    for (int rank = 0; rank < rank_count; ++rank) {
      all.push_back(operands<T>(seed, rank, count_));
      at(send_, rank).write(bytes_of(all.back()));
    }
    means_ = bytes_of(means_of(all, count_));
  }

  [[nodiscard]] rondo_status_t call(rondo_collective_t collective, int rank) const {
    const void *const send = at(send_, rank).pointer();
    void *const recv = at(recv_, rank).pointer();
    const rondo_comm_t comm = group_.ranks[rank];
    const rondo_stream_t stream = group_.stream(rank);
    if (collective == RONDO_ALL_REDUCE) return rondo_all_reduce(send, recv, count_, type_, RONDO_AVG, comm, stream);
    if (collective == RONDO_REDUCE) return rondo_reduce(send, recv, count_, type_, RONDO_AVG, 1, comm, stream);
    return rondo_reduce_scatter(send, recv, count_ / rank_count, type_, RONDO_AVG, comm, stream);
  }

  /// Compares what the ranks have received with the means of what was written last.
  void check(rondo_collective_t collective) const {
    const size_t block = count_ / rank_count;
    for (int rank = 0; rank < rank_count; ++rank) {
      if (collective == RONDO_REDUCE && rank != 1) continue;
      const bool scattered = collective == RONDO_REDUCE_SCATTER;
      CAPTURE(rank, count_, rondo_type_string(type_), rondo_collective_string(collective));
      const size_t first = scattered ? static_cast<size_t>(rank) * block : 0;
      const std::vector<std::byte> got = at(recv_, rank).read();
      CHECK(std::memcmp(got.data(), means_.data() + first * sizeof(T), (scattered ? block : count_) * sizeof(T)) == 0);
    }
  }

 private:
  template <class Vector>
  [[nodiscard]] static auto &at(Vector &all, int rank) {
    return all[static_cast<size_t>(rank)];
  }

  DeviceRanks &group_;
  size_t count_;
  rondo_type_t type_;
  std::vector<DeviceBuffer> send_, recv_;
  std::vector<std::byte> means_;  ///< of each element
};

/// Captures a small call, makes larger ones, and replays the small one with other elements.
template <class T>
void check_type(DeviceRanks &group, rondo_type_t type) {
  Means<T> small(group, 60, type);
  std::vector<GraphExec> graphs;
  for (int rank = 0; rank < rank_count; ++rank)
    graphs.push_back(captured(group.world, group.stream(rank),
                              [&] { REQUIRE(small.call(RONDO_ALL_REDUCE, rank) == RONDO_OK); }));
  Means<T> large(group, 60'003, type);
  for (const auto collective : {RONDO_ALL_REDUCE, RONDO_REDUCE, RONDO_REDUCE_SCATTER}) {
    for (int rank = 0; rank < rank_count; ++rank) REQUIRE(large.call(collective, rank) == RONDO_OK);
    group.complete();
    large.check(collective);
  }
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    small.write(seed);
    for (int rank = 0; rank < rank_count; ++rank) group.launch(graphs[static_cast<size_t>(rank)], rank);
    group.complete();
    small.check(RONDO_ALL_REDUCE);
  }
}

}  // namespace

TEST_CASE("device: a mean of integers never overflows, called and replayed, while its workspace grows") {
  const auto executor = GENERATE(RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_DEVICE_EXECUTOR_COPY);
  rondo_config_t config = on_device();
  config.device_executor = executor;
  DeviceRanks group(rank_count, config);
  CAPTURE(rondo_device_executor_string(executor));
  check_type<int8_t>(group, RONDO_INT8);
  check_type<uint8_t>(group, RONDO_UINT8);
  check_type<int32_t>(group, RONDO_INT32);
  check_type<uint32_t>(group, RONDO_UINT32);
  check_type<int64_t>(group, RONDO_INT64);
  check_type<uint64_t>(group, RONDO_UINT64);
}

TEST_CASE("device: a flush waits for the division of a mean") {
  rondo_config_t config = on_device();
  config.device_executor = GENERATE(RONDO_DEVICE_EXECUTOR_KERNEL, RONDO_DEVICE_EXECUTOR_COPY);
  DeviceRanks group(rank_count, config);
  Means<int64_t> means(group, 30'000, RONDO_INT64);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    means.write(seed);
    for (int rank = 0; rank < rank_count; ++rank) REQUIRE(means.call(RONDO_ALL_REDUCE, rank) == RONDO_OK);
    for (int rank = 0; rank < rank_count; ++rank) REQUIRE(rondo_comm_flush(group.ranks[rank]) == RONDO_OK);
    means.check(RONDO_ALL_REDUCE);
  }
}

TEST_CASE("device: communicators end while the division of a mean may still run") {
  for (int round = 0; round < 5; ++round) {
    DeviceRanks group(rank_count);
    Means<int64_t> means(group, 30'000, RONDO_INT64);
    for (int rank = 0; rank < rank_count; ++rank) REQUIRE(means.call(RONDO_ALL_REDUCE, rank) == RONDO_OK);
    for (int rank = 0; rank < rank_count; ++rank) {
      CHECK(rondo_comm_destroy(group.ranks[rank]) == RONDO_OK);
      group.ranks.forget(rank);
    }
    group.synchronize();
    means.check(RONDO_ALL_REDUCE);
  }
}
