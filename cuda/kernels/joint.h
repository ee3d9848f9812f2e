// SPDX-License-Identifier: Apache-2.0
// This file runs a collective of all ranks in one kernel, if the ranks are threads of one process on one device and
// share launches (cuda/executors/launch_group.h). The kernel runs after all earlier work on the streams of all ranks,
// and before later work of these streams. So no thread waits for a flag or a place, and the blocks need not be resident
// at once. The kernel reads each input once, in rank order, and writes each output once. Its results have the same bits
// as with load_store in shared buffers.
//
// Ordering  Ends of kernels order accesses to the buffers. All blocks do E2 (run.h) in rank 0's DeviceProgress, and
//           each rank has an E3. The kernel does not check how earlier kernels ended, because each rank's stream orders
//           its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/load_store_kernels.h"

namespace rondo::device {

/// The data of one rank in a joint kernel.
struct JointRank {
  const std::byte *send = nullptr;
  std::byte *recv = nullptr;
  DeviceProgress *progress = nullptr;
  DeviceResult *result = nullptr;
  uint64_t number = 0;  ///< number of its operation
};

/// The parameter of a joint kernel.
struct JointOperation {
  JointRank ranks[ranks_per_kernel_max];  ///< from rank_count on, copies of rank 0's entry
  uint64_t count = 0;                     ///< elements of the vector, or of a block
  uint32_t rank_count = 0;
  uint32_t block_count = 1;  ///< of the grid; if ranks have blocks of data, a multiple of rank_count
  uint32_t word_count = 0;   ///< for an all-reduce of a few aligned words of 8 bytes; otherwise 0
  uint32_t divisor = 0;
  LoadStoreCollective collective = LoadStoreCollective::all_reduce;
  uint32_t root = 0;
  uint32_t captured = 0;
  ReduceOp op = ReduceOp::sum;
};
static_assert(std::is_trivially_copyable_v<JointOperation> && std::is_standard_layout_v<JointOperation>);
static_assert(sizeof(JointRank) == 40 && sizeof(JointOperation) == 360 && offsetof(JointOperation, count) == 320);

/// Returns the shared memory of a block.
[[nodiscard]] RONDO_HD constexpr uint32_t joint_shared_bytes() {
  return shared_bytes_for(1, 0) + ranks_per_kernel_max * static_cast<uint32_t>(sizeof(PartBuffers));
}

/// This is false for small elements, each of which would need much code.
template <class Reduction>
inline constexpr bool has_joint_words = !is_copy<Reduction> && sizeof(typename Reduction::Storage) > 1;

/// Reduces words of an all-reduce, one per thread. The loads of all operands are in flight together.
template <class Reduction, Group G>
RONDO_HD void reduce_words(G group, const JointOperation &operation, uint32_t block) {
  const uint32_t last = operation.rank_count - 1;
  RONDO_KEEP_LOOP
  for (uint32_t word = block * group.size() + group.rank(); word < operation.word_count;
       word += operation.block_count * group.size()) {
    const size_t at = size_t{word} * word_bytes;
    const auto load = [&](uint32_t rank) {
      return load_aligned<uint64_t, sizeof(uint64_t)>(operation.ranks[rank].send + at);
    };
    uint64_t operands[ranks_per_kernel_max - 1];
    RONDO_UNROLL
    for (uint32_t rank = 0; rank < ranks_per_kernel_max - 1; ++rank) operands[rank] = load(rank);
    const uint64_t last_operand = load(last);
    auto partial = Reduction::begin(operands[0], operation.divisor);
    RONDO_UNROLL
    for (uint32_t rank = 1; rank < ranks_per_kernel_max - 1; ++rank)
      if (rank < last) partial = Reduction::add(partial, operands[rank], operation.divisor);
    const uint64_t result = Reduction::finish(partial, last_operand, operation.divisor);
    RONDO_UNROLL
    for (uint32_t rank = 0; rank < ranks_per_kernel_max; ++rank)
      if (rank <= last) store_aligned<sizeof(uint64_t)>(operation.ranks[rank].recv + at, result);
  }
}

/// Runs the part of thread block `block`. It is a part of the vector, or of one rank's block of data.
template <class Reduction, Group G>
RONDO_HD void run_joint_part(G group, const JointOperation &operation, uint32_t block, PartBuffers *buffers) {
  using Storage = typename Reduction::Storage;
  constexpr uint64_t chunk_elements = (uint64_t{1} << 30) / sizeof(Storage);  // so that their bytes fit into 32 bits
  const uint32_t rank_count = operation.rank_count;
  const uint32_t parts = has_blocks(operation.collective) ? operation.block_count / rank_count : operation.block_count;
  const SharedRoute route = make_route(operation.collective, rank_count, block / parts, operation.root,
                                       operation.count * sizeof(Storage));
  for (uint32_t which = group.rank(); which < rank_count; which += group.size()) {
    if (which < route.input_count)
      buffers[which].input = operation.ranks[route.first_input + which].send + route.input_block;
    if (which < route.output_count)
      buffers[which].output = operation.ranks[route.first_output + which].recv + route.output_block;
  }
  group.sync();
  const Range part = even_part({0, operation.count}, block % parts, parts,
                               static_cast<uint32_t>(device_line_bytes / sizeof(Storage)));
  RONDO_KEEP_LOOP
  for (uint64_t done = 0; done < part.count; done += chunk_elements) {
    const Range chunk = slice_of(part, done, chunk_elements);
    run_part<Reduction>(group, buffers, is_copy<Reduction> ? 1 : rank_count, route.output_count,
                        chunk.begin * sizeof(Storage), static_cast<uint32_t>(chunk.count), operation.divisor);
  }
}

/// Reports the start of a replay. Without it the host would not know of the replay, and might free memory that the
/// replay uses. Each thread's `ends` belongs to the rank with the thread's number.
template <Group G>
RONDO_HD void begin_joint(G group, const JointOperation &operation, const KernelEnds &ends) {
  if (operation.captured == 0) return;
  for (uint32_t rank = group.rank(); rank < operation.rank_count; rank += group.size()) {
    const JointRank &of = operation.ranks[rank];
    const uint64_t before = rank == group.rank() ? ends.kernels : of.progress->ended_kernels;
    memory::store_relaxed(of.result->running, before + 1);
  }
}

/// Reports the end to the host for every rank, in the block that ends last. Each thread's `ends` belongs to the rank
/// with the thread's number.
template <Group G>
RONDO_HD void end_joint(G group, const JointOperation &operation, const KernelEnds &ends) {
  if constexpr (memory::is_kept(memory::Site::load_store_end_barrier)) group.sync();  // results before their report
  if (operation.block_count > 1) {
    uint64_t &ended = operation.ranks[0].progress->ended_lanes;
    const bool is_last = group.rank() == 0 && memory::add_at_end<memory::Site::lane_end>(ended, 1) + 1 ==
                                                  operation.block_count;  // E2
    if (!group.any(is_last)) return;
    if (group.rank() == 0) memory::store_relaxed(ended, 0);  // the next kernel begins when this one has ended
  }
  for (uint32_t rank = group.rank(); rank < operation.rank_count; rank += group.size()) {
    const JointRank &of = operation.ranks[rank];
    const uint64_t ended = note_end(*of.progress, of.number, rank == group.rank() ? ends : load_ends(*of.progress));
    memory::store_at_end<memory::Site::operation_end>(of.result->ended, ended);  // E3, pairs with the host
  }
}

/// Moves all data of a block, and reports the start of a replay.
template <class Reduction, Group G>
RONDO_HD void run_joint_data(G group, const JointOperation &operation, uint32_t block, std::byte *shared,
                             const KernelEnds &ends) {
  if constexpr (has_joint_words<Reduction>) {
    if (operation.word_count != 0) {
      reduce_words<Reduction>(group, operation, block);
      if (block == 0) begin_joint(group, operation, ends);  // late, so that the loads of words do not wait for it
      return;
    }
  }
  if (block == 0) begin_joint(group, operation, ends);
  auto *const buffers = reinterpret_cast<PartBuffers *>(shared + shared_bytes_for(1, 0));
  run_joint_part<Reduction>(group, operation, block, buffers);
}

/// Runs all work of a block, by a RankReducer or RankCopy. `shared` is its shared memory, joint_shared_bytes(). The
/// operation is selected once, outside of all loops.
template <class Reducer, Group G>
RONDO_HD void run_joint(G group, const JointOperation &operation, uint32_t block, std::byte *shared) {
  KernelEnds ends{};  // loaded together with the operands, and used after the results
  if (group.rank() < operation.rank_count) ends = load_ends(*operation.ranks[group.rank()].progress);
  if constexpr (is_copy<Reducer>)
    run_joint_data<RankCopy>(group, operation, block, shared, ends);
  else
    with_reduction<Reducer>(operation.op, [&](auto reduction) {
      run_joint_data<decltype(reduction)>(group, operation, block, shared, ends);
    });
  end_joint(group, operation, ends);
}

}  // namespace rondo::device
