// SPDX-License-Identifier: Apache-2.0
// This file defines the parameters of kernels. They are plain data, with the same layout for the host's compiler and
// the device's compiler. A kernel that interprets plans takes DeviceOperations by value, with one operation for each
// rank that it runs. A kernel of load_store takes a LoadStoreOperation, and a kernel that only reduces takes a
// ReductionOperation. Memory to which a parameter points must stay until the kernel has ended.
//
//     uploaded with the plan      DeviceChannel[], LaneProgram[], Step[], Range[], DeviceLinkEnds *[]   read only
//     of the communicator         DeviceLinkEnds (counters survive from kernel to kernel), DeviceProgress
//     seen by the host            the abort word, DeviceResult
//
// Kernels of one communicator on one rank run one after another, because they share the ends of its links.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "src/proto/interpreter.h"
#include "src/proto/ll.h"
#include "src/proto/reducer.h"
#include "src/proto/simple.h"

namespace rondo::device {

/// This rank's ends of the two connections with one peer on one channel, in device memory. The host makes them with
/// device addresses, copies them to the device, and does not touch them after that.
struct DeviceLinkEnds {
  uint32_t peer = 0;
  uint32_t readable_kinds = 0;  ///< kind_bit(address) if the peer reads this rank's buffers at their addresses, or 0
  uint64_t orders = 1;  ///< 0: the peer is on the same device, so ends of kernels order callers' accesses (ll)
  SimpleSender simple_out;
  SimpleReceiver simple_in;
  LlSender ll_out;
  LlReceiver ll_in;
};
static_assert(std::is_trivially_copyable_v<DeviceLinkEnds> && std::is_standard_layout_v<DeviceLinkEnds>);
static_assert(sizeof(DeviceLinkEnds) == 216 && offsetof(DeviceLinkEnds, simple_out) == 16);
static_assert(offsetof(DeviceLinkEnds, simple_in) == 80 && offsetof(DeviceLinkEnds, ll_out) == 120);
static_assert(offsetof(DeviceLinkEnds, ll_in) == 176);

/// A channel of a plan. One block runs it.
struct DeviceChannel {
  const LaneProgram *lanes = nullptr;
  DeviceLinkEnds *const *links = nullptr;  ///< ends of each link, by link index
  uint32_t lane_count = 0;
  uint32_t link_count = 0;
};
static_assert(sizeof(DeviceChannel) == 24 && sizeof(LaneProgram) == 88 && alignof(LaneProgram) == 8);
static_assert(offsetof(LaneProgram, slot_elements) == 24 && offsetof(LaneProgram, partition) == 32);

enum class Outcome : uint32_t { done = 0, stopped = 1, fault = 2 };

/// The state that the blocks of a kernel share, in device memory. It is zero before a communicator's first kernel.
struct alignas(cache_line_bytes) DeviceProgress {
  uint64_t ended_lanes = 0;  ///< ended lanes of this kernel, plus failed_lanes for each report of a failure; the last
                             ///< lane resets it to 0
  uint64_t verdict = 0;      ///< 0, or pack_verdict() of the first failed lane. If not 0, counters are invalid, and no
                             ///< lane of this or a later kernel continues. But a one_shot of this kernel posts
  uint64_t told_verdict = 0;   ///< 1: a kernel has failed and ended, and has reported `verdict` to the host
  uint64_t posts = 0;          ///< ended one_shots of load_store; read in one access with `told_verdict` (A1)
  uint64_t ended_kernels = 0;
  uint64_t ended_number = 0;   ///< the greatest number of an ended operation
};
static_assert(sizeof(DeviceProgress) == cache_line_bytes && offsetof(DeviceProgress, told_verdict) % 16 == 0);
static_assert(offsetof(DeviceProgress, posts) == offsetof(DeviceProgress, told_verdict) + sizeof(uint64_t));
inline constexpr uint64_t failed_lanes = uint64_t{1} << 32;  ///< added to ended_lanes with each report of a failure

/// The values of DeviceProgress that a kernel takes over from the kernel before it. No thread writes them before the
/// last lane reports its end.
struct KernelEnds {
  uint64_t kernels;
  uint64_t number;
  uint64_t posts;
};
[[nodiscard]] RONDO_HD inline KernelEnds load_ends(const DeviceProgress &progress) {
  return {progress.ended_kernels, progress.ended_number, progress.posts};
}

/// Reports of ended kernels, in host memory that is zero at first. The host reads them while kernels run. Kernels never
/// read them. If all goes well and no group of threads (run.h) has to wait, a kernel writes one word, and a replay two.
/// Each group that has to wait writes one more word.
struct alignas(cache_line_bytes) DeviceResult {
  uint64_t ended = 0;          ///< pack_ended(); stored last
  uint64_t verdict = 0;        ///< DeviceProgress::verdict: for outcome_in(), fault_in(), peer_in()
  uint64_t failed_number = 0;  ///< number of the first failed operation
  uint64_t running = 0;        ///< number, from 1, of the latest kernel that had to wait or is a replay
};
static_assert(sizeof(DeviceResult) == cache_line_bytes);

/// Packs the low halves of two numbers: the last ended operation, and how many kernels have ended. The count of kernels
/// distinguishes replays of a captured kernel. A reader that has seen earlier values recovers the whole numbers with
/// extended().
[[nodiscard]] RONDO_HD constexpr uint64_t pack_ended(uint64_t number, uint64_t kernels) {
  return (kernels & 0xFFFF'FFFFu) << 32 | (number & 0xFFFF'FFFFu);
}
[[nodiscard]] constexpr uint32_t number_in(uint64_t ended) { return static_cast<uint32_t>(ended); }
[[nodiscard]] constexpr uint32_t kernels_in(uint64_t ended) { return static_cast<uint32_t>(ended >> 32); }
/// Returns the count that has the low half `low` and is nearest to `seen`, a count that was seen before.
[[nodiscard]] constexpr uint64_t extended(uint64_t seen, uint32_t low) {
  return seen + static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(low - static_cast<uint32_t>(seen))));
}

[[nodiscard]] RONDO_HD constexpr uint64_t pack_verdict(Outcome outcome, Fault fault, uint32_t peer) {
  return uint64_t{peer} << 32 | static_cast<uint64_t>(fault) << 8 | static_cast<uint64_t>(outcome);
}
[[nodiscard]] constexpr Outcome outcome_in(uint64_t verdict) { return static_cast<Outcome>(verdict & 0xFF); }
[[nodiscard]] constexpr Fault fault_in(uint64_t verdict) { return static_cast<Fault>(verdict >> 8 & 0xFF); }
[[nodiscard]] constexpr uint32_t peer_in(uint64_t verdict) { return static_cast<uint32_t>(verdict >> 32); }

/// The value of the host's abort word that stops the operation.
inline constexpr uint64_t abort_operation = 1;
/// Returns the abort word that also makes kernel `kernel` of this rank stop waiting for ranks to leave. The first
/// kernel has number 1. Ranks that have not left by then are lost.
[[nodiscard]] constexpr uint64_t abort_lost_peers(uint64_t kernel) { return kernel << 1 | abort_operation; }
[[nodiscard]] RONDO_HD constexpr uint64_t kernel_of_lost_peers(uint64_t abort) { return abort >> 1; }

/// An operation of one rank. Each of its channels is run by one block.
struct DeviceOperation {
  const DeviceChannel *channels = nullptr;
  const uint64_t *abort = nullptr;  ///< in host memory: 0, or what must stop
  DeviceProgress *progress = nullptr;
  DeviceResult *result = nullptr;
  Buffers buffers;  ///< device addresses; buffers are exported only to peers in the same address space
  uint64_t number = 0;         ///< number of the operation, at least 1
  uint32_t divisor = 0;        ///< number of ranks for avg; otherwise 0
  uint32_t lane_count = 0;     ///< lanes of all channels
  uint32_t scratch_bytes = 0;  ///< bytes of each of a lane's scratch_count pieces of scratch; 0 with `simple`
  uint32_t poll_count = 1;     ///< reads of a flag before a wait counts as long, at least 1
  uint16_t captured = 0;       ///< 1: the host does not know of each launch, so the kernel reports its start
  uint16_t on_one_device = 0;  ///< 1: all ranks are threads of one process on one device
  ReduceOp op = ReduceOp::sum;  ///< for kernels that do not have it in their names
};
static_assert(std::is_trivially_copyable_v<DeviceOperation> && std::is_standard_layout_v<DeviceOperation>);
static_assert(sizeof(Window) == 72 && offsetof(Window, handle) == 16 && sizeof(Buffers) == 152);
static_assert(sizeof(DeviceOperation) == 216 && alignof(DeviceOperation) == 8);
static_assert(offsetof(DeviceOperation, buffers) == 32 && offsetof(DeviceOperation, number) == 184);
static_assert(offsetof(DeviceOperation, divisor) == 192 && offsetof(DeviceOperation, poll_count) == 204);
static_assert(offsetof(DeviceOperation, captured) == 208 && offsetof(DeviceOperation, on_one_device) == 210);
static_assert(offsetof(DeviceOperation, op) == 212);

/// The most ranks whose operations fit into the parameters of a kernel, which are limited to 4 KiB.
inline constexpr uint32_t ranks_per_kernel_max = 8;

/// The parameter of a kernel: the operations of ranks that have the same number of channels. Their blocks follow each
/// other in the grid.
struct DeviceOperations {
  uint32_t channel_count = 1;  ///< of each operation
  DeviceOperation operations[ranks_per_kernel_max];

  [[nodiscard]] RONDO_HD const DeviceOperation &of_block(uint32_t block) const {
    return operations[block / channel_count];
  }
  [[nodiscard]] RONDO_HD uint32_t channel_of_block(uint32_t block) const { return block % channel_count; }
};
static_assert(std::is_trivially_copyable_v<DeviceOperations> && std::is_standard_layout_v<DeviceOperations>);
static_assert(sizeof(DeviceOperations) == 8 + ranks_per_kernel_max * sizeof(DeviceOperation));
static_assert(offsetof(DeviceOperations, operations) == 8 && sizeof(DeviceOperations) <= 4096);

// The shared memory of a block has pieces of scratch and one line for each lane of its channel. The line belongs to the
// lane's group: an emulated block keeps its barrier there, while a device has hardware barriers.
inline constexpr uint32_t lanes_per_channel_max = 4;
inline constexpr uint32_t lane_control_bytes = 64;
inline constexpr uint32_t scratch_count = 3;  ///< two operands, one result

/// Returns the scratch in bytes for a payload of `ll`. It holds whole pairs of units and is 16-byte aligned.
[[nodiscard]] constexpr uint32_t ll_scratch_bytes_for(uint32_t ll_slot_bytes) {
  return (ll_slot_bytes + 15) / 16 * 16;
}
/// Returns the shared memory of a block in bytes. `lane_count` is the largest number of lanes in a channel of the plan.
[[nodiscard]] RONDO_HD constexpr uint32_t shared_bytes_for(uint32_t lane_count, uint32_t scratch_bytes) {
  return lane_count * (lane_control_bytes + scratch_count * scratch_bytes);
}

}  // namespace rondo::device
