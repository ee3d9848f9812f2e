// SPDX-License-Identifier: Apache-2.0
// A rank that shrinks a communicator publishes its call and its result in a note (src/links/notes.h). This file encodes
// and decodes that note.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "src/base/result.h"
#include "src/links/ranks.h"

namespace rondo {

/// A set of ranks of a communicator.
class RankSet {
 public:
  static constexpr uint32_t rank_count_max = 2048;

  void insert(uint32_t rank) { words_[rank / 64] |= uint64_t{1} << rank % 64; }
  [[nodiscard]] bool contains(uint32_t rank) const { return (words_[rank / 64] >> rank % 64 & 1) != 0; }
  bool operator==(const RankSet &) const = default;
  auto operator<=>(const RankSet &) const = default;
  /// Returns the ranks in ascending order.
  [[nodiscard]] std::vector<uint32_t> ranks() const;
  /// Returns the ranks for people: "{1, 3}".
  [[nodiscard]] std::string describe() const;
  /// Returns the ranks that are in exactly one of the two sets.
  [[nodiscard]] RankSet difference(const RankSet &other) const;

  [[nodiscard]] std::span<uint64_t> words() { return words_; }
  [[nodiscard]] std::span<const uint64_t> words() const { return words_; }

 private:
  std::array<uint64_t, rank_count_max / 64> words_{};
};

enum class ShrinkPhase : uint32_t {
  called = 1,  ///< the rank has called, and waits for the other members
  made = 2,    ///< the rank has made its communicator
  failed = 3   ///< the rank has not made it, and never will
};

struct ShrinkNote {
  RankSet excluded;
  uint32_t occurrence = 1;  ///< count of the rank's shrinks with the same set, from 1
  ShrinkPhase phase = ShrinkPhase::called;
  uint32_t port = 0;   ///< port of the rank's PartOffer, like `nonce`
  uint64_t nonce = 0;
  rondo_status_t status = RONDO_OK;  ///< with `failed`: the reason
  int32_t peer = -1;                 ///< with `failed`: the rank that the failure is about, or -1

  /// Returns whether this note and `other`, a note of another rank, belong to the same call.
  [[nodiscard]] bool matches(const ShrinkNote &other) const {
    return excluded == other.excluded && occurrence == other.occurrence;
  }
};

/// Writes the words of the note.
void write_words(const ShrinkNote &shrink, Note &note);
/// Returns what write_words() wrote, or none if a word has a value that write_words() never writes.
[[nodiscard]] std::optional<ShrinkNote> shrink_note_of(const Note &note);

}  // namespace rondo
