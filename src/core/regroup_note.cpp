// SPDX-License-Identifier: Apache-2.0
#include "src/core/regroup_note.h"

#include <algorithm>
#include <tuple>

namespace rondo {
namespace {

constexpr size_t first_set_word = 4;  // a grow has no set, but its place and its tag in these words
constexpr size_t tag_word = first_set_word + std::tuple_size_v<RegroupNote::Place>;
constexpr size_t shown_ranks_max = 16;
static_assert(first_set_word + RankSet::rank_count_max / 64 <= Note::word_count);
static_assert(tag_word < Note::word_count);

constexpr uint64_t join_words(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

}  // namespace

std::vector<uint32_t> RankSet::ranks() const {
  std::vector<uint32_t> found;
  for (uint32_t rank = 0; rank < rank_count_max; ++rank)
    if (contains(rank)) found.push_back(rank);
  return found;
}

std::string RankSet::describe() const {
  const std::vector<uint32_t> all = ranks();
  std::string text = "{";
  for (size_t at = 0; at < std::min(all.size(), shown_ranks_max); ++at)
    text += (at == 0 ? "" : ", ") + std::to_string(all[at]);
  return text + (all.size() > shown_ranks_max ? ", and more}" : "}");
}

RankSet RankSet::difference(const RankSet &other) const {
  RankSet result;
  for (size_t at = 0; at < words_.size(); ++at) result.words_[at] = words_[at] ^ other.words_[at];
  return result;
}

std::string Regrouping::describe() const {
  if (grows()) return "grows it to " + std::to_string(grown_size) + " ranks";
  return "excludes " + excluded.describe();
}

std::string Regrouping::call() const {
  if (grows()) return "rondo_comm_grow to " + std::to_string(grown_size) + " ranks";
  return "rondo_comm_shrink without " + excluded.describe();
}

void write_words(const RegroupNote &regroup, Note &note) {
  note.words[0] = join_words(static_cast<uint32_t>(regroup.phase), regroup.occurrence);
  note.words[1] = join_words(static_cast<uint32_t>(regroup.status), static_cast<uint32_t>(regroup.peer));
  note.words[2] = join_words(regroup.port, regroup.wanted.grown_size);
  note.words[3] = regroup.nonce;
  if (regroup.wanted.grows()) {
    std::ranges::copy(regroup.place, note.words.begin() + first_set_word);
    note.words[tag_word] = regroup.id_tag;
  } else {
    std::ranges::copy(regroup.wanted.excluded.words(), note.words.begin() + first_set_word);
  }
}

std::optional<RegroupNote> regroup_note_of(const Note &note) {
  RegroupNote regroup;
  const auto phase = static_cast<uint32_t>(note.words[0]), status = static_cast<uint32_t>(note.words[1]);
  const auto port = static_cast<uint32_t>(note.words[2]);
  if (phase < static_cast<uint32_t>(RegroupPhase::called) || phase > static_cast<uint32_t>(RegroupPhase::failed) ||
      status > RONDO_ERROR_REVOKED || port > UINT16_MAX)
    return std::nullopt;
  regroup.phase = static_cast<RegroupPhase>(phase);
  regroup.occurrence = static_cast<uint32_t>(note.words[0] >> 32);
  regroup.status = static_cast<rondo_status_t>(status);
  regroup.peer = static_cast<int32_t>(note.words[1] >> 32);
  regroup.port = port;
  regroup.wanted.grown_size = static_cast<uint32_t>(note.words[2] >> 32);
  regroup.nonce = note.words[3];
  const auto rest = note.words.begin() + first_set_word;
  if (regroup.wanted.grows()) {
    std::copy_n(rest, regroup.place.size(), regroup.place.begin());
    regroup.id_tag = note.words[tag_word];
  } else {
    const std::span<uint64_t> set = regroup.wanted.excluded.words();
    std::copy_n(rest, set.size(), set.begin());
  }
  return regroup;
}

}  // namespace rondo
