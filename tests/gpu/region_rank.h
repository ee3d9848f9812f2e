// SPDX-License-Identifier: Apache-2.0
// This file has the data of a rank of region_rank.cpp, and its sums: an all-reduce or another collective. A result must
// have the bits of a reduction in rank order. If a tree reduces, it must have the bits of the host's tree. The sums
// also report how much their kernels have moved.
#pragma once

#include <barrier>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/gpu/busy_device.h"
#include "tests/gpu/device_case.h"
#include "tests/gpu/device_process.h"
#include "tests/soft_cuda/soft_cuda.h"
#include "tests/unit/ranks.h"

namespace rondo_test {

using rondo::cuda::CudaDriver;
using rondo::cuda::CuStatus;
using rondo::cuda::DeviceMemory;
using rondo::cuda::GraphExec;
using rondo::cuda::Stream;

inline constexpr uint32_t region_device_count_max = 8;

/// The process whose threads are the ranks. A rank that fails leaves the barrier `together`.
struct Process {
  explicit Process(int threads) : thread_count(threads), together(threads) {}
  const int thread_count;
  std::barrier<> together;
  double moved = 0;  ///< by all ranks in the latest sum, for each byte of the vector
};

struct RegionRank {
  Process *process = nullptr;
  int thread = 0;
  DeviceProcess self;  ///< its buffer is the send buffer
  DeviceMemory recv;
  rondo_registration_t registrations[2] = {};
  GraphExec graph;
  rondo_comm_t other = nullptr;
  Stream other_stream;
  DeviceMemory other_buffer;
  int round = 0;
  rondo_collective_t collective = RONDO_ALL_REDUCE;
  BusyDevice busy;

  [[nodiscard]] void *pointer(const DeviceMemory &of) const { return reinterpret_cast<void *>(of.get().object); }
  [[nodiscard]] size_t bytes() const { return self.count * sizeof(float); }
  /// Returns the rank's call. The last rank is the root.
  [[nodiscard]] DeviceCase a_call() const {
    DeviceCase made{collective};
    made.root = self.size - 1;
    made.count = in_blocks(collective) ? self.count / static_cast<size_t>(self.size) : self.count;
    return made;
  }
};

inline std::vector<float> values_of(const RegionRank &it, int rank) {
  std::mt19937 random(static_cast<uint32_t>(100 * it.round + rank));
  std::uniform_real_distribution<float> values(-1, 1);
  std::vector<float> made(it.self.count);
  for (float &value : made) value = values(random);
  return made;
}

inline int call(const RegionRank &it) {
  return call(it.a_call(), it.self.rank, it.self.comm, it.self.stream.get().object,
              static_cast<std::byte *>(it.pointer(it.self.buffer)), static_cast<std::byte *>(it.pointer(it.recv)));
}

inline rondo_plan_info_t plan_of(const RegionRank &it) {
  rondo_plan_info_t plan = RONDO_PLAN_INFO_INIT;
  static_cast<void>(rondo_comm_query_plan(it.self.comm, it.collective, it.a_call().count, RONDO_FLOAT32, &plan));
  return plan;
}

/// Returns the all-reduce of ranks on host memory, which are threads of this process, by the same plan.
inline std::vector<float> all_reduced_on_host(const RegionRank &it, const rondo_plan_info_t &plan) {
  rondo_config_t config = RONDO_CONFIG_INIT;
  config.algorithm = plan.algorithm;
  config.protocol = plan.protocol;
  config.channels = plan.channels;
  config.chunk_bytes = plan.chunk_bytes;
  Ranks host(it.self.size, config);
  if (host.status() != RONDO_OK) return {};
  std::vector<std::vector<float>> values;
  for (int rank = 0; rank < it.self.size; ++rank) values.push_back(values_of(it, rank));
  static_cast<void>(host.run([&](int rank, rondo_comm_t comm) {
    float *const of = values[static_cast<size_t>(rank)].data();
    return rondo_all_reduce(of, of, it.self.count, RONDO_FLOAT32, RONDO_SUM, comm, nullptr);
  }));
  return values[static_cast<size_t>(it.self.rank)];
}

/// Returns what a rank must receive, reduced in rank order unless a tree reduces.
inline std::vector<float> expected_of(const RegionRank &it) {
  const DeviceCase made = it.a_call();
  const auto own = static_cast<size_t>(it.self.rank);
  const bool is_root = it.self.rank == made.root;
  std::vector<float> expected;
  const auto append_block = [&](int from, size_t block) {
    const auto theirs = values_of(it, from);
    const auto begin = theirs.begin() + static_cast<std::ptrdiff_t>(block * made.count);
    expected.insert(expected.end(), begin, begin + static_cast<std::ptrdiff_t>(made.count));
  };
  if (it.collective == RONDO_BROADCAST) return values_of(it, made.root);
  if ((it.collective == RONDO_REDUCE || it.collective == RONDO_GATHER) && !is_root) return expected;
  if (it.collective == RONDO_SCATTER) return append_block(made.root, own), expected;
  if (it.collective == RONDO_ALL_GATHER || it.collective == RONDO_GATHER || it.collective == RONDO_ALL_TO_ALL) {
    for (int rank = 0; rank < it.self.size; ++rank)
      append_block(rank, it.collective == RONDO_ALL_TO_ALL ? own : 0);
    return expected;
  }
  if (it.collective == RONDO_ALL_REDUCE)
    if (const auto plan = plan_of(it); plan.algorithm == RONDO_ALGORITHM_TREE) return all_reduced_on_host(it, plan);
  expected = values_of(it, 0);
  for (int rank = 1; rank < it.self.size; ++rank) {
    const auto theirs = values_of(it, rank);
    for (size_t i = 0; i < theirs.size(); ++i) expected[i] += theirs[i];
  }
  if (it.collective == RONDO_REDUCE_SCATTER) {
    expected.erase(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(own * made.count));
    expected.resize(made.count);
  }
  return expected;
}

inline int fill(RegionRank &it) {
  ++it.round;
  const auto values = values_of(it, it.self.rank);
  const CudaDriver &cu = *it.self.cu;
  auto *const stream = it.self.stream.get().object;
  const bool copied = cu.memcpy_htod_async(it.self.buffer.get().object, values.data(), it.bytes(), stream) ==
                          CuStatus::success &&
                      cu.stream_synchronize(stream) == CuStatus::success;
  return copied ? int{RONDO_OK} : driver_failed;
}

/// Waits for the stream, and checks the result.
inline int check(RegionRank &it) {
  std::vector<float> received(it.self.count);
  const CudaDriver &cu = *it.self.cu;
  auto *const stream = it.self.stream.get().object;
  const CuStatus copied = cu.memcpy_dtoh_async(received.data(), it.recv.get().object, it.bytes(), stream);
  const CuStatus ended = cu.stream_synchronize(stream);
  rondo_status_t state = RONDO_OK;
  if (rondo_comm_get_async_error(it.self.comm, &state) != RONDO_OK || state != RONDO_OK) return state;
  if (copied != CuStatus::success || ended != CuStatus::success) return driver_failed;
  const std::vector<float> expected = expected_of(it);
  const bool only_root = it.collective == RONDO_REDUCE || it.collective == RONDO_GATHER;
  const bool right = expected.empty()
                         ? only_root && it.self.rank != it.a_call().root
                         : std::memcmp(received.data(), expected.data(), expected.size() * sizeof(float)) == 0;
  return right ? int{RONDO_OK} : wrong_value;
}

/// Computes how many bytes the kernels have moved. Unless `label` is null, prints the figures with this label.
inline void show_moved(const RegionRank &it, uint64_t (*moved)(uint32_t, uint32_t), const char *label) {
  std::string line = label == nullptr ? "" : "moved " + std::string(label);
  it.process->moved = 0;
  for (uint32_t from = 0; from < region_device_count_max; ++from)
    for (uint32_t to = 0; to < region_device_count_max; ++to) {
      const double share = static_cast<double>(moved(from, to)) / static_cast<double>(it.bytes());
      if (from == to) it.process->moved += share;
      line += " " + std::to_string(share);
    }
  if (label != nullptr) std::printf("%s\n", line.c_str());
}

inline int sum(RegionRank &it, const char *label, bool replayed) {
  if (const int filled = fill(it); filled != RONDO_OK) return filled;
  const std::string &library = it.self.cu->library;
  auto *const count = soft_cuda_function<void(uint32_t)>(library, "soft_cuda_count_accesses");
  auto *const moved = soft_cuda_function<uint64_t(uint32_t, uint32_t)>(library, "soft_cuda_moved_bytes");
  Process &process = *it.process;
  if (count != nullptr && it.thread == 0) count(1);
  process.together.arrive_and_wait();
  int status = RONDO_OK;
  if (!replayed)
    status = call(it);
  else if (it.self.cu->graph_launch(it.graph.get().object, it.self.stream.get().object) != CuStatus::success)
    status = driver_failed;
  if (status == RONDO_OK) status = check(it);
  if (moved == nullptr || status != RONDO_OK) return status;
  process.together.arrive_and_wait();
  if (it.thread == 0) {
    show_moved(it, moved, label);
    count(0);
  }
  process.together.arrive_and_wait();
  return RONDO_OK;
}

}  // namespace rondo_test
