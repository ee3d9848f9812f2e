// SPDX-License-Identifier: Apache-2.0
// This file sends the notes of ranks over the control plane. A rank that posts a note sends it to all other hosts. A
// rank that waits for a note asks again, because the cell may have been skipped.
#include <algorithm>

#include "src/base/clock.h"
#include "transports/net/control.h"

namespace rondo::net {
namespace {

constexpr uint64_t ask_notes_ns = 100'000'000;
constexpr uint32_t hops_max = 64;

Cell note_cell(const Inquiry &about, const Note &note) {
  Cell cell(CellKind::note);
  cell.put(about).put(note.revision);
  for (const uint64_t word : note.words) cell.put(word);
  return cell;
}

static_assert((7 + 2 * (2 + Note::word_count)) * sizeof(uint32_t) <= cell_bytes);

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
  send_towards(parts_.host_of[rank], Cell(CellKind::ask_notes).put(Inquiry{rank, 0, host_, hops_max}));
  return found;
}

void Control::tell_note(const Note &note) {
  const std::lock_guard own(mutex_);
  const ControlLock lock(header(), index_, tell_patience_ns, ended_);
  if (!lock.held()) return;
  for (uint32_t host = 0; host < overlay_.host_count(); ++host)
    if (host != host_) send_towards(host, note_cell({parts_.rank, note.number, host, hops_max}, note));
}

void Control::take_note_question(ByteReader body) {
  const Inquiry asked = inquiry_of(body);
  if (!is_known(asked) || asked.asker == host_) return;
  if (!is_local(asked.rank)) {
    if (asked.hops != 0) send_towards(parts_.host_of[asked.rank], Cell(CellKind::ask_notes).put(asked.passed_on()));
    return;
  }
  const auto index = static_cast<uint32_t>(std::ranges::find(local_ranks_, asked.rank) - local_ranks_.begin());
  for (const Note &note : parts_.local->notes(index))
    send_towards(asked.asker, note_cell({asked.rank, note.number, asked.asker, hops_max}, note));
}

void Control::take_note(ByteReader body) {
  const Inquiry about = inquiry_of(body);
  if (!is_known(about) || is_local(about.rank)) return;
  Note note;
  note.number = about.operation;
  note.revision = body.number<uint64_t>();
  for (uint64_t &word : note.words) word = body.number<uint64_t>();
  if (body.failed()) return;
  if (about.asker != host_) {
    if (about.hops != 0) send_towards(about.asker, note_cell(about.passed_on(), note));
    return;
  }
  Note &kept = remote(about.rank).notes[note.number % kept_note_count];
  if (note.revision > kept.revision) kept = note;
}

}  // namespace rondo::net
