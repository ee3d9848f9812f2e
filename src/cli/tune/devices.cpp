// SPDX-License-Identifier: Apache-2.0
// This file says what `rondo tune --device` measures on the devices of this host.
#include <algorithm>
#include <cstdio>
#include <span>

#include "cuda/driver/driver.h"
#include "src/cli/tune/runs.h"
#include "src/console/command_line.h"
#include "src/plan/schedule.h"
#include "src/plan/tuner.h"

namespace rondo::cli::tune {
namespace {

// The most that a one_shot of load_store takes among threads on one device, and among other ranks, which may push.
constexpr uint64_t post_bytes_max = 64 * KiB, pushed_post_bytes_max = 32 * KiB;

void add_interpreted(std::vector<Candidate> &list, const Algorithm &algorithm, bool quick) {
  for (const uint64_t chunk_bytes : {64 * KiB, 256 * KiB}) {
    if (quick && chunk_bytes != 64 * KiB) continue;
    list.push_back({{algorithm.id, RONDO_PROTOCOL_SIMPLE, 0, chunk_bytes, RONDO_KERNEL_INTERPRETER}});
  }
  list.push_back({{algorithm.id, RONDO_PROTOCOL_LL, 0, 16 * KiB, RONDO_KERNEL_INTERPRETER}, 0, ll_bytes_max});
}

void add_load_store(std::vector<Candidate> &list, const Group &group, bool quick) {
  const bool all_reduce = group.collective == RONDO_ALL_REDUCE;
  const auto candidate = [](rondo_algorithm_t algorithm, uint32_t blocks_max) {
    return Candidate{{algorithm, RONDO_PROTOCOL_AUTO, 0, 0, RONDO_KERNEL_LOAD_STORE}, blocks_max};
  };
  for (const uint32_t blocks_max : {0u, 64u, 16u, 4u, 1u}) {
    if (quick && blocks_max != 0 && blocks_max != 4) continue;
    const rondo_algorithm_t whole = all_reduce ? RONDO_ALGORITHM_TWO_SHOT : load_store_algorithm(group.collective);
    if (all_reduce) {
      list.push_back(candidate(RONDO_ALGORITHM_ONE_SHOT, blocks_max));
      list.back().bytes_max = group.buffers == BufferPlace::shared_device ? post_bytes_max : pushed_post_bytes_max;
    }
    list.push_back(candidate(whole, blocks_max));
  }
}

/// Returns the devices that ranks use in turn.
Result<std::vector<int>> ordinals_of(const Options &options, const cuda::CudaDriver &driver) {
  std::vector<int> ordinals = console::parse_cuda_devices(options.device).value_or(std::vector<int>{0});
  if (!ordinals.empty()) return ordinals;
  RONDO_TRY_ASSIGN(const auto devices, cuda::cuda_devices(driver));
  for (const cuda::CudaDevice &device : devices) ordinals.push_back(device.ordinal);
  return ordinals;
}

/// Says whether this number of ranks uses several devices, with native atomics between each two of them. Only then can
/// threads on different devices share their buffers.
bool are_linked(const cuda::CudaDriver &driver, std::span<const int> ordinals, uint32_t rank_count) {
  const auto used = ordinals.first(std::min<size_t>(rank_count, ordinals.size()));
  bool several = false;
  for (const int from : used)
    for (const int to : used) {
      if (from != to && !cuda::has_native_atomics(driver, from, to)) return false;
      several = several || from != to;
    }
  return several;
}

}  // namespace

std::vector<Candidate> device_candidates(const Group &group, bool quick) {
  std::vector<Candidate> list{{}};
  for (const Algorithm &algorithm : algorithms()) {
    const bool hierarchical =
        algorithm.id == RONDO_ALGORITHM_HIERARCHICAL || algorithm.id == RONDO_ALGORITHM_HIERARCHICAL_TREE;
    if (hierarchical || !algorithm.supports(group.collective) || group.rank_count > algorithm.rank_count_max) continue;
    add_interpreted(list, algorithm, quick);
  }
  add_load_store(list, group, quick);
  return list;
}

Result<std::vector<Group>> device_groups(const Options &options, const Config &config) {
  RONDO_TRY_ASSIGN(const cuda::CudaDriver *const driver, cuda::cuda_driver(config.cuda_library));
  RONDO_TRY_ASSIGN(const std::vector<int> ordinals, ordinals_of(options, *driver));
  std::vector<Group> groups;
  for (const BufferPlace buffers : {BufferPlace::device, BufferPlace::shared_device, BufferPlace::peer_devices})
    for (const uint32_t rank_count : options.rank_counts)
      for (const rondo_collective_t collective : options.collectives)
        if (buffers != BufferPlace::peer_devices || are_linked(*driver, ordinals, rank_count))
          groups.push_back({collective, rank_count, false, buffers});
  const bool can_share = config.device_executor != RONDO_DEVICE_EXECUTOR_COPY &&
                         config.device_launch != DeviceLaunch::shared;
  if (!can_share) {
    std::fputs(
        "rondo tune: measures no ranks as threads, because with these settings one kernel runs them, or copies do\n",
        stderr);
    std::erase_if(groups, [](const Group &group) { return group.buffers != BufferPlace::device; });
  }
  std::erase_if(groups, [&](const Group &group) { return sizes_of(options, group, {}).empty(); });
  if (groups.empty()) return invalid_argument("--sizes: all are smaller than an element of each rank");
  return groups;
}

}  // namespace rondo::cli::tune
