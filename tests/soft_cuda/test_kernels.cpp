// SPDX-License-Identifier: Apache-2.0
// This file has kernels for tests of the driver in software itself, and for device_costs.
#include "tests/soft_cuda/test_kernels.h"

#include <atomic>
#include <chrono>

#include "tests/soft_cuda/soft_kernel.h"

namespace soft_cuda {
namespace {

/// Writes each thread's share of the grid.
void fill(Block &block, uint32_t thread, void *const *parameters) {
  const auto &given = *static_cast<const FillParameters *>(parameters[0]);
  const uint64_t stride = uint64_t{block.grid_size} * block.thread_count;
  for (uint64_t i = uint64_t{block.index} * block.thread_count + thread; i < given.count; i += stride)
    given.to[i] = given.value + i;
}

/// Waits, by one thread, until the word is `value` or more.
void await(Block &block, uint32_t thread, void *const *parameters) {
  const auto &given = *static_cast<const AwaitParameters *>(parameters[0]);
  if (block.index != 0 || thread != 0) return;
  // acquire; pairs with the release of the driver's write value, or of a test
  while (std::atomic_ref(*given.word).load(std::memory_order_acquire) < given.value)
    block.give_way(Waiting::for_others);
}

/// Waits in every block until all blocks of the grid have arrived, so all blocks must be resident together.
void meet(Block &block, uint32_t thread, void *const *parameters) {
  const auto &given = *static_cast<const BarrierParameters *>(parameters[0]);
  if (thread != 0) return;
  const std::atomic_ref arrived(*given.arrived);
  arrived.fetch_add(1, std::memory_order_acq_rel);  // pairs with the loads below, in the other blocks
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(barrier_patience_ns);
  while (arrived.load(std::memory_order_acquire) < block.grid_size + given.more) {
    if (std::chrono::steady_clock::now() > end) {
      arrived.fetch_add(barrier_gave_up, std::memory_order_relaxed);  // relaxed: read when the kernel has ended
      return;
    }
    block.give_way(Waiting::for_others);
  }
}

/// Counts the threads of a block: each adds itself to the block's count, which is in shared memory and was zeroed.
void count_threads(Block &block, uint32_t, void *const *parameters) {
  const auto &given = *static_cast<const CountParameters *>(parameters[0]);
  const std::atomic_ref count(*reinterpret_cast<uint64_t *>(block.shared));
  const uint64_t before = count.fetch_add(1, std::memory_order_acq_rel);  // pairs with itself in the other threads
  if (before + 1 == block.thread_count) given.counts[block.index] = before + 1;
}

void nothing(Block &, uint32_t, void *const *) {}

/// Meets the kernels of other streams, by one thread that posts and polls all words.
void meet_streams(Block &block, uint32_t thread, void *const *parameters) {
  const auto &given = *static_cast<const MeetParameters *>(parameters[0]);
  if (block.index != 0 || thread != 0) return;
  // All accesses are relaxed, because only values count.
  const auto word = [&](uint64_t stream) { return std::atomic_ref(given.words[stream * meet_stride]); };
  const std::atomic_ref gave_up(*given.gave_up), ended(given.words[given.stream * meet_stride + meet_ended]);
  const uint64_t number = ended.load(std::memory_order_relaxed) + 1;
  word(given.stream).store(number, std::memory_order_relaxed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::nanoseconds(meet_patience_ns);
  for (uint64_t stream = 0; stream < given.count; ++stream)
    while (word(stream).load(std::memory_order_relaxed) < number) {
      if (gave_up.load(std::memory_order_relaxed) != 0 || std::chrono::steady_clock::now() > end) {
        gave_up.store(1, std::memory_order_relaxed);
        break;
      }
      block.give_way(Waiting::for_others);
    }
  ended.store(number, std::memory_order_relaxed);
}

void store(Block &block, uint32_t thread, void *const *parameters) {
  const auto &given = *static_cast<const StoreParameters *>(parameters[0]);
  if (block.index != 0 || thread != 0) return;
  // No thread waits for these stores. On a device, a release among them takes the time that is measured.
  const auto order = given.order == StoreOrder::relaxed ? std::memory_order_relaxed : std::memory_order_release;
  for (uint64_t round = 1; round <= given.round_count; ++round) {
    if (given.pending != nullptr) std::atomic_ref(*given.pending).store(round, std::memory_order_relaxed);
    std::atomic_ref(*given.word).store(round, order);
  }
}

void read(Block &block, uint32_t thread, void *const *parameters) {
  const auto &given = *static_cast<const ReadParameters *>(parameters[0]);
  if (block.index != 0 || thread != 0) return;
  uint64_t at = 0;
  for (uint64_t round = 0; round < given.round_count; ++round)
    at = std::atomic_ref(given.words[at]).load(std::memory_order_relaxed);  // written before the launch
  *given.last = at;
}

void pair(Block &block, uint32_t thread, void *const *parameters) {
  const auto &given = *static_cast<const PairParameters *>(parameters[0]);
  if (block.index > 1 || thread != 0) return;
  const bool ordered = given.ordered != 0;
  // release and acquire pair with each other, in the two blocks
  const auto release = ordered ? std::memory_order_release : std::memory_order_relaxed;
  const auto acquire = ordered ? std::memory_order_acquire : std::memory_order_relaxed;
  const std::atomic_ref own(given.words[block.index * pair_stride]);
  const std::atomic_ref other(given.words[(1 - block.index) * pair_stride]);
  for (uint64_t round = 1; round <= given.round_count; ++round) {
    if (block.index == 0) other.store(round, release);
    for (uint64_t polls = 0; own.load(acquire) != round; ++polls) {
      if (polls == pair_polls_max) return;
      block.give_way(Waiting::for_others);
    }
    if (block.index == 1) other.store(round, release);
  }
}

void copy(Block &block, uint32_t thread, void *const *parameters) {
  const auto &given = *static_cast<const ReductionParameters *>(parameters[0]);
  const uint64_t stride = uint64_t{block.grid_size} * block.thread_count;
  for (uint64_t i = uint64_t{block.index} * block.thread_count + thread; i < given.count; i += stride)
    given.targets[0][i] = given.sources[0][i];
}

void reduce(Block &block, uint32_t thread, void *const *parameters) {
  const auto &given = *static_cast<const ReductionParameters *>(parameters[0]);
  const uint64_t stride = uint64_t{block.grid_size} * block.thread_count;
  for (uint64_t i = uint64_t{block.index} * block.thread_count + thread; i < given.count; i += stride) {
    Quad sum = given.sources[0][i];
    for (uint32_t way = 1; way < ReductionParameters::ways; ++way)
      for (uint32_t part = 0; part < 4; ++part) sum.values[part] += given.sources[way][i].values[part];
    for (Quad *const target : given.targets) target[i] = sum;
  }
}

}  // namespace
}  // namespace soft_cuda

extern "C" __attribute__((visibility("default"))) const soft_cuda::KernelEntry *soft_cuda_kernels() {
  using namespace soft_cuda;
  static constexpr KernelEntry entries[] = {{"test_fill", fill, sizeof(FillParameters)},
                                            {"test_await", await, sizeof(AwaitParameters)},
                                            {"test_barrier", meet, sizeof(BarrierParameters)},
                                            {"test_count_threads", count_threads, sizeof(CountParameters)},
                                            {"cost_nothing", nothing, sizeof(NothingParameters)},
                                            {"cost_nothing_large", nothing, sizeof(LargeParameters)},
                                            {"cost_nothing_early", nothing, sizeof(NothingParameters)},
                                            {"cost_meet", meet_streams, sizeof(MeetParameters)},
                                            {"cost_meet_early", meet_streams, sizeof(MeetParameters)},
                                            {"cost_store", store, sizeof(StoreParameters)},
                                            {"cost_read", read, sizeof(ReadParameters)},
                                            {"cost_pair", pair, sizeof(PairParameters)},
                                            {"cost_copy", copy, sizeof(ReductionParameters)},
                                            {"cost_reduce", reduce, sizeof(ReductionParameters)},
                                            {nullptr, nullptr, 0}};
  return entries;
}
