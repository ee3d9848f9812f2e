// SPDX-License-Identifier: Apache-2.0
// This file makes the image of a plan that a kernel reads: one piece of memory with everything that does not change
// from call to call. An image is valid at one device address. The file also finds the kernel that runs a plan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cuda/kernels/load_store_wait.h"
#include "cuda/kernels/operation.h"
#include "src/base/result.h"
#include "src/plan/plan.h"

namespace rondo::device {

struct PlanImage {
  std::vector<std::byte> bytes;    ///< valid at the address for which it was made; begins with DeviceChannel[]
  uint32_t channel_count = 0;      ///< blocks of the grid
  uint32_t lane_count = 0;         ///< of all channels: DeviceOperation::lane_count
  uint32_t lanes_per_channel = 0;  ///< most lanes of a channel; they share the block's shared memory and threads
};

/// The name of the kernel that runs messages.
inline constexpr const char *transfer_kernel_name = "rondo_run_transfer_copy";

/// Returns how many bytes the plan takes on a device.
[[nodiscard]] size_t plan_image_bytes(const Plan &plan);

/// Makes the image for the device address `address`, which is 16-byte aligned. `ends_of(channel, peer)` returns the
/// device address of the DeviceLinkEnds with that rank.
[[nodiscard]] Result<PlanImage> make_plan_image(const Plan &plan, uint64_t address,
                                                const std::function<uint64_t(uint32_t, uint32_t)> &ends_of);

/// Returns DeviceOperation::scratch_bytes for plans with that protocol.
[[nodiscard]] constexpr uint32_t scratch_bytes_for(rondo_protocol_t protocol, const ConnectionGeometry &geometry) {
  if (protocol == RONDO_PROTOCOL_LL) return ll_scratch_bytes_for(geometry.ll_slot_bytes);
  return 0;
}

/// Returns the operation of the plan's kernel. For avg it is a sum; the divisor is separate.
[[nodiscard]] ReduceOp reduce_op(const Plan &plan);
/// Returns the names of all kernels that run plans with that protocol.
[[nodiscard]] std::vector<std::string> kernel_names(rondo_protocol_t protocol);
/// Returns the names of the kernels of load_store.
[[nodiscard]] std::vector<std::string> load_store_kernel_names();

/// Returns the size of the elements of a plan's kernel of load_store, in bytes.
[[nodiscard]] uint32_t load_store_element_bytes(const Plan &plan);

/// Returns the names of the joint kernels.
[[nodiscard]] std::vector<std::string> joint_kernel_names();
/// Returns the joint kernel that runs a plan of load_store for all ranks, such as "rondo_run_joint_float32".
[[nodiscard]] std::string joint_kernel_name(const Plan &plan);

/// Returns the kernel (cuda/kernels/list.h) that runs the plan, such as "rondo_run_simple_float32". A kernel of
/// load_store takes a LoadStoreOperation and no image. The others take DeviceOperations.
[[nodiscard]] std::string kernel_name(const Plan &plan);
/// Sets mode, collective, root and sizes of a load_store `operation` whose rank, places and geometry are set already.
/// `shared_chunk_bytes` is the chunk size of a channel in shared buffers.
void describe_load_store(const Plan &plan, BufferPlace place, uint64_t shared_chunk_bytes,
                         LoadStoreOperation &operation);
/// Returns the short post of `operation`, or an empty one if the post is not short. Other members must be set.
[[nodiscard]] ShortPost short_post(const LoadStoreOperation &operation, uint32_t element_bytes);
/// Removes the short post if the buffers of operation.base are not aligned to words.
void fit_to_buffers(LoadStoreOperation &operation);

/// Returns the names of all kernels that reduce.
[[nodiscard]] std::vector<std::string> reduce_kernel_names();

/// Returns the kernel that reduces the operands of the plan's steps, such as "rondo_reduce_float32". It is "" for a
/// barrier, and if the plan only moves data.
[[nodiscard]] std::string reduce_kernel_name(const Plan &plan);

}  // namespace rondo::device
