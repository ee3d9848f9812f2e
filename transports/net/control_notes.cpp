// SPDX-License-Identifier: Apache-2.0
// This file sends the notes of ranks over the control plane. A rank that posts a note sends it to all other hosts. A
// rank that waits for a note asks again, because the cell may have been skipped.
#include <algorithm>

#include "src/base/clock.h"
#include "transports/net/control.h"

namespace rondo::net {
namespace {

constexpr uint64_t ask_notes_ns = 100'000'000;

Cell note_cell(const Inquiry &about, const Note &note) {
  Cell cell(CellKind::note);
  cell.put(about).put(note.revision);
  for (const uint64_t word : note.words) cell.put(word);
  return cell;
}

static_assert((5 + 2 * (2 + Note::word_count)) * sizeof(uint32_t) <= cell_bytes);

}  // namespace

std::vector<Note> Control::notes(uint32_t rank) {
  const std::lock_guard own(mutex_);
  const ControlLock lock(header(), index_, 0, ended_);
  if (!lock.held()) return {};
  RemoteRank &peer = remote(rank);
  std::vector<Note> found;
  for (const Note &note : peer.notes)
    if (note.number != 0) found.push_back(note);
  const uint64_t now = now_ns();
  // The question is sent even if the rank has ended, because any rank of its host can answer.
  if (now - peer.notes_asked_ns < ask_notes_ns || !may_ask(now)) return found;
  peer.notes_asked_ns = now;
  ++header().asked_count;
  lines_.send(parts_.host_of[rank], Cell(CellKind::ask_notes).put(Inquiry{rank, 0}));
  return found;
}

void Control::tell_note(const Note &note) {
  const std::lock_guard own(mutex_);
  const ControlLock lock(header(), index_, tell_patience_ns, ended_);
  if (!lock.held()) return;
  const Cell cell = note_cell({parts_.rank, note.number}, note);
  for (const uint32_t host : others_) lines_.send(host, cell);
}

void Control::take_note_question(uint32_t host, ByteReader body) {
  const Inquiry asked = inquiry_of(body);
  if (!is_of(host_, asked.rank)) return;
  const auto index = static_cast<uint32_t>(std::ranges::find(local_ranks_, asked.rank) - local_ranks_.begin());
  for (const Note &note : parts_.local->notes(index))
    lines_.send(host, note_cell({asked.rank, note.number}, note));
}

void Control::take_note(uint32_t host, ByteReader body) {
  const Inquiry about = inquiry_of(body);
  if (!is_of(host, about.rank)) return;
  Note note;
  note.number = about.operation;
  note.revision = body.number<uint64_t>();
  for (uint64_t &word : note.words) word = body.number<uint64_t>();
  if (body.failed()) return;
  Note &kept = remote(about.rank).notes[note.number % kept_note_count];
  if (note.revision > kept.revision) kept = note;
}

}  // namespace rondo::net
