// SPDX-License-Identifier: Apache-2.0
// A plan as a kernel reads it: one piece of memory with everything that does not change from call to call, made for
// the address at which the device will see it. And which kernel runs the plan.
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
  std::vector<std::byte> bytes;    ///< to be copied to the address it was made for; begins with DeviceChannel[]
  uint32_t channel_count = 0;      ///< blocks of the grid
  uint32_t lane_count = 0;         ///< of all channels: DeviceOperation::lane_count
  uint32_t lanes_per_channel = 0;  ///< the most: shared memory and threads of a block are shared out among so many
};

/// How much memory the plan takes on a device.
[[nodiscard]] size_t plan_image_bytes(const Plan &plan);

/// `address`: where the image will be, 16-byte aligned. `ends_of(channel, peer)`: the device's address of the
/// DeviceLinkEnds with that rank.
[[nodiscard]] Result<PlanImage> make_plan_image(const Plan &plan, uint64_t address,
                                                const std::function<uint64_t(uint32_t, uint32_t)> &ends_of);

/// DeviceOperation::scratch_bytes for plans with that protocol.
[[nodiscard]] constexpr uint32_t scratch_bytes_for(rondo_protocol_t protocol, const ConnectionGeometry &geometry) {
  if (protocol == RONDO_PROTOCOL_LL) return ll_scratch_bytes_for(geometry.ll_slot_bytes);
  if (protocol == RONDO_PROTOCOL_LL128) return ll128_scratch_bytes_for(geometry.ll128_slot_bytes);
  return 0;
}

/// The names of all kernels that run plans with that protocol.
[[nodiscard]] std::vector<std::string> kernel_names(rondo_protocol_t protocol);
/// Of the kernels 'load_store'.
[[nodiscard]] std::vector<std::string> load_store_kernel_names();

/// Of what the plan's kernel takes for an element, where it is one of load_store.
[[nodiscard]] uint32_t load_store_element_bytes(const Plan &plan);

/// Of joint ones.
[[nodiscard]] std::vector<std::string> joint_kernel_names();
/// "rondo_run_joint_float32_sum": the joint kernel that runs a plan of load_store for all ranks.
[[nodiscard]] std::string joint_kernel_name(const Plan &plan);

/// "rondo_run_simple_float32_sum": the kernel (cuda/kernels/list.h) that runs the plan. One of load_store is given a
/// LoadStoreOperation and no image, the others DeviceOperations.
[[nodiscard]] std::string kernel_name(const Plan &plan);
/// What such a kernel is to do as operation.rank in its places: its mode, collective, root and sizes.
/// `shared_chunk_bytes`: of a channel's chunk in shared buffers.
void describe_load_store(const Plan &plan, BufferPlace place, uint64_t shared_chunk_bytes,
                         LoadStoreOperation &operation);
/// `operation`: described but for that.
[[nodiscard]] ShortPost short_post(const LoadStoreOperation &operation, uint32_t element_bytes);
/// By the buffers of operation.base: a short post's lie at whole words.
void fit_to_buffers(LoadStoreOperation &operation);

/// The names of all kernels that reduce.
[[nodiscard]] std::vector<std::string> reduce_kernel_names();

/// "rondo_reduce_float32_sum": the kernel that reduces the operands of the plan's steps; "" where it only
/// moves, and for a barrier.
[[nodiscard]] std::string reduce_kernel_name(const Plan &plan);

}  // namespace rondo::device
