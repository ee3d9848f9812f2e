// SPDX-License-Identifier: Apache-2.0
#include "src/core/window.h"

#include <algorithm>
#include <optional>
#include <string>

#include "src/base/clock.h"
#include "src/core/communicator.h"
#include "src/core/window_note.h"
#include "src/engine/watch.h"
#include "src/links/ranks.h"

namespace rondo {
namespace {

using WindowMade = Result<std::shared_ptr<PeerWindow>>;

std::string quantity(uint64_t bytes) { return std::to_string(bytes) + " bytes"; }

/// One call of register_window(). A rank whose call is refused publishes that it has no window.
class WindowRegistration final {
 public:
  WindowRegistration(Communicator &comm, const WindowRequest &request, uint64_t number) : comm_(comm) {
    own_.number = number;
    own_.symmetric = request.symmetric;
  }

  [[nodiscard]] WindowMade run(const MemoryPlace &place);
  /// Publishes that this rank has no window.
  void give_up(const Error &why);

 private:
  void post(WindowPhase phase);
  [[nodiscard]] Result<void> wait_for_all(WindowPhase phase);
  [[nodiscard]] bool has_reached(uint32_t rank, WindowPhase phase) const;
  [[nodiscard]] Result<void> check_rank(uint32_t rank) const;
  [[nodiscard]] Result<void> check_sizes() const;
  [[nodiscard]] WindowMade open_all() const;
  [[nodiscard]] std::optional<WindowNote> note_of(uint32_t rank) const;
  [[nodiscard]] Error about(rondo_status_t status, const std::string &message, uint32_t rank) const;

  Communicator &comm_;
  std::vector<std::optional<WindowNote>> notes_;  ///< latest notes of all ranks
  WindowNote own_;
};

void WindowRegistration::post(WindowPhase phase) {
  own_.phase = phase;
  Note note;
  own_.opened_number = comm_.windows().opened_number();
  note.number = window_note_bit | own_.number;
  note.revision = comm_.regroup_log().next_revision();
  write_words(own_, note);
  comm_.post(note);
}

void WindowRegistration::give_up(const Error &why) {
  if (own_.phase == WindowPhase::opened) comm_.windows().set_opened(own_.number - 1);
  comm_.withdraw_window(own_.number);
  own_.status = why.status;
  own_.peer = why.peer;
  post(WindowPhase::failed);
}

/// Returns the note of a rank about this registration. If only a later note is left, the rank has ended this
/// registration, and the later note says how it ended.
std::optional<WindowNote> WindowRegistration::note_of(uint32_t rank) const {
  std::optional<WindowNote> later;
  for (const Note &note : comm_.ranks().notes(rank)) {
    const auto window = window_note_of(note);
    if (window && window->number == own_.number) return window;
    if (window && window->number > own_.number) later = window;
  }
  if (!later) return std::nullopt;
  WindowNote ended = notes_[rank].value_or(WindowNote{});
  ended.number = later->number;
  ended.phase = later->opened_number >= own_.number ? WindowPhase::opened : WindowPhase::failed;
  ended.status = RONDO_ERROR_MISMATCH;
  return ended;
}

Error WindowRegistration::about(rondo_status_t status, const std::string &message, uint32_t rank) const {
  return {status, "rondo_window_register: " + message, static_cast<int32_t>(comm_.rank()), static_cast<int32_t>(rank)};
}

/// Returns an error if the rank has ended or given up.
Result<void> WindowRegistration::check_rank(uint32_t rank) const {
  const RankState state = comm_.ranks().state(rank);
  const auto &note = notes_[rank];
  if (note && note->phase == WindowPhase::failed) {
    if (note->number != own_.number)
      return about(note->status,
                   comm_.ranks().describe_rank(rank) + " has given up this registration, and has called again since; "
                   "call it as often on every rank",
                   rank);
    const bool names_peer = note->peer >= 0 && note->peer != static_cast<int32_t>(rank);
    const std::string peer = names_peer ? ", rank " + std::to_string(note->peer) : "";
    return about(note->status,
                 comm_.ranks().describe_rank(rank) + " has given up (" + rondo_status_string(note->status) + peer +
                     "); its own error says why",
                 names_peer ? static_cast<uint32_t>(note->peer) : rank);
  }
  if (state < RankState::finalized) return {};
  const Departure end = has_ended_calls(state) ? departure_of(state) : Departure{RONDO_ERROR_REMOTE, " has exited"};
  return about(end.status, comm_.ranks().describe_rank(rank) + end.how, rank);
}

/// Returns whether the rank has published `phase`. A rank that fails after its offer still counts as having offered.
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
    // Deaths are read before the notes, so that a dead rank's last note counts. If no note is missing, a death is no
    // error here, because other ranks can still wait for signals that the dead rank has sent.
    const bool someone_ended = comm_.ranks().failed() || !comm_.ranks().find_dead().empty();
    std::optional<uint32_t> missing;
    for (uint32_t rank = 0; rank < comm_.rank_count(); ++rank) {
      if (auto note = note_of(rank)) notes_[rank] = note;
      if (has_reached(rank, phase)) continue;
      RONDO_TRY(check_rank(rank));
      if (!missing) missing = rank;
    }
    if (!missing) return {};
    if (const auto failure = someone_ended ? comm_.failure() : std::nullopt) return *failure;
    if (now - begun_ns >= comm_.settings().timeout_ns)
      return about(RONDO_ERROR_TIMEOUT,
                   comm_.ranks().describe_rank(*missing) +
                       " has not called it in time; call it on every rank, or raise timeout_ms (RONDO_TIMEOUT)",
                   *missing);
    sleep_between_polls(now - begun_ns);
  }
}

/// Checks what all ranks have offered. All ranks find the same error, so no rank waits for another.
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

WindowMade WindowRegistration::open_all() const {
  std::vector<PeerWindow::Buffer> buffers(notes_.size());
  for (uint32_t rank = 0; rank < notes_.size(); ++rank) {
    const MemoryPlace &place = notes_[rank]->place;
    buffers[rank].bytes = place.bytes;
    if (rank == comm_.rank())  // exposed before any rank knows that all have opened
      comm_.expose_window(own_.number, {reinterpret_cast<std::byte *>(place.address), place.bytes});
    if (place.bytes == 0) continue;
    auto opened = comm_.open_memory(rank, place);
    if (!opened.ok())
      return about(opened.error().status,
                   "rank " + std::to_string(comm_.rank()) + " cannot reach the buffer of " +
                       comm_.ranks().describe_rank(rank) + ": " + opened.error().message,
                   rank);
    buffers[rank].memory = std::move(opened).value();
  }
  return std::make_shared<PeerWindow>(comm_, own_.number, std::move(buffers));
}

WindowMade WindowRegistration::run(const MemoryPlace &place) {
  notes_.resize(comm_.rank_count());
  own_.place = place;
  own_.offers = true;
  post(WindowPhase::offered);
  RONDO_TRY(wait_for_all(WindowPhase::offered));
  RONDO_TRY(check_sizes());
  RONDO_TRY_ASSIGN(auto window, open_all());
  comm_.windows().set_opened(own_.number);
  post(WindowPhase::opened);
  RONDO_TRY(wait_for_all(WindowPhase::opened));
  return window;
}

/// Ends a registration, also after an exception. Informs the other ranks unless the registration was successful.
class Ending {
 public:
  Ending(Communicator &comm, WindowRegistration &registration) : comm_(comm), registration_(registration) {}
  Ending(const Ending &) = delete;
  Ending &operator=(const Ending &) = delete;
  ~Ending() {
    if (why_) registration_.give_up(*why_);
    comm_.windows().end();
  }
  void end(const WindowMade &made) {
    if (made.ok())
      why_.reset();
    else
      why_ = made.error();
  }

 private:
  Communicator &comm_;
  WindowRegistration &registration_;
  std::optional<Error> why_ = Error{RONDO_ERROR_OUT_OF_RESOURCES, ""};
};

}  // namespace

WindowMade register_window(Communicator &comm, const WindowRequest &request,
                           const std::function<Result<void>()> &prepare) {
  const WindowTable::Turn turn = comm.windows().begin();
  WindowRegistration registration(comm, request, turn.number);
  if (!turn.begun) {
    Error error{RONDO_ERROR_INVALID_USAGE,
                "another thread registers a window of this communicator; make one call at a time"};
    registration.give_up(error);
    return error;
  }
  Ending ending(comm, registration);
  const auto describe = [&]() -> Result<MemoryPlace> {
    RONDO_TRY(prepare());
    comm.windows().make_room();
    return comm.describe_memory(request.pointer, request.bytes);
  };
  const auto place = describe();
  WindowMade made = place.ok() ? registration.run(place.value()) : WindowMade(place.error());
  if (made.ok()) comm.windows().add(made.value());
  ending.end(made);
  return made;
}

}  // namespace rondo
