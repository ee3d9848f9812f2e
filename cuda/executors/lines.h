// SPDX-License-Identifier: Apache-2.0
// These checks know where lines of 128 bytes are moved as one piece, on which the protocol ll128 relies.
// docs/protocols.md.
#pragma once

#include <span>

#include "cuda/executors/choose.h"
#include "cuda/driver/driver.h"

namespace rondo::cuda {

/// Checks the lines that this rank stores into the memory of the others. RONDO_ERROR_UNSUPPORTED: two ranks share a
/// device, or it is not known that a line stays in one piece on this device or on the way to another rank's. The
/// message says what can be used.
[[nodiscard]] Result<void> check_lines(const CudaDriver &driver, const CudaDevice &own,
                                       std::span<const PlacementInfo> infos);

}  // namespace rondo::cuda
