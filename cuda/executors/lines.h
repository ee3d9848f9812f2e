// SPDX-License-Identifier: Apache-2.0
// Where lines of 128 bytes are known to be moved as one piece, which the protocol ll128 lives on.
// docs/protocols.md.
#pragma once

#include <span>

#include "cuda/transport/choose.h"
#include "cuda/driver/driver.h"

namespace rondo::cuda {

/// The lines that this rank stores into the memory of the others. RONDO_ERROR_UNSUPPORTED: two ranks share a device, or
/// it is not known of this device, or of the way from it to another rank's, that a line stays in one piece; the message
/// says what can be used.
[[nodiscard]] Result<void> check_lines(const CudaDriver &driver, const CudaDevice &own,
                                       std::span<const PlacementInfo> infos);

}  // namespace rondo::cuda
