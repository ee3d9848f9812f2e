// SPDX-License-Identifier: Apache-2.0
// A PlanChoice is the tuner's answer: the parts of a plan that do not describe the operation.
#pragma once

#include <cstdint>

#include "src/base/result.h"

namespace rondo {

/// The memory in which the ranks of a communicator have their buffers.
enum class BufferPlace : uint8_t {
  host,
  device,        ///< memory of devices
  shared_device,  ///< one device; ranks are threads, so kernels of each rank access all buffers
  peer_devices,  ///< several devices; kernels access all buffers, except memory that some ranks cannot read
  registered     ///< registered buffers of several processes, which kernels access; no tuning table has it
};

/// Returns whether a rank may have memory that other ranks cannot read. Collectives on such memory use the ranks'
/// places in the exchange, which all ranks can read.
[[nodiscard]] constexpr bool shares_partly(BufferPlace place) {
  return place == BufferPlace::peer_devices || place == BufferPlace::registered;
}

/// The tuner's choice, or the user's requests (overrides). In requests, AUTO and 0 leave the choice to the tuner.
struct PlanChoice {
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_AUTO;
  rondo_protocol_t protocol = RONDO_PROTOCOL_AUTO;  ///< the interpreter's protocol; AUTO if the chosen kernel has none
  uint32_t channels = 0;
  uint64_t chunk_bytes = 0;
  rondo_kernel_t kernel = RONDO_KERNEL_AUTO;

  bool operator==(const PlanChoice &) const = default;
  /// Returns the name that texts for people use: the interpreter's protocol, or "load_store".
  [[nodiscard]] const char *way() const {
    return kernel == RONDO_KERNEL_LOAD_STORE ? rondo_kernel_string(kernel) : rondo_protocol_string(protocol);
  }
};

}  // namespace rondo
