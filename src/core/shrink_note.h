// SPDX-License-Identifier: Apache-2.0
// A rank that shrinks a communicator publishes its call and the outcome as the words of a note (src/links/notes.h).
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
  /// Returns the ranks that only one of the two has.
  [[nodiscard]] RankSet difference(const RankSet &other) const;

  [[nodiscard]] std::span<uint64_t> words() { return words_; }
  [[nodiscard]] std::span<const uint64_t> words() const { return words_; }

 private:
  std::array<uint64_t, rank_count_max / 64> words_{};
};

enum class ShrinkPhase : uint32_t {
  called = 1,  ///< the rank has called, and waits for the other members
  made = 2,    ///< it has made its communicator
  failed = 3   ///< it has not, and never will
};

struct ShrinkNote {
  RankSet excluded;
  uint32_t occurrence = 1;  ///< counts the rank's shrinks with this very set
  ShrinkPhase phase = ShrinkPhase::called;
  uint32_t port = 0;   ///< with `nonce`, the rank's PartOffer
  uint64_t nonce = 0;
  rondo_status_t status = RONDO_OK;  ///< failed: why
  int32_t peer = -1;                 ///< failed: the rank that it is about, or -1

  /// Returns whether it is of the same call as `other`, a note of another rank.
  [[nodiscard]] bool matches(const ShrinkNote &other) const {
    return excluded == other.excluded && occurrence == other.occurrence;
  }
};

/// Writes the words of the note.
void write_words(const ShrinkNote &shrink, Note &note);
/// Returns what write_words() wrote, or none if a word has a value that it never has.
[[nodiscard]] std::optional<ShrinkNote> shrink_note_of(const Note &note);

}  // namespace rondo
