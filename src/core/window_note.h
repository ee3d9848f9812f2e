// SPDX-License-Identifier: Apache-2.0
// A rank that registers a window publishes its buffer, and then its result, in a note (src/links/ranks.h).
#pragma once

#include <cstdint>
#include <optional>

#include "rondo/rondo.h"
#include "src/links/ranks.h"
#include "src/links/remote_memory.h"

namespace rondo {

enum class WindowPhase : uint32_t {
  // RegroupPhase has other numbers, so that each reader ignores notes of the other sort.
  offered = 17,  ///< the rank has described its buffer
  opened = 18,   ///< the rank has opened the buffers of all ranks
  failed = 19    ///< the rank has no window
};

struct WindowNote {
  uint64_t number = 0;  ///< number of the registration on its rank, from 1
  WindowPhase phase = WindowPhase::offered;
  bool offers = false;  ///< true: `symmetric` and `place` are valid, even with `failed`
  bool symmetric = false;
  MemoryPlace place;
  rondo_status_t status = RONDO_OK;  ///< with `failed`: the reason
  int32_t peer = -1;                 ///< with `failed`: the rank that the failure is about, or -1
  uint64_t opened_number = 0;        ///< number of the latest registration in which the rank has opened all buffers
};

inline void write_words(const WindowNote &window, Note &note) {
  const MemoryPlace &place = window.place;
  note.words[0] = static_cast<uint64_t>(window.phase) | static_cast<uint64_t>(window.status) << 32;
  note.words[1] = window.number;
  note.words[2] = static_cast<uint64_t>(place.kind) | (window.symmetric ? uint64_t{1} << 32 : 0) |
                  (window.offers ? uint64_t{1} << 33 : 0);
  note.words[3] = place.address;
  note.words[4] = place.bytes;
  note.words[5] = place.inode;
  note.words[6] = place.region_offset;
  note.words[7] = place.region_bytes;
  note.words[8] = static_cast<uint64_t>(static_cast<uint32_t>(place.descriptor));
  note.words[10] = static_cast<uint32_t>(window.peer);
  note.words[11] = window.opened_number;
  note.words[9] =
      static_cast<uint64_t>(static_cast<uint32_t>(place.process)) << 32 | static_cast<uint32_t>(place.device);
}

/// Returns what write_words() wrote, or nothing if the note is not about a window.
[[nodiscard]] inline std::optional<WindowNote> window_note_of(const Note &note) {
  const auto phase = static_cast<uint32_t>(note.words[0]);
  if (phase < static_cast<uint32_t>(WindowPhase::offered) || phase > static_cast<uint32_t>(WindowPhase::failed))
    return std::nullopt;
  WindowNote window;
  window.phase = static_cast<WindowPhase>(phase);
  window.status = static_cast<rondo_status_t>(note.words[0] >> 32);
  window.number = note.words[1];
  window.symmetric = (note.words[2] >> 32 & 1) != 0;
  window.offers = (note.words[2] >> 33 & 1) != 0;
  window.place.kind = static_cast<PayloadKind>(static_cast<uint32_t>(note.words[2]));
  window.place.address = note.words[3];
  window.place.bytes = note.words[4];
  window.place.inode = note.words[5];
  window.place.region_offset = note.words[6];
  window.place.region_bytes = note.words[7];
  window.place.descriptor = static_cast<int32_t>(note.words[8]);
  window.place.process = static_cast<int32_t>(note.words[9] >> 32);
  window.place.device = static_cast<int32_t>(note.words[9]);
  window.peer = static_cast<int32_t>(note.words[10]);
  window.opened_number = note.words[11];
  return window;
}

}  // namespace rondo
