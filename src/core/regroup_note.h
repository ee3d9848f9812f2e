// SPDX-License-Identifier: Apache-2.0
// A rank that shrinks or grows a communicator publishes its call and its result in a note (src/links/ranks.h). This
// file encodes and decodes that note.
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
  /// Returns the ranks as text for people: "{1, 3}".
  [[nodiscard]] std::string describe() const;
  /// Returns the ranks that are in exactly one of the two sets.
  [[nodiscard]] RankSet difference(const RankSet &other) const;

  [[nodiscard]] std::span<uint64_t> words() { return words_; }
  [[nodiscard]] std::span<const uint64_t> words() const { return words_; }

 private:
  std::array<uint64_t, rank_count_max / 64> words_{};
};

/// The arguments of a call that must be equal on all its members.
struct Regrouping {
  RankSet excluded;         ///< ranks that a shrink excludes
  uint32_t grown_size = 0;  ///< number of ranks after a grow, or 0 for a shrink

  bool operator==(const Regrouping &) const = default;
  auto operator<=>(const Regrouping &) const = default;
  [[nodiscard]] bool grows() const { return grown_size != 0; }
  /// Returns a key of the calls that are counted together: all grows, or the shrinks with equal sets. Grows of
  /// different sizes have one key, so that the counts stay equal after one rank gave a wrong size.
  [[nodiscard]] Regrouping counted() const { return grows() ? Regrouping{{}, 1} : *this; }
  /// Returns "excludes {1, 3}" or "grows it to 4 ranks".
  [[nodiscard]] std::string describe() const;
  /// Returns "rondo_comm_shrink without {1, 3}" or "rondo_comm_grow to 4 ranks".
  [[nodiscard]] std::string call() const;
};

enum class RegroupPhase : uint32_t {
  called = 1,  ///< the rank has called, and waits for the other members
  made = 2,    ///< the rank has made its communicator
  failed = 3   ///< the rank has no new communicator, and will not make it
};

struct RegroupNote {
  /// A unique id without its secret, or zeros.
  using Place = std::array<uint64_t, RONDO_UNIQUE_ID_BYTES / sizeof(uint64_t)>;

  Regrouping wanted;
  uint32_t occurrence = 1;  ///< count of the rank's calls with the same counted(), from 1
  RegroupPhase phase = RegroupPhase::called;
  uint32_t port = 0;  ///< port at which this rank serves the new communicator's store, or 0
  uint64_t nonce = 0;                ///< with `port`: nonce of the store's secret
  rondo_status_t status = RONDO_OK;  ///< with `failed`: the reason
  int32_t peer = -1;                 ///< with `failed`: the rank that the failure is about, or -1
  // Only a grow has these:
  Place place{};        ///< with `port`: the address of the store
  uint64_t id_tag = 0;  ///< tag of the id that was passed to the call (grow.h), or 0

  /// Returns whether this note and `other`, a note of another rank, belong to the same call.
  [[nodiscard]] bool matches(const RegroupNote &other) const {
    return wanted == other.wanted && occurrence == other.occurrence;
  }
};

/// Writes the words of the note.
void write_words(const RegroupNote &regroup, Note &note);
/// Returns what write_words() wrote, or none if a word has a value that write_words() never writes.
[[nodiscard]] std::optional<RegroupNote> regroup_note_of(const Note &note);

}  // namespace rondo
