// SPDX-License-Identifier: Apache-2.0
#include "transports/shm/note_record.h"

#include "src/proto/memory.h"

namespace rondo::shm {

void post_note(std::span<NoteRecord, kept_note_count> records, const Note &note) {
  NoteRecord &record = records[note.number % kept_note_count];
  memory::store_release(record.revision, 0);  // pairs with the second look in read_notes()
  memory::store_release(record.number, note.number);
  for (size_t at = 0; at < Note::word_count; ++at) memory::store_release(record.words[at], note.words[at]);
  memory::store_release(record.revision, note.revision);  // pairs with the first look in read_notes()
}

std::vector<Note> read_notes(std::span<const NoteRecord, kept_note_count> records) {
  std::vector<Note> notes;
  for (const NoteRecord &record : records) {
    Note note;
    note.revision = memory::load_acquire(record.revision);  // first look
    if (note.revision == 0) continue;
    note.number = memory::load_acquire(record.number);
    for (size_t at = 0; at < Note::word_count; ++at) note.words[at] = memory::load_acquire(record.words[at]);
    if (memory::load_acquire(record.revision) == note.revision) notes.push_back(note);  // second look
  }
  return notes;
}

}  // namespace rondo::shm
