// SPDX-License-Identifier: Apache-2.0
// Notes about windows (src/links/ranks.h) are numbered and kept apart from all other notes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace rondo {

/// The numbers of notes about windows have this bit. Notes about windows never replace other notes.
inline constexpr uint64_t window_note_bit = uint64_t{1} << 63;
/// The number of latest notes about windows that each rank keeps.
inline constexpr size_t kept_window_note_count = 2;

}  // namespace rondo
