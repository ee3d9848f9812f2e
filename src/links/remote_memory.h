// SPDX-License-Identifier: Apache-2.0
// A window gives each rank access to a buffer of every other rank. On one host, a rank describes its buffer by a
// MemoryPlace, and the peers open the MemoryPlace as a RemoteMemory.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "src/proto/connection.h"

namespace rondo {

/// The number of signals between two ranks in one direction (RONDO_SIGNAL_COUNT).
inline constexpr uint32_t signal_count = 16;

/// The pages of a file that have all signals of a communicator. The signals are sorted by the rank that sends, then by
/// the rank that waits, then by the signal's number.
struct SignalFile {
  int descriptor = -1;  ///< owned by the links
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

/// The description of a buffer, as its rank gives it to the peers.
struct MemoryPlace {
  PayloadKind kind = PayloadKind::process;  ///< either mapped, or process for cross-memory attach
  uint64_t address = 0;                     ///< address in the rank's process
  uint64_t bytes = 0;
  // These fields describe the region that contains the buffer, if the kind is mapped:
  uint64_t inode = 0;
  uint64_t region_offset = 0;  ///< offset of the buffer in the region
  uint64_t region_bytes = 0;
  int32_t descriptor = -1;     ///< descriptor in the rank's process
  // Memory of a device also has these fields:
  int32_t process = 0;  ///< id of the rank's process
  int32_t device = -1;  ///< ordinal of the device in that process
};

/// A buffer of a peer that this rank can write to. Only one thread at a time may call write().
class RemoteMemory {
 public:
  virtual ~RemoteMemory() = default;
  /// Returns the address of the buffer in this process, or null if only write() reaches it.
  [[nodiscard]] virtual std::byte *address() const = 0;
  /// Copies `bytes` bytes to the buffer at `offset`. The caller must check the range. Returns 0, or the errno value of
  /// a failure.
  [[nodiscard]] virtual int write(uint64_t offset, const std::byte *from, uint64_t bytes) const = 0;
};

/// The frame of a slot in a link for puts. A put to a rank of another host is sent in such slots. Each has a frame,
/// followed by a part of the data. The last slot of a put sets the signal. A signal without a put has only this slot.
struct PutFrame {
  uint64_t window = 0;             ///< number of the window's registration; without data it is 0
  uint64_t offset = 0;             ///< byte offset in the receiver's buffer
  uint64_t total = 0;              ///< number of such signals that the sender has sent, including this one
  uint32_t signal = signal_count;  ///< number of the signal, or signal_count if the slot sets none
  uint32_t reserved = 0;
};
static_assert(sizeof(PutFrame) == 32);
static_assert(std::endian::native == std::endian::little, "frames hold the host's own byte order");

}  // namespace rondo
