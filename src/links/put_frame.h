// SPDX-License-Identifier: Apache-2.0
// A put to a rank of another host is sent in slots of a link for puts. Each slot has a frame, followed by a part of the
// data. The last slot of a put sets the signal. A signal without a put has only this slot.
#pragma once

#include <bit>
#include <cstdint>

#include "src/links/remote_memory.h"

namespace rondo {

static_assert(std::endian::native == std::endian::little, "frames hold the host's own byte order");

struct PutFrame {
  uint64_t window = 0;  ///< number of the window's registration; without data it is 0
  uint64_t offset = 0;  ///< byte offset in the receiver's buffer
  uint64_t total = 0;   ///< number of such signals that the sender has sent, including this one
  uint32_t signal = signal_count;  ///< number of the signal, or signal_count if the slot sets none
  uint32_t reserved = 0;
};
static_assert(sizeof(PutFrame) == 32);

}  // namespace rondo
