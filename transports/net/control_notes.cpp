// SPDX-License-Identifier: Apache-2.0
// This file sends the notes of ranks and the communicator's failure over the control plane. A rank that posts a note
// sends it to all other hosts. A rank that waits for a note asks again, because the cell may have been skipped.
#include <algorithm>
#include <span>
#include <string_view>

#include "src/base/clock.h"
#include "src/proto/memory.h"
#include "transports/net/control.h"

namespace rondo::net {
namespace {

constexpr uint64_t ask_notes_ns = 100'000'000;
constexpr uint64_t notes_doublings_max = 5;  // the pause grows from ask_notes_ns to 1.6 s

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
  for (const std::span<const Note> kept : {std::span<const Note>(peer.notes), std::span<const Note>(peer.window_notes)})
    for (const Note &note : kept)
      if (note.number != 0) found.push_back(note);
  const uint64_t now = now_ns();
  // The question is sent even if the rank has ended, because any rank of its host can answer.
  // Among many hosts, the number of questions at a time is limited. A rank without new notes is asked less and less
  // often, which leaves room for questions to other ranks.
  const uint64_t doublings = others_.size() < few_hosts_max ? 0 : std::min(peer.notes_asked_count, notes_doublings_max);
  const uint64_t pause_ns = std::max(ask_notes_ns, ask_notes_ns << doublings >> 1);
  if (now - peer.notes_asked_ns < pause_ns || !may_ask(now)) return found;
  if (!lines_.send(parts_.host_of[rank], Cell(CellKind::ask_notes).put(Inquiry{rank, 0}))) return found;
  ++header().asked_count;
  peer.notes_asked_ns = now;
  ++peer.notes_asked_count;
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
  RemoteRank &peer = remote(about.rank);
  Note &kept = (note.number & window_note_bit) != 0 ? peer.window_notes[note.number % kept_window_note_count]
                                                    : peer.notes[note.number % kept_note_count];
  if (note.revision <= kept.revision) return;
  kept = note;
  peer.notes_asked_count = 0;
}

void Control::pass_on_failure() {
  if (memory::load_acquire(header().failure_told) != 0) return;
  const std::lock_guard own(mutex_);
  someone_died_ |= look_for_dead(true);  // so that the lock of an ended rank can be taken over
  const ControlLock lock(header(), index_, tell_patience_ns, ended_);
  if (lock.held() && header().failure_told == 0) send_failure();
}

void Control::send_failure() {
  const Error error = parts_.local->failure();
  Cell cell(CellKind::failure);
  cell.put(static_cast<uint32_t>(error.status)).put(static_cast<uint32_t>(error.rank));
  cell.put(static_cast<uint32_t>(error.peer)).put(error.operation);
  cell.put(std::string_view(error.message).substr(0, failure_text_max));
  for (const uint32_t host : others_) lines_.send(host, cell, ControlLines::failure_max);
  memory::store_release(header().failure_told, header().failure_told + 1);  // pairs with pass_on_failure()
}

void Control::take_failure(ByteReader body) {
  const auto rank_of = [&](uint32_t rank) { return rank < parts_.host_of.size() ? static_cast<int32_t>(rank) : -1; };
  Error error;
  error.status = error_status_of(body.number<uint32_t>());
  error.rank = rank_of(body.number<uint32_t>());
  error.peer = rank_of(body.number<uint32_t>());
  error.operation = body.number<uint64_t>();
  error.message = text_of(body.bytes(body.number<uint32_t>()));
  if (!body.failed()) parts_.local->raise(error);
}

}  // namespace rondo::net
