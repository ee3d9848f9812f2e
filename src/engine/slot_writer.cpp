// SPDX-License-Identifier: Apache-2.0
#include "src/engine/slot_writer.h"

#include <algorithm>
#include <cstring>

#include "src/base/clock.h"
#include "src/engine/reduction/reduction.h"

namespace rondo {
namespace {

/// A copy is slow if it takes longer for a line. A line takes 2 ns in a shared cache, or 20 ns if a far core read it.
constexpr uint64_t slow_ns_of_line = 8;

}  // namespace

void SlotWriter::note(size_t bytes, uint64_t ns) {
  const bool slow = ns * cache_line_bytes > slow_ns_of_line * bytes;
  slow_count_ = slow ? std::min(slow_count_ + 1, slow_count_min) : 0;
}

void SlotWriter::write_long(std::byte *slot, const std::byte *from, size_t bytes) {
  if (measures_next()) {
    const uint64_t begin_ns = now_ns();
    std::memcpy(slot, from, bytes);
    note(bytes, now_ns() - begin_ns);
  } else if (is_far()) {
    stream_copy(slot, from, bytes);
  } else {
    std::memcpy(slot, from, bytes);
  }
}

}  // namespace rondo
