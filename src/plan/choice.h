// SPDX-License-Identifier: Apache-2.0
// What a plan is made of beside the operation: the tuner's answer.
#pragma once

#include <cstdint>

#include "src/base/result.h"

namespace rondo {

/// Where the ranks of a communicator have their buffers.
enum class BufferPlace : uint8_t {
  host,
  device,        ///< memory of devices
  shared_device,  ///< of one device, and each rank's kernels read and write all ranks' buffers: threads of one process
  peer_devices,  ///< likewise, of several devices, but for memory that some ranks cannot read
  registered     ///< likewise, of several processes: what all ranks have registered. Tables have no rows of it
};

/// A rank may have memory that others cannot read: a collective goes through places then, whose ranks all see it.
[[nodiscard]] constexpr bool shares_partly(BufferPlace place) {
  return place == BufferPlace::peer_devices || place == BufferPlace::registered;
}

/// What was chosen. As overrides: what the user wants, AUTO and 0 where the tuner is free.
struct PlanChoice {
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_AUTO;
  rondo_protocol_t protocol = RONDO_PROTOCOL_AUTO;  ///< of the interpreter; chosen AUTO: the kernel has none
  uint32_t channels = 0;
  uint64_t chunk_bytes = 0;
  rondo_kernel_t kernel = RONDO_KERNEL_AUTO;

  bool operator==(const PlanChoice &) const = default;
  /// For people: the protocol of the interpreter, else the kernel.
  [[nodiscard]] const char *way() const {
    return kernel == RONDO_KERNEL_LOAD_STORE ? rondo_kernel_string(kernel) : rondo_protocol_string(protocol);
  }
};

}  // namespace rondo
