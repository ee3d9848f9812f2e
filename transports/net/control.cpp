// SPDX-License-Identifier: Apache-2.0
#include "transports/net/control.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/parse.h"
#include "src/proto/memory.h"

namespace rondo::net {
namespace {

constexpr uint64_t farewell_look_ns = 200'000;
constexpr uint64_t failure_repeats = 5;  // heartbeats that repeat a failure
constexpr uint32_t locked_out_max = 100;
// Among many hosts, the states of this host's ranks are sent at most once in this time multiplied by the number of
// hosts. Sending to a host takes a few microseconds, so calls that move no data would otherwise keep a core busy.
constexpr uint64_t tell_pause_ns = 50'000;
static_assert(failure_repeats + 1 <= ControlLines::failure_max - ControlLines::unheard_max);

/// Says whether `host` gets the states of this host's ranks at this heartbeat. A host reports to at most 64 hosts at a
/// time, so that a thousand hosts do not keep a core busy. Some hosts report to `host` at each heartbeat, so a cut-off
/// host is noticed as early as if all hosts reported to it.
bool is_turn(uint32_t host, uint32_t own_host, size_t other_count, uint64_t beat) {
  const size_t turns = (other_count + few_hosts_max - 1) / few_hosts_max;
  return (host + own_host + beat) % turns == 0;
}

/// Describes why a connection is lost. `error` is errno, or 0 if the other end closed the connection.
std::string reason_of(int error, uint64_t timeout_ns) {
  switch (error) {
    case 0:
    case EPIPE:
      return " has ended";
    case ECONNRESET:  // also after the end of a process with unread data
      return " has ended, or its control connection was reset";
    case ECONNABORTED:
      return " cannot be reached any more: this system closed its control connection, as `ss -K` does";
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
      return " gave no answer for " + show_seconds(timeout_ns) + (timeout_ns % 1'000'000'000 == 0 ? ".0" : "") +
             " s; is the network between the hosts cut?";
    case EPROTO:
      return " sent a message that this version of Rondo does not understand";
    default:
      return std::string(" cannot be reached (") + std::strerror(error) + ")";
  }
}

}  // namespace

Control::Control(Parts parts)
    : parts_(std::move(parts)),
      host_(parts_.host_of[parts_.rank]),
      lines_(parts_.share.memory, parts_.share.sockets, parts_.settings.network_timeout_ns) {
  for (uint32_t host = 0; host < host_count_of(parts_.host_of); ++host)
    if (host != host_) others_.push_back(host);
  for (uint32_t rank = 0; rank < parts_.host_of.size(); ++rank) {
    if (rank == parts_.rank) index_ = static_cast<uint32_t>(local_ranks_.size());
    if (is_local(rank)) local_ranks_.push_back(rank);
  }
  for (const int handle : parts_.local->process_handles()) processes_.push_back({handle, POLLIN, 0});
  ended_.resize(local_ranks_.size());
}

Result<std::unique_ptr<Control>> Control::make(Parts parts) {
  std::unique_ptr<Control> control(new Control(std::move(parts)));
  RONDO_TRY(control->lines_.open());
  return control;
}

RankStatus Control::status(uint32_t peer) const {
  const RemoteRank &known = remote(peer);
  RankStatus status;
  status.state = static_cast<RankState>(memory::load_acquire(known.state));  // these pair with take_status()
  status.entered = memory::load_acquire(known.entered);
  status.completed = memory::load_acquire(known.completed);
  return status;
}

void Control::add_dead(std::vector<uint32_t> &dead) const {
  for (uint32_t rank = 0; rank < parts_.host_of.size(); ++rank)
    if (!is_local(rank) && memory::load_acquire(remote(rank).ended) != 0 && !has_left(status(rank).state))
      dead.push_back(rank);
}

bool Control::gone(uint32_t peer) const {
  return !is_local(peer) && (memory::load_acquire(remote(peer).ended) != 0 || has_left(status(peer).state));
}

std::string Control::why_dead(uint32_t peer) const {
  const uint64_t ended = memory::load_acquire(remote(peer).ended);
  return reason_of(ended == 0 ? 0 : static_cast<int>(ended - 1), parts_.settings.network_timeout_ns);
}

bool Control::was_reset(uint32_t peer) const {
  const uint64_t ended = memory::load_acquire(remote(peer).ended);
  const bool reset = ended == uint64_t{ECONNRESET} + 1 || ended == uint64_t{ECONNABORTED} + 1;
  return reset && !has_left(status(peer).state);
}

void Control::tell_status() {
  const std::lock_guard own(mutex_);
  const ControlLock lock(header(), index_, 0, ended_);
  if (lock.held() && others_.size() < few_hosts_max) return send_status();
  memory::store_sync(header().tell, 1);  // the serving rank reads it after the bell
  ring();
}

void Control::want_puts() {
  memory::store_release(header().puts, 1);  // pairs with wants_puts()
  tell_status();
}

void Control::tell_leaving() {
  const std::lock_guard own(mutex_);
  someone_died_ |= look_for_dead(true);  // so that the lock of an ended rank can be taken over
  const ControlLock lock(header(), index_, tell_patience_ns, ended_);
  if (!lock.held()) return;
  if (parts_.local->failed() && header().failure_told == 0) send_failure();
  if (is_deserted()) return say_farewell();
  const Cell cell = own_status(index_ / statuses_max);
  for (const uint32_t host : others_) lines_.send(host, cell);
}

/// Says whether all ranks of this host have left or ended.
bool Control::is_deserted() const {
  for (uint32_t index = 0; index < local_ranks_.size(); ++index)
    if (!ended_[index] && parts_.local->state(index) < RankState::left) return false;
  return true;
}

/// Sends the last updates, and waits a limited time until all other hosts have acknowledged them, because no rank of
/// this host can send them later. Without the wait, an update may be lost: the connection may be closed while received
/// bytes are unread, or a container's network may end with its last process. If several ranks leave at once, each may
/// find that it is the last, but the updates are sent only once.
void Control::say_farewell() {
  const uint64_t begun_ns = now_ns();
  if (parts_.local->failed()) send_failure();  // an earlier send skipped hosts whose connections were full
  bool done = false;
  while (!done) {  // ends after tell_patience_ns
    done = tell_farewell();
    for (const uint32_t host : others_) done &= lines_.has_arrived(host);
    if (now_ns() - begun_ns >= tell_patience_ns) return;
    if (!done) sleep_for_ns(farewell_look_ns);
  }
}

/// Sends the last updates to all other hosts. Returns false if a connection was full.
bool Control::tell_farewell() {
  const uint64_t limit = std::max(ControlLines::failure_max + own_cells(), ControlLines::buffered_max);
  bool done = true;
  for (const uint32_t host : others_) {
    RemoteHost &peer = parts_.share.memory.host(host);
    while (peer.farewell_told < own_cells() && lines_.send(host, own_status(peer.farewell_told), limit))
      ++peer.farewell_told;
    const bool over = peer.lost != 0 || peer.send_error != 0 || peer.sent_unheard >= limit;
    done &= over || peer.farewell_told >= own_cells();
  }
  return done;
}

void Control::ring() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(parts_.share.bell.get(), &one, sizeof one);  // full: rings already
}

bool Control::is_lowest() const {
  for (uint32_t index = 0; index < index_; ++index)
    if (!ended_[index] && !has_left(parts_.local->state(index))) return false;
  return true;
}

bool Control::is_to_serve(uint64_t now_ns) const {
  return is_lowest() || memory::load_relaxed(header().server) == index_ + 1 ||
         now_ns - std::min(now_ns, memory::load_relaxed(header().served_ns)) > stand_in_ns;
}

void Control::step(uint64_t now_ns) {
  const std::lock_guard own(mutex_);
  const bool beats = now_ns >= memory::load_relaxed(header().next_beat_ns);
  someone_died_ |= look_for_dead(beats);
  if (!is_to_serve(now_ns)) return;
  const ControlLock lock(header(), index_, 0, ended_);
  locked_out_ = lock.held() ? 0 : locked_out_ + 1;
  if (lock.held()) serve(now_ns, std::exchange(someone_died_, false));
}

/// Returns true if the process of a rank of this host has ended since the last check. With `all`, also checks processes
/// that have no handle.
bool Control::look_for_dead(bool all) {
  const bool fired = ::poll(processes_.data(), processes_.size(), 0) > 0;
  if (!fired && !all) return false;
  for (pollfd &process : processes_)
    if (process.revents != 0) process.fd = -1;  // report it once: it would wake the sentinel again and again
  bool found = false;
  for (const uint32_t index : parts_.local->find_dead()) {
    found |= !ended_[index];
    ended_[index] = true;
  }
  return found;
}

void Control::serve(uint64_t now_ns, bool someone_died) {
  ControlHeader &shared = header();
  memory::store_relaxed(shared.server, index_ + 1);
  memory::store_relaxed(shared.served_ns, now_ns);
  uint64_t rung = 0;
  [[maybe_unused]] const ssize_t drained = ::read(parts_.share.bell.get(), &rung, sizeof rung);
  const bool beats = now_ns >= shared.next_beat_ns;
  if (beats) {
    memory::store_relaxed(shared.next_beat_ns, now_ns + heartbeat_ns);
    ++shared.beat_count;
  }
  lines_.for_each_ready([this](uint32_t host) { receive(host); });
  // These checks precede the next heartbeat. So a heartbeat that the first check finds unacknowledged was sent one
  // interval ago.
  for (const uint32_t host : others_)
    if (beats && parts_.share.memory.host(host).lost == 0) look_after(host, now_ns);
  lines_.send_rests();
  // A failure is sent before the other updates, which may report that a rank left because of the failure.
  const uint64_t told = shared.failure_told;
  if (parts_.local->failed() && (told == 0 || (beats && told <= failure_repeats))) send_failure();
  const uint64_t pause_ns = others_.size() < few_hosts_max ? 0 : others_.size() * tell_pause_ns;
  const bool may_tell = beats || now_ns - std::min(now_ns, shared.told_ns) >= pause_ns;
  const bool asked = may_tell && memory::load_sync(shared.tell) != 0 && memory::exchange_if(shared.tell, 1, 0);
  if (someone_died || asked) {
    shared.told_ns = now_ns;
    send_status();
  } else if (beats) {
    for (size_t which = 0; which < own_cells(); ++which) {
      const Cell cell = own_status(which);
      for (const uint32_t host : others_)
        if (is_turn(host, host_, others_.size(), shared.beat_count)) lines_.send(host, cell);
    }
  }
  if (beats && parts_.clock_measured) {
    shared.clock_asked_ns = rondo::now_ns();
    lines_.send(parts_.host_of[0], Cell(CellKind::clock).put(shared.clock_asked_ns));
  }
}

/// Checks the connection with a host; call this at each heartbeat.
void Control::look_after(uint32_t host, uint64_t now_ns) {
  if (const uint64_t error = parts_.share.memory.host(host).send_error; error != 0)
    return lose(host, static_cast<int>(error));
  if (!lines_.is_silent(host, now_ns)) return;
  lose(host, ETIMEDOUT);
  lines_.give_up(host);
}

/// Marks the ranks of the host as ended. `error` is errno, or 0 if the other end closed the connection. `lost` is set
/// last, so if this process ends midway, the next serving rank repeats the steps.
void Control::lose(uint32_t host, int error) {
  const uint64_t reason = static_cast<uint64_t>(error) + 1;
  for (uint32_t rank = 0; rank < parts_.host_of.size(); ++rank)
    if (parts_.host_of[rank] == host && remote(rank).ended == 0)
      memory::store_release(remote(rank).ended, reason);  // pairs with why_dead()
  parts_.share.memory.host(host).lost = 1;
}

void Control::send_status() {
  for (size_t which = 0; which < own_cells(); ++which) {
    const Cell cell = own_status(which);
    for (const uint32_t host : others_) lines_.send(host, cell);
  }
}

/// Returns a cell with the states of this host's ranks, from index `which` * statuses_max on.
Cell Control::own_status(size_t which) const {
  const size_t first = which * statuses_max, count = std::min<size_t>(local_ranks_.size() - first, statuses_max);
  Cell cell(CellKind::status);
  cell.put(static_cast<uint32_t>(count));
  for (size_t each = 0; each < count; ++each) {
    const auto index = static_cast<uint32_t>(first + each);
    const RankState state = parts_.local->state(index);
    const bool ended = ended_[index] && !has_left(state);
    cell.put(local_ranks_[index]).put(ended ? ended_state : static_cast<uint32_t>(state));
    cell.put(parts_.local->latest_operation(index)).put(parts_.local->completed_operation(index));
  }
  cell.put(static_cast<uint32_t>(memory::load_acquire(header().puts)));
  return cell;
}

void Control::receive(uint32_t host) {
  const auto ended = lines_.receive(host, [this, host](ByteReader cell) { return take(host, cell); });
  if (ended) lose(host, *ended);
}

/// Handles a cell. Returns false if nothing that arrives on this connection can be understood any more.
bool Control::take(uint32_t host, ByteReader cell) {
  const auto magic = cell.number<uint32_t>();
  const auto kind = static_cast<CellKind>(cell.number<uint32_t>());
  if (magic != cell_magic) return lose(host, EPROTO), false;
  parts_.share.memory.host(host).sent_unheard = 0;
  switch (kind) {
    case CellKind::status:
      take_status(host, cell);
      break;
    case CellKind::ask:
      take_question(host, cell);
      break;
    case CellKind::record:
      take_record(host, cell);
      break;
    case CellKind::ask_pair:
      take_pair_question(host, cell);
      break;
    case CellKind::pair:
      take_pair(host, cell);
      break;
    case CellKind::ask_notes:
      take_note_question(host, cell);
      break;
    case CellKind::note:
      take_note(host, cell);
      break;
    case CellKind::ask_waits:
      take_waits_question(host, cell);
      break;
    case CellKind::waits:
      take_waits(host, cell);
      break;
    case CellKind::clock:
      take_clock(host, cell);
      break;
    case CellKind::failure:
      take_failure(cell);
      break;
  }
  return true;
}

/// Says whether the rank exists and is on the host. A host reports only its own ranks.
bool Control::is_of(uint32_t host, uint32_t rank) const {
  return rank < parts_.host_of.size() && parts_.host_of[rank] == host;
}

void Control::take_status(uint32_t host, ByteReader body) {
  const uint32_t count = std::min(body.number<uint32_t>(), statuses_max);
  for (uint32_t each = 0; each < count; ++each) {
    const auto rank = body.number<uint32_t>();
    const auto state = body.number<uint32_t>();
    const auto entered = body.number<uint64_t>();
    const auto completed = body.number<uint64_t>();
    if (!is_of(host, rank) || state > ended_state) continue;
    RemoteRank &known = remote(rank);
    memory::store_release(known.completed, std::max(known.completed, completed));  // these pair with status()
    memory::store_release(known.entered, std::max(known.entered, entered));
    take_state(known, state);
  }
  if (body.number<uint32_t>() != 0 && !body.failed()) memory::store_release(header().puts, 1);  // see wants_puts()
}

/// Stores `state` if it is later than the known state. States only advance. A rank may still leave after exit() began.
void Control::take_state(RemoteRank &known, uint32_t state) {
  const bool leaves_late = known.told == static_cast<uint64_t>(RankState::exited) &&
                           state == static_cast<uint32_t>(RankState::left);
  if (state <= known.told && !leaves_late) return;
  if (state != ended_state)
    memory::store_release(known.state, state);
  else if (known.ended == 0)
    memory::store_release(known.ended, 1);
  known.told = state;
}

void Control::watch(std::vector<pollfd> &descriptors) const {
  const std::lock_guard own(mutex_);
  for (const pollfd &process : processes_)
    if (process.fd >= 0) descriptors.push_back(process);
  // If a stopped rank holds the lock, this rank cannot handle events of the connections. Then it does not watch the
  // connections, because their events would wake it again and again.
  if (!is_to_serve(now_ns()) || locked_out_ >= locked_out_max) return;
  descriptors.push_back({parts_.share.bell.get(), POLLIN, 0});
  lines_.watch(descriptors);
}

}  // namespace rondo::net
