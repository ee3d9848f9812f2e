// SPDX-License-Identifier: Apache-2.0
#include "transports/net/control.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include "src/base/clock.h"
#include "src/proto/memory.h"
#include "transports/net/tcp_state.h"

namespace rondo::net {
namespace {

constexpr uint64_t ask_again_ns = 50'000'000;
constexpr uint64_t heartbeats_unanswered_max = 300;  // a minute's; a stopped process may be looked at for longer
constexpr uint64_t failure_repeats = 5;              // heartbeats that repeat it
/// Clocks of two hosts part by that much a second at worst: an old measurement loses to a new one of this uncertainty.
constexpr uint64_t clock_drift_divisor = 50'000;  // 20 parts in a million

/// Of what errno says about a connection, 0 if it ended: was the silence too long, or did the other end close?
std::string reason_of(int error) {
  switch (error) {
    case 0:
    case ECONNRESET:
    case EPIPE:
      return " has ended";
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
      return " gave no answer for 1.0 s; is the network between the hosts cut?";
    case EPROTO:
      return " sent what is no message of this version of Rondo";
    default:
      return std::string(" cannot be reached (") + std::strerror(error) + ")";
  }
}

/// Where only one direction is cut, the other end notices, gives up, and its end arrives here: the network was cut all
/// the same.
bool is_unanswered(int descriptor) { return repeats_in(tcp_state_of(descriptor)) >= 2; }

}  // namespace

Control::Control(Parts parts) : parts_(std::move(parts)), host_(parts_.host_of[parts_.rank]) {
  uint32_t host_count = 0;
  for (uint32_t rank = 0; rank < parts_.host_of.size(); ++rank) {
    host_count = std::max(host_count, parts_.host_of[rank] + 1);
    if (rank == parts_.rank) index_ = static_cast<uint32_t>(local_ranks_.size());
    if (is_local(rank)) local_ranks_.push_back(rank);
  }
  for (uint32_t host = 0; host < host_count; ++host)
    if (host != host_) remote_hosts_.push_back(host);
  for (const int handle : parts_.local->process_handles()) processes_.push_back({handle, POLLIN, 0});
  ended_.resize(local_ranks_.size());
}

RankStatus Control::status(uint32_t peer) const {
  const RemoteRank &known = remote(peer);
  RankStatus status;
  status.state = static_cast<RankState>(memory::load_acquire(known.state));  // these pair with take_status()
  status.entered = memory::load_acquire(known.entered);
  status.completed = memory::load_acquire(known.completed);
  return status;
}

std::optional<OperationInfo> Control::entered(uint32_t rank, uint64_t operation) {
  if (operation == 0) return std::nullopt;
  const std::lock_guard own(mutex_);
  const ControlLock lock(header(), index_, 0, ended_);
  if (!lock.held()) return std::nullopt;
  RemoteRank &peer = remote(rank);
  const RemoteRecord &record = peer.records[operation % RemoteRank::record_count];
  if (record.operation == operation) return record.what;
  const uint64_t now = now_ns();
  const bool asked = peer.asked_operation == operation && now - peer.asked_ns < ask_again_ns;
  if (peer.ended != 0 || peer.entered < operation || asked) return std::nullopt;
  peer.asked_operation = operation;
  peer.asked_ns = now;
  send(parts_.host_of[rank], Cell(CellKind::ask).put(rank).put(operation));
  return std::nullopt;
}

void Control::add_dead(std::vector<uint32_t> &dead) const {
  for (uint32_t rank = 0; rank < parts_.host_of.size(); ++rank)
    if (!is_local(rank) && memory::load_acquire(remote(rank).ended) != 0 && status(rank).state != RankState::left)
      dead.push_back(rank);
}

bool Control::gone(uint32_t peer) const {
  return !is_local(peer) && (memory::load_acquire(remote(peer).ended) != 0 || status(peer).state == RankState::left);
}

std::string Control::why_dead(uint32_t peer) const {
  const uint64_t ended = memory::load_acquire(remote(peer).ended);
  return reason_of(ended == 0 ? 0 : static_cast<int>(ended - 1));
}

void Control::tell_status() {
  const std::lock_guard own(mutex_);
  const ControlLock lock(header(), index_, 0, ended_);
  if (lock.held()) return send_status();
  memory::store_sync(header().tell, 1);  // the serving rank looks after the bell
  ring();
}

void Control::tell_leaving() {
  const std::lock_guard own(mutex_);
  someone_died_ |= look_for_dead(true);  // from a rank that has ended the lock is taken over
  const ControlLock lock(header(), index_, tell_patience_ns, ended_);
  if (lock.held()) send_status();
}

void Control::pass_on_failure() {
  if (memory::load_acquire(header().failure_told) != 0) return;
  const std::lock_guard own(mutex_);
  someone_died_ |= look_for_dead(true);  // as above
  const ControlLock lock(header(), index_, tell_patience_ns, ended_);
  if (lock.held() && header().failure_told == 0) send_failure();
}

void Control::ring() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(parts_.share.bell.get(), &one, sizeof one);  // full: it rings
}

bool Control::is_lowest() const {
  for (uint32_t index = 0; index < index_; ++index)
    if (!ended_[index] && parts_.local->state(index) != RankState::left) return false;
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
  if (lock.held()) serve(now_ns, std::exchange(someone_died_, false));
}

/// True: the process of a rank of this host has ended since the last look. `all`: processes without a handle, too.
bool Control::look_for_dead(bool all) {
  const bool fired = ::poll(processes_.data(), processes_.size(), 0) > 0;
  if (!fired && !all) return false;
  for (pollfd &process : processes_)
    if (process.revents != 0) process.fd = -1;  // told once: it would wake the sentinel for ever
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
  if (beats) memory::store_relaxed(shared.next_beat_ns, now_ns + heartbeat_ns);
  for (const uint32_t host : remote_hosts_) {
    RemoteHost &peer = parts_.share.memory.host(host);
    const int socket = parts_.share.sockets[host].get();
    if (peer.lost == 0) receive(host);
    if (peer.lost == 0 && peer.send_error != 0) lose(host, static_cast<int>(peer.send_error));
    // Before the next heartbeat is sent, so that the first of these looks sees one that was sent when the last one was.
    if (beats && peer.lost == 0 && peer.silence.look(socket, now_ns, silent_looks, repeats_max)) lose(host, ETIMEDOUT);
    if (beats) ++peer.heartbeats_unanswered;
    if (peer.lost == 0) static_cast<void>(send_rest(host));
  }
  const bool asked = memory::load_sync(shared.tell) != 0 && memory::exchange_if(shared.tell, 1, 0);
  if (beats || someone_died || asked) send_status();
  if (beats && parts_.clock_measured) {
    shared.clock_asked_ns = rondo::now_ns();
    send(parts_.host_of[0], Cell(CellKind::clock).put(shared.clock_asked_ns).put(uint64_t{0}).put(uint64_t{0}));
  }
  const uint64_t told = shared.failure_told;
  if (parts_.local->failed() && (told == 0 || (beats && told <= failure_repeats))) send_failure();
}

void Control::send_status() {
  for (size_t first = 0; first < local_ranks_.size(); first += statuses_max) {
    const auto count = static_cast<uint32_t>(std::min<size_t>(local_ranks_.size() - first, statuses_max));
    Cell cell(CellKind::status);
    cell.put(count);
    for (uint32_t index = static_cast<uint32_t>(first); index < first + count; ++index) {
      const RankState state = parts_.local->state(index);
      const bool ended = ended_[index] && state != RankState::left;
      cell.put(local_ranks_[index]).put(ended ? ended_state : static_cast<uint32_t>(state));
      cell.put(parts_.local->latest_operation(index)).put(parts_.local->completed_operation(index));
    }
    for (const uint32_t host : remote_hosts_)
      if (parts_.share.memory.host(host).heartbeats_unanswered < heartbeats_unanswered_max) send(host, cell);
  }
}

void Control::send_failure() {
  const Error error = parts_.local->failure();
  Cell cell(CellKind::failure);
  cell.put(static_cast<uint32_t>(error.status)).put(static_cast<uint32_t>(error.rank));
  cell.put(static_cast<uint32_t>(error.peer)).put(error.operation);
  cell.put(std::string_view(error.message).substr(0, failure_text_max));
  for (const uint32_t host : remote_hosts_) send(host, cell);
  memory::store_release(header().failure_told, header().failure_told + 1);  // pairs with pass_on_failure()
}

/// What cannot be sent now is left out: it is said again at the next heartbeat, or asked for again.
void Control::send(uint32_t host, const Cell &cell) {
  RemoteHost &peer = parts_.share.memory.host(host);
  if (peer.lost != 0 || peer.send_error != 0 || !send_rest(host)) return;
  std::ranges::copy(cell.bytes(), peer.unsent.begin());
  peer.unsent_bytes = cell_bytes;
  if (!send_rest(host) && peer.unsent_bytes == cell_bytes) peer.unsent_bytes = 0;
}

/// True: nothing is left of the cell that was sent in part.
bool Control::send_rest(uint32_t host) {
  RemoteHost &peer = parts_.share.memory.host(host);
  while (peer.unsent_bytes != 0 && peer.send_error == 0) {  // bounded by a cell
    const std::byte *const from = peer.unsent.data() + cell_bytes - peer.unsent_bytes;
    const ssize_t sent =
        ::send(parts_.share.sockets[host].get(), from, peer.unsent_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      peer.unsent_bytes -= static_cast<uint64_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      // What it said last may still be there to be read: its departure, or a failure. serve() reads that: here it may
      // be an answer that could not be sent, to what is being read.
      peer.send_error = static_cast<uint64_t>(errno);
    }
  }
  return peer.unsent_bytes == 0;
}

/// A cell is taken out of the connection after it was understood: whoever takes over finds it whole.
void Control::receive(uint32_t host) {
  const int socket = parts_.share.sockets[host].get();
  for (;;) {  // bounded by what has come: a host sends a few cells a second
    std::array<std::byte, cell_bytes> bytes;
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got < 0) return lose(host, is_unanswered(socket) ? ETIMEDOUT : errno);
    if (got < static_cast<ssize_t>(cell_bytes)) {  // the rest of it is on its way, or will never come
      const bool over = got == 0 || tcp_state_of(socket).tcpi_state != TCP_ESTABLISHED;
      return over ? lose(host, is_unanswered(socket) ? ETIMEDOUT : 0) : void();
    }
    take(host, ByteReader(bytes));
    if (parts_.share.memory.host(host).lost != 0) return;
    [[maybe_unused]] const ssize_t taken = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  }
}

void Control::take(uint32_t host, ByteReader cell) {
  const auto magic = cell.number<uint32_t>();
  const auto kind = static_cast<CellKind>(cell.number<uint32_t>());
  if (magic != cell_magic) return lose(host, EPROTO);
  parts_.share.memory.host(host).heartbeats_unanswered = 0;
  switch (kind) {
    case CellKind::status:
      return take_status(host, cell);
    case CellKind::ask: {
      const auto rank = cell.number<uint32_t>();
      return answer(host, rank, cell.number<uint64_t>());
    }
    case CellKind::record: {
      const auto rank = cell.number<uint32_t>();
      const auto operation = cell.number<uint64_t>();
      if (rank < parts_.host_of.size() && parts_.host_of[rank] == host)
        remote(rank).records[operation % RemoteRank::record_count] = {operation, operation_of(cell)};
      return;
    }
    case CellKind::clock:
      return take_clock(host, cell);
    case CellKind::failure:
      return take_failure(cell);
  }
}

void Control::take_status(uint32_t host, ByteReader body) {
  const uint32_t count = std::min(body.number<uint32_t>(), statuses_max);
  for (uint32_t each = 0; each < count; ++each) {
    const auto rank = body.number<uint32_t>();
    const auto state = body.number<uint32_t>();
    const auto entered = body.number<uint64_t>();
    const auto completed = body.number<uint64_t>();
    if (rank >= parts_.host_of.size() || parts_.host_of[rank] != host || state > ended_state) continue;
    RemoteRank &known = remote(rank);
    memory::store_release(known.completed, completed);  // these pair with status()
    memory::store_release(known.entered, entered);
    if (state != ended_state)
      memory::store_release(known.state, state);
    else if (known.ended == 0)
      memory::store_release(known.ended, 1);
  }
}

void Control::answer(uint32_t host, uint32_t rank, uint64_t operation) {
  const auto found = std::ranges::find(local_ranks_, rank);
  if (found == local_ranks_.end()) return;
  const auto index = static_cast<uint32_t>(found - local_ranks_.begin());
  // With those before it: ranks that disagree go back to where they parted. What was asked for comes last.
  const uint64_t before = std::min<uint64_t>(operation, RemoteRank::record_count) - 1;
  for (uint64_t each = operation - before; operation != 0 && each <= operation; ++each)
    if (const auto what = parts_.local->entered(index, each))
      send(host, Cell(CellKind::record).put(rank).put(each).put(*what));
}

/// A question is answered at once. An answer says what the clock of rank 0's host was between the asking and now: the
/// offset is taken from the middle, and may be wrong by half of what the way there and back took.
void Control::take_clock(uint32_t host, ByteReader body) {
  ControlHeader &shared = header();
  const uint64_t now = now_ns();
  const auto asked = body.number<uint64_t>();
  const auto received = body.number<uint64_t>();
  const auto answered = body.number<uint64_t>();
  if (answered == 0) return send(host, Cell(CellKind::clock).put(asked).put(now).put(now_ns()));
  if (!parts_.clock_measured || host != parts_.host_of[0] || shared.clock_asked_ns == 0 ||
      asked != shared.clock_asked_ns || answered < received)
    return;
  shared.clock_asked_ns = 0;
  const uint64_t way_ns = (now - asked) - std::min(answered - received, now - asked);
  const uint64_t aged_ns = shared.clock.uncertainty_ns + (now - shared.clock_measured_ns) / clock_drift_divisor;
  if (shared.clock_measured_ns != 0 && way_ns / 2 + 1 > aged_ns) return;
  const auto there = static_cast<int64_t>(received - asked);
  const auto back = static_cast<int64_t>(answered - now);
  shared.clock = {there / 2 + back / 2, way_ns / 2 + 1};
  shared.clock_measured_ns = now;
  parts_.clock_measured(shared.clock);
}

void Control::take_failure(ByteReader body) {
  Error error;
  error.status = static_cast<rondo_status_t>(body.number<uint32_t>());
  error.rank = static_cast<int32_t>(body.number<uint32_t>());
  error.peer = static_cast<int32_t>(body.number<uint32_t>());
  error.operation = body.number<uint64_t>();
  error.message = text_of(body.bytes(body.number<uint32_t>()));
  if (!body.failed()) parts_.local->raise(error);
}

void Control::lose(uint32_t host, int error) {
  parts_.share.memory.host(host).lost = 1;
  for (uint32_t rank = 0; rank < parts_.host_of.size(); ++rank)
    if (parts_.host_of[rank] == host && remote(rank).ended == 0)
      memory::store_release(remote(rank).ended, static_cast<uint64_t>(error) + 1);  // pairs with why_dead()
}

void Control::watch(std::vector<pollfd> &descriptors) const {
  const std::lock_guard own(mutex_);
  for (const pollfd &process : processes_)
    if (process.fd >= 0) descriptors.push_back(process);
  if (!is_to_serve(now_ns())) return;
  descriptors.push_back({parts_.share.bell.get(), POLLIN, 0});
  for (const uint32_t host : remote_hosts_) {
    const RemoteHost &peer = parts_.share.memory.host(host);
    if (peer.lost != 0) continue;
    const int events = peer.unsent_bytes == 0 ? POLLIN : POLLIN | POLLOUT;
    descriptors.push_back({parts_.share.sockets[host].get(), static_cast<short>(events), 0});
  }
}

}  // namespace rondo::net
