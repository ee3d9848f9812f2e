// SPDX-License-Identifier: Apache-2.0
#include "src/core/window.h"

#include <algorithm>
#include <optional>
#include <string>

#include "src/base/clock.h"
#include "src/core/communicator.h"
#include "src/core/window_note.h"

namespace rondo {
namespace {

constexpr uint64_t eager_ns = 5'000'000, eager_poll_ns = 50'000, poll_ns = 1'000'000;

using Made = Result<std::shared_ptr<PeerWindow>>;

std::string quantity(uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

/// One call of register_window().
class WindowRegistration final {
 public:
  WindowRegistration(Communicator &comm, const WindowRequest &request, uint64_t number)
      : comm_(comm), notes_(comm.rank_count()), note_number_(comm.regroup_log().next_number()) {
    own_.number = number;
    own_.symmetric = request.symmetric;
  }

  [[nodiscard]] Made run(const MemoryPlace &place);
  /// Publishes that this rank has no window.
  void give_up(const Error &why);

 private:
  void post(WindowPhase phase);
  [[nodiscard]] Result<void> wait_for_all(WindowPhase phase);
  [[nodiscard]] bool has_reached(uint32_t rank, WindowPhase phase) const;
  [[nodiscard]] Result<void> check_rank(uint32_t rank) const;
  [[nodiscard]] Result<void> check_sizes() const;
  [[nodiscard]] Made open_all() const;
  [[nodiscard]] std::optional<WindowNote> note_of(uint32_t rank) const;
  [[nodiscard]] Error about(rondo_status_t status, const std::string &message, uint32_t rank) const;

  Communicator &comm_;
  std::vector<std::optional<WindowNote>> notes_;  ///< latest notes of all ranks
  const uint64_t note_number_;
  WindowNote own_;
};

void WindowRegistration::post(WindowPhase phase) {
  own_.phase = phase;
  Note note;
  note.number = note_number_;
  note.revision = comm_.regroup_log().next_revision();
  write_words(own_, note);
  comm_.post(note);
}

void WindowRegistration::give_up(const Error &why) {
  own_.status = why.status;
  own_.peer = why.peer;
  post(WindowPhase::failed);
}

std::optional<WindowNote> WindowRegistration::note_of(uint32_t rank) const {
  for (const Note &note : comm_.ranks().notes(rank))
    if (const auto window = window_note_of(note); window && window->number == own_.number) return window;
  return std::nullopt;
}

Error WindowRegistration::about(rondo_status_t status, const std::string &message, uint32_t rank) const {
  return {status, "rondo_window_register: " + message, static_cast<int32_t>(comm_.rank()), static_cast<int32_t>(rank)};
}

/// Returns an error if the rank has ended or given up.
Result<void> WindowRegistration::check_rank(uint32_t rank) const {
  const RankState state = comm_.ranks().state(rank);
  const auto &note = notes_[rank];
  if (note && note->phase == WindowPhase::failed) {
    const bool names_peer = note->peer >= 0 && note->peer != static_cast<int32_t>(rank);
    const std::string peer = names_peer ? ", rank " + std::to_string(note->peer) : "";
    return about(note->status,
                 comm_.ranks().describe_rank(rank) + " has given up (" + rondo_status_string(note->status) + peer +
                     "); its own error says why",
                 names_peer ? static_cast<uint32_t>(note->peer) : rank);
  }
  if (state == RankState::left || state == RankState::finalized)
    return about(RONDO_ERROR_REMOTE,
                 comm_.ranks().describe_rank(rank) + " has " +
                     (state == RankState::left ? "destroyed" : "finalized") + " its communicator",
                 rank);
  return {};
}

/// A rank that has failed after its offer counts as one that has offered. So all ranks compare the same sizes.
bool WindowRegistration::has_reached(uint32_t rank, WindowPhase phase) const {
  const auto &note = notes_[rank];
  if (!note) return false;
  return phase == WindowPhase::offered ? note->offers : note->phase == phase;
}

/// Waits until all ranks have published `phase` or a later one.
Result<void> WindowRegistration::wait_for_all(WindowPhase phase) {
  const uint64_t begun_ns = now_ns();
  while (true) {  // ends at the deadline
    const uint64_t now = now_ns();
    const auto failure = comm_.failure();  // before the notes are read, so that the last note of a dead rank counts
    std::optional<uint32_t> missing;
    for (uint32_t rank = 0; rank < comm_.rank_count(); ++rank) {
      if (auto note = note_of(rank)) notes_[rank] = note;
      if (has_reached(rank, phase)) continue;
      RONDO_TRY(check_rank(rank));
      if (!missing) missing = rank;
    }
    if (!missing) return {};
    if (failure) return *failure;
    if (now - begun_ns >= comm_.settings().timeout_ns)
      return about(RONDO_ERROR_TIMEOUT,
                   comm_.ranks().describe_rank(*missing) +
                       " has not called it in time; call it on every rank, or raise timeout_ms (RONDO_TIMEOUT)",
                   *missing);
    sleep_for_ns(now - begun_ns < eager_ns ? eager_poll_ns : poll_ns);
  }
}

/// Checks what all ranks have offered. All ranks find the same error, so none of them waits for another.
Result<void> WindowRegistration::check_sizes() const {
  const WindowNote &first = *notes_.front();
  for (uint32_t rank = 1; rank < notes_.size(); ++rank) {
    const WindowNote &other = *notes_[rank];
    if (other.symmetric != first.symmetric)
      return about(RONDO_ERROR_MISMATCH,
                   "rank " + std::to_string(first.symmetric ? 0 : rank) + " gives RONDO_WINDOW_SYMMETRIC, and rank " +
                       std::to_string(first.symmetric ? rank : 0) + " does not; give the same flags on every rank",
                   rank);
    if (first.symmetric && other.place.bytes != first.place.bytes)
      return about(RONDO_ERROR_MISMATCH,
                   "rank 0 gives " + quantity(first.place.bytes) + ", rank " + std::to_string(rank) + " gives " +
                       quantity(other.place.bytes) +
                       "; give the same size on every rank, or leave RONDO_WINDOW_SYMMETRIC away",
                   rank);
  }
  return {};
}

Made WindowRegistration::open_all() const {
  std::vector<PeerWindow::Buffer> buffers(notes_.size());
  for (uint32_t rank = 0; rank < notes_.size(); ++rank) {
    const MemoryPlace &place = notes_[rank]->place;
    buffers[rank].bytes = place.bytes;
    if (place.bytes == 0) continue;
    auto opened = comm_.open_memory(rank, place);
    if (!opened.ok())
      return about(opened.error().status,
                   "rank " + std::to_string(comm_.rank()) + " cannot reach the buffer of " +
                       comm_.ranks().describe_rank(rank) + ": " + opened.error().message,
                   rank);
    buffers[rank].memory = std::move(opened).value();
  }
  return std::make_shared<PeerWindow>(comm_, std::move(buffers));
}

Made WindowRegistration::run(const MemoryPlace &place) {
  own_.place = place;
  own_.offers = true;
  post(WindowPhase::offered);
  RONDO_TRY(wait_for_all(WindowPhase::offered));
  RONDO_TRY(check_sizes());
  RONDO_TRY_ASSIGN(auto window, open_all());
  post(WindowPhase::opened);
  RONDO_TRY(wait_for_all(WindowPhase::opened));
  return window;
}

}  // namespace

Made register_window(Communicator &comm, const WindowRequest &request, const Result<void> &checked) {
  const uint64_t number = comm.windows().begin();
  if (number == 0)
    return Error{RONDO_ERROR_INVALID_USAGE,
                 "another thread registers a window of this communicator; make one call at a time"};
  WindowRegistration registration(comm, request, number);
  const auto describe = [&]() -> Result<MemoryPlace> {
    RONDO_TRY(checked);
    return comm.describe_memory(request.pointer, request.bytes);
  };
  const auto place = describe();
  Made made = place.ok() ? registration.run(place.value()) : Made(place.error());
  if (!made.ok()) registration.give_up(made.error());
  comm.windows().end();
  return made;
}

}  // namespace rondo
