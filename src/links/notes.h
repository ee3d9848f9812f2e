// SPDX-License-Identifier: Apache-2.0
// A note is a few words that a rank publishes to the other ranks outside of its operations. Notes work on a failed
// communicator, too. src/core decides what the words mean.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rondo {

struct Note {
  static constexpr size_t word_count = 40;
  uint64_t number = 0;    ///< counts the notes of the rank, from 1; 0 means none
  uint64_t revision = 0;  ///< grows with each post() of the rank
  std::array<uint64_t, word_count> words{};
};

/// The number of latest notes that each rank keeps.
inline constexpr size_t kept_note_count = 4;

}  // namespace rondo
