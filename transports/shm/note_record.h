// SPDX-License-Identifier: Apache-2.0
// This file declares the records on a rank's board that hold its notes (src/links/notes.h). All words are accessed
// through src/proto/memory.h.
#pragma once

#include <span>
#include <vector>

#include "src/proto/connection.h"
#include "src/links/notes.h"

namespace rondo::shm {

/// One note. It is written word by word, `revision` last. The revision is 0 while the other words change.
struct alignas(cache_line_bytes) NoteRecord {
  uint64_t revision = 0;
  uint64_t number = 0;
  uint64_t words[Note::word_count] = {};
};

/// Writes the note in its record. `records` belong to this rank, and one thread writes at a time.
void post_note(std::span<NoteRecord, kept_note_count> records, const Note &note);

/// Returns the notes of a rank, except one that is being written.
[[nodiscard]] std::vector<Note> read_notes(std::span<const NoteRecord, kept_note_count> records);

}  // namespace rondo::shm
