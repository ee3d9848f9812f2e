// SPDX-License-Identifier: Apache-2.0
// This class copies payloads into the slots of a connection. It decides by measurement how to store them.
//
// If the two ranks' cores share a cache, the receiver should find a slot there. If not, writing a line that the
// receiver has read takes 20 ns, because the copy in the receiver's cache must be discarded first. Stores that bypass
// the caches are then five times as fast, although the receiver must read from memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace rondo {

class SlotWriter {
 public:
  /// Smaller payloads are always copied through the caches, and never measured.
  static constexpr size_t measured_bytes_min = 2048;
  static constexpr uint32_t near_interval = 8;   ///< one in this number of copies is measured
  static constexpr uint32_t far_interval = 64;   ///< one in this number, while copies bypass the caches

  /// Copies like memcpy(). A thread that sees a later release store of this thread sees all of the copy.
  void write(std::byte *slot, const std::byte *from, size_t bytes) {
    if (bytes < measured_bytes_min) std::memcpy(slot, from, bytes);
    else write_long(slot, from, bytes);
  }

  /// Returns whether copies bypass the caches.
  [[nodiscard]] bool is_far() const { return slow_count_ >= slow_count_min; }
  /// Counts a copy. Returns true if it must go through the caches and be measured.
  [[nodiscard]] bool measures_next() { return ++count_ % (is_far() ? far_interval : near_interval) == 0; }
  /// Notes that a copy through the caches took `ns`.
  void note(size_t bytes, uint64_t ns);

 private:
  static constexpr uint32_t slow_count_min = 2;  // one slow copy may have been interrupted

  void write_long(std::byte *slot, const std::byte *from, size_t bytes);

  uint32_t count_ = 0;
  uint32_t slow_count_ = 0;  ///< number of the latest measurements in a row that were slow
};

}  // namespace rondo
