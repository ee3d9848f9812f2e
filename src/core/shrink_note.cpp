// SPDX-License-Identifier: Apache-2.0
#include "src/core/shrink_note.h"

#include <algorithm>

namespace rondo {
namespace {

constexpr size_t first_set_word = 4;
constexpr size_t shown_ranks_max = 16;
static_assert(first_set_word + RankSet::rank_count_max / 64 <= Note::word_count);

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

void write_words(const ShrinkNote &shrink, Note &note) {
  note.words[0] = join_words(static_cast<uint32_t>(shrink.phase), shrink.occurrence);
  note.words[1] = join_words(static_cast<uint32_t>(shrink.status), static_cast<uint32_t>(shrink.peer));
  note.words[2] = shrink.port;
  note.words[3] = shrink.nonce;
  std::ranges::copy(shrink.excluded.words(), note.words.begin() + first_set_word);
}

std::optional<ShrinkNote> shrink_note_of(const Note &note) {
  ShrinkNote shrink;
  const auto phase = static_cast<uint32_t>(note.words[0]), status = static_cast<uint32_t>(note.words[1]);
  if (phase < static_cast<uint32_t>(ShrinkPhase::called) || phase > static_cast<uint32_t>(ShrinkPhase::failed) ||
      status > RONDO_ERROR_REVOKED || note.words[2] > UINT16_MAX)
    return std::nullopt;
  shrink.phase = static_cast<ShrinkPhase>(phase);
  shrink.occurrence = static_cast<uint32_t>(note.words[0] >> 32);
  shrink.status = static_cast<rondo_status_t>(status);
  shrink.peer = static_cast<int32_t>(note.words[1] >> 32);
  shrink.port = static_cast<uint32_t>(note.words[2]);
  shrink.nonce = note.words[3];
  std::copy_n(note.words.begin() + first_set_word, shrink.excluded.words().size(), shrink.excluded.words().begin());
  return shrink;
}

}  // namespace rondo
