// SPDX-License-Identifier: Apache-2.0
// This file has a block whose threads are host threads, or fibers of one host thread (fibers.h). The bodies of
// cuda/kernels run on it, and it has a real barrier. On host threads, ThreadSanitizer finds a missing barrier or
// release. On fibers, a missing barrier shows if a thread that runs ahead causes a wrong result.
#pragma once

#include <atomic>
#include <cassert>
#include <cstdint>

#include "cuda/kernels/joint.h"
#include "cuda/kernels/load_store_kernels.h"
#include "cuda/kernels/reduction.h"
#include "cuda/kernels/run.h"
#include "tests/soft_cuda/soft_kernel.h"

namespace soft_cuda {

/// Waits by calling `give_way` of a block.
template <class Policy = rondo::memory::Policy>
void wait_for(Waiting waiting, void (*give_way)(Waiting)) {
  if constexpr (requires { Policy::counter; }) {
    auto *const mine = Policy::counter;  // all fibers of the host thread share the pointer, and each sets it
    give_way(waiting);
    Policy::counter = mine;
  } else {
    give_way(waiting);
  }
}

/// A barrier with a vote, in zeroed memory.
struct VotingBarrier {
  uint32_t arrived;
  uint32_t generation;
  uint32_t votes[2];  ///< for the even and the odd generations

  /// Waits at the barrier. If the barrier is not `ordered`, threads only meet there, and accesses have no order.
  template <bool ordered = true>
  bool wait(uint32_t thread_count, bool vote, void (*give_way)(Waiting)) {
    constexpr auto acquire = ordered ? std::memory_order_acquire : std::memory_order_relaxed;
    constexpr auto release = ordered ? std::memory_order_release : std::memory_order_relaxed;
    constexpr auto arrive = ordered ? std::memory_order_acq_rel : std::memory_order_relaxed;
    std::atomic_ref<uint32_t> generation_ref(generation);
    const uint32_t mine = generation_ref.load(acquire);  // pairs with the release below
    std::atomic_ref<uint32_t> votes_ref(votes[mine % 2]);
    if (vote) votes_ref.store(1, std::memory_order_relaxed);  // ordered by arrived
    std::atomic_ref<uint32_t> arrived_ref(arrived);
    if (arrived_ref.fetch_add(1, arrive) + 1 == thread_count) {  // pairs with the others' arrival
      arrived_ref.store(0, std::memory_order_relaxed);           // ordered by generation
      // All threads have read the votes of the previous generation, because they have arrived since.
      std::atomic_ref<uint32_t>(votes[(mine + 1) % 2]).store(0, std::memory_order_relaxed);
      generation_ref.store(mine + 1, release);  // pairs with the acquires
    }
    while (generation_ref.load(acquire) == mine) wait_for(Waiting::at_barrier, give_way);
    return votes_ref.load(std::memory_order_relaxed) != 0;
  }
};
static_assert(sizeof(VotingBarrier) <= rondo::device::lane_control_bytes);

struct EmulatedGroup {
  VotingBarrier *barrier;
  uint32_t thread;
  uint32_t thread_count;
  void (*give_way)(Waiting);  ///< Block::give_way of the block

  [[nodiscard]] uint32_t rank() const { return thread; }
  [[nodiscard]] uint32_t size() const { return thread_count; }
  void sync() const { (void)any(false); }
  [[nodiscard]] bool any(bool vote) const { return meet<true>(vote); }
  [[nodiscard]] bool any_unordered(bool vote) const { return meet<false>(vote); }
  void relax() const { wait_for(Waiting::for_others, give_way); }
  void pause() const { relax(); }

 private:
  template <bool ordered>
  [[nodiscard]] bool meet(bool vote) const {
    return thread_count > 1 ? barrier->wait<ordered>(thread_count, vote, give_way) : vote;
  }
};
static_assert(rondo::Group<EmulatedGroup>);

/// Runs a kernel for one thread of a block, like run_block() of cuda/kernels/kernels.cu. If there are fewer threads
/// than lanes, a thread runs several lanes in turn.
template <class Protocol, class Reducer>
void run_emulated(Block &block, uint32_t thread, void *const *parameters) {
  using namespace rondo::device;
  const auto &operations = *static_cast<const DeviceOperations *>(parameters[0]);
  const DeviceOperation &operation = operations.of_block(block.index);
  const DeviceChannel &channel = operation.channels[operations.channel_of_block(block.index)];
  assert(block.shared_bytes >= shared_bytes_for(channel.lane_count, operation.scratch_bytes));
  if (channel.lane_count == 0) return;
  const uint32_t groups = block.thread_count < channel.lane_count ? block.thread_count : channel.lane_count;
  const uint32_t size = block.thread_count / groups;
  const uint32_t first = thread / size;
  if (first >= groups) return;
  auto *const barrier = reinterpret_cast<VotingBarrier *>(block.shared + first * lane_control_bytes);
  run_lanes<Protocol, lanes_per_channel_max>(EmulatedGroup{barrier, thread % size, size, block.give_way}, operation,
                                             channel, first, groups, make_reducer<Reducer>(operation, channel),
                                             block.shared);
}

/// Runs a kernel of load_store. All threads of a block are one group.
template <class Reduction, bool one_shot = false>
void run_load_store_emulated(Block &block, uint32_t thread, void *const *parameters) {
  using namespace rondo::device;
  const auto &operation = *static_cast<const LoadStoreOperation *>(parameters[0]);
  assert(block.shared_bytes >= load_store_shared_bytes(operation.rank_count()));
  auto *const barrier = reinterpret_cast<VotingBarrier *>(block.shared);
  const EmulatedGroup group{barrier, thread, block.thread_count, block.give_way};
  if constexpr (one_shot)
    run_one_shot<Reduction>(group, operation, block.index, block.shared);
  else
    run_load_store<Reduction>(group, operation, block.index, block.shared);
}

template <class Reduction>
void run_joint_emulated(Block &block, uint32_t thread, void *const *parameters) {
  using namespace rondo::device;
  assert(block.shared_bytes >= joint_shared_bytes());
  auto *const barrier = reinterpret_cast<VotingBarrier *>(block.shared);
  run_joint<Reduction>(EmulatedGroup{barrier, thread, block.thread_count, block.give_way},
                       *static_cast<const JointOperation *>(parameters[0]), block.index, block.shared);
}

/// The threads of a launch, for kernels without a barrier.
struct EmulatedGrid {
  uint32_t thread;
  uint32_t thread_count;

  [[nodiscard]] uint32_t rank() const { return thread; }
  [[nodiscard]] uint32_t size() const { return thread_count; }
  void sync() const {}
  [[nodiscard]] bool any(bool vote) const { return vote; }
};

template <class Reducer>
void reduce_emulated(Block &block, uint32_t thread, void *const *parameters) {
  const EmulatedGrid grid{block.index * block.thread_count + thread, block.grid_size * block.thread_count};
  rondo::device::reduce<Reducer>(grid, *static_cast<const rondo::device::ReductionOperation *>(parameters[0]));
}

}  // namespace soft_cuda
