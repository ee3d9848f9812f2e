// SPDX-License-Identifier: Apache-2.0
#include "transports/net/control.h"

#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "src/base/clock.h"
#include "src/proto/memory.h"

namespace rondo::net {
namespace {

constexpr uint64_t ask_again_ns = 50'000'000;
constexpr uint64_t failure_reserve = 16, leaving_reserve = 64;  // cells to a host that says nothing
constexpr uint64_t failure_repeats = 5;              // heartbeats that repeat it
/// Clocks of two hosts part by that much a second at worst: an old measurement loses to a new one of this uncertainty.
constexpr uint64_t clock_drift_divisor = 50'000;  // 20 parts in a million
constexpr uint64_t ring_questions_max = 16;        // in ask_again_ns, with those of all ranks of a host
constexpr uint32_t hops_max = 64;                  // a shortest way has log2(hosts); hosts may know of different ones

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

uint64_t aged_uncertainty(const ControlHeader &shared, uint64_t now_ns) {
  return shared.clock.uncertainty_ns + (now_ns - shared.clock_measured_ns) / clock_drift_divisor;
}

}  // namespace

Control::Control(Parts parts)
    : parts_(std::move(parts)),
      host_(parts_.host_of[parts_.rank]),
      overlay_(host_count_of(parts_.host_of), parts_.mesh_max),
      lines_(parts_.share.memory, parts_.share.sockets),
      news_(parts_.share.memory, overlay_, parts_.host_of, host_) {
  for (uint32_t rank = 0; rank < parts_.host_of.size(); ++rank) {
    if (rank == parts_.rank) index_ = static_cast<uint32_t>(local_ranks_.size());
    if (is_local(rank)) local_ranks_.push_back(rank);
  }
  for (const int handle : parts_.local->process_handles()) processes_.push_back({handle, POLLIN, 0});
  ended_.resize(local_ranks_.size());
}

RankStatus Control::status(uint32_t peer) const {
  const RemoteRank &known = remote(peer);
  RankStatus status;
  status.state = static_cast<RankState>(memory::load_acquire(known.state));  // these pair with News::take()
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
  if (peer.ended != 0 || peer.entered < operation || asked || !may_ask(now)) return std::nullopt;
  peer.asked_operation = operation;
  peer.asked_ns = now;
  send_towards(parts_.host_of[rank], Cell(CellKind::ask).put(Inquiry{rank, operation, host_, hops_max}));
  return std::nullopt;
}

/// Ranks that wait ask about all others. Each answer takes many cells, and in a ring other hosts have to pass them on.
bool Control::may_ask(uint64_t now_ns) const {
  if (overlay_.is_mesh()) return true;
  ControlHeader &shared = header();
  if (now_ns - shared.asked_ns >= ask_again_ns) {
    shared.asked_ns = now_ns;
    shared.asked_count = 0;
  }
  return shared.asked_count++ < ring_questions_max;
}

void Control::send_towards(uint32_t host, const Cell &cell) {
  if (const uint32_t next = news_.first_hop(host); next != Overlay::no_way) lines_.send(next, cell);
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
  if (!lock.held()) return;
  if (parts_.local->failed() && header().failure_told == 0) send_failure();
  send_status(leaving_reserve);
  news_.call_due(UINT64_MAX);  // this may be the last rank of its host, by which others hear
  news_.tell(lines_);
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
  for (const uint32_t host : overlay_.neighbours(host_)) {
    RemoteHost &peer = parts_.share.memory.host(host);
    if (peer.lost == 0) receive(host);
    if (peer.lost == 0 && peer.send_error != 0) news_.lose(host, static_cast<int>(peer.send_error));
    // Before the next heartbeat is sent, so that the first of these looks sees one that was sent when the last one was.
    if (beats && peer.lost == 0 && lines_.is_silent(host, now_ns)) news_.lose(host, ETIMEDOUT);
    if (peer.lost == 0) static_cast<void>(lines_.send_rest(host));
  }
  // Before the news: that a rank has left comes behind the failure for which it did.
  const uint64_t told = shared.failure_told;
  if (parts_.local->failed() && (told == 0 || (beats && told <= failure_repeats))) send_failure();
  const bool asked = memory::load_sync(shared.tell) != 0 && memory::exchange_if(shared.tell, 1, 0);
  if (beats || someone_died || asked) send_status();
  if (beats) news_.call_due(now_ns);
  news_.tell(lines_);
  if (beats && parts_.clock_measured) {
    shared.clock_asked_ns = rondo::now_ns();
    send_towards(parts_.host_of[0], Cell(CellKind::clock).put(shared.clock_asked_ns));
  }
}

void Control::send_status(uint64_t reserve) {
  std::array<RankNews, statuses_max> statuses;
  for (size_t first = 0; first < local_ranks_.size(); first += statuses_max) {
    const size_t count = std::min<size_t>(local_ranks_.size() - first, statuses_max);
    for (size_t each = 0; each < count; ++each) {
      const auto index = static_cast<uint32_t>(first + each);
      const RankState state = parts_.local->state(index);
      const bool ended = ended_[index] && state != RankState::left;
      statuses[each] = {local_ranks_[index], ended ? ended_state : static_cast<uint32_t>(state),
                        parts_.local->latest_operation(index), parts_.local->completed_operation(index)};
    }
    const Cell cell = status_cell(std::span(statuses).first(count));
    for (const uint32_t host : overlay_.neighbours(host_)) lines_.send(host, cell, reserve);
  }
}

void Control::send_failure() {
  const Error error = parts_.local->failure();
  Cell cell(CellKind::failure);
  cell.put(static_cast<uint32_t>(error.status)).put(static_cast<uint32_t>(error.rank));
  cell.put(static_cast<uint32_t>(error.peer)).put(error.operation);
  cell.put(std::string_view(error.message).substr(0, failure_text_max));
  for (const uint32_t host : overlay_.neighbours(host_)) lines_.send(host, cell, failure_reserve);
  memory::store_release(header().failure_told, header().failure_told + 1);  // pairs with pass_on_failure()
}

void Control::receive(uint32_t neighbour) {
  const auto ended = lines_.receive(neighbour, [this, neighbour](ByteReader cell) { return take(neighbour, cell); });
  if (ended) news_.lose(neighbour, *ended);
}

/// False: nothing that comes can be understood any more.
bool Control::take(uint32_t neighbour, ByteReader cell) {
  const auto magic = cell.number<uint32_t>();
  const auto kind = static_cast<CellKind>(cell.number<uint32_t>());
  if (magic != cell_magic) return news_.lose(neighbour, EPROTO), false;
  parts_.share.memory.host(neighbour).sent_unheard = 0;
  switch (kind) {
    case CellKind::status:
      take_status(neighbour, cell);
      break;
    case CellKind::ask:
      take_question(cell);
      break;
    case CellKind::record:
      take_record(neighbour, cell);
      break;
    case CellKind::clock:
      take_clock(neighbour, cell);
      break;
    case CellKind::failure:
      take_failure(cell);
      break;
    case CellKind::down:
      news_.take_down(cell);
      break;
  }
  return true;
}

void Control::take_status(uint32_t neighbour, ByteReader body) {
  const uint32_t count = std::min(body.number<uint32_t>(), statuses_max);
  for (uint32_t each = 0; each < count; ++each) {
    RankNews news;
    news.rank = body.number<uint32_t>();
    news.state = body.number<uint32_t>();
    news.entered = body.number<uint64_t>();
    news.completed = body.number<uint64_t>();
    news_.take(neighbour, news);
  }
}

void Control::take_question(ByteReader body) {
  const Inquiry asked = inquiry_of(body);
  if (!is_known(asked) || asked.asker == host_) return;
  if (is_local(asked.rank)) return answer(asked);
  if (asked.hops != 0) send_towards(parts_.host_of[asked.rank], Cell(CellKind::ask).put(asked.passed_on()));
}

bool Control::is_known(const Inquiry &inquiry) const {
  return inquiry.rank < parts_.host_of.size() && inquiry.asker < overlay_.host_count();
}

void Control::answer(const Inquiry &asked) {
  const auto [rank, operation, asker, hops] = asked;
  const auto index = static_cast<uint32_t>(std::ranges::find(local_ranks_, rank) - local_ranks_.begin());
  // With those before it: ranks that disagree go back to where they parted. What was asked for comes last.
  const uint64_t before = std::min<uint64_t>(operation, RemoteRank::record_count) - 1;
  for (uint64_t each = operation - before; operation != 0 && each <= operation; ++each)
    if (const auto what = parts_.local->entered(index, each))
      send_towards(asker, Cell(CellKind::record).put(Inquiry{rank, each, asker, hops_max}).put(*what));
}

void Control::take_record(uint32_t neighbour, ByteReader body) {
  const Inquiry answered = inquiry_of(body);
  if (!is_known(answered) || is_local(answered.rank)) return;
  if (overlay_.is_mesh() && parts_.host_of[answered.rank] != neighbour) return;
  const OperationInfo what = operation_of(body);
  if (answered.asker == host_)
    remote(answered.rank).records[answered.operation % RemoteRank::record_count] = {answered.operation, what};
  else if (answered.hops != 0)
    send_towards(answered.asker, Cell(CellKind::record).put(answered.passed_on()).put(what));
}

/// A question is answered at once. An answer says what the clock of the neighbour was between the asking and now: the
/// offset is taken from the middle, and may be wrong by half of what the way there and back took.
void Control::take_clock(uint32_t neighbour, ByteReader body) {
  ControlHeader &shared = header();
  const uint64_t now = now_ns();
  const auto asked = body.number<uint64_t>();
  const auto received = body.number<uint64_t>();
  const auto answered = body.number<uint64_t>();
  if (answered == 0) return answer_clock(neighbour, asked, now);
  const auto offset = static_cast<int64_t>(body.number<uint64_t>());
  const auto uncertainty = body.number<uint64_t>();
  if (!parts_.clock_measured || neighbour != news_.first_hop(parts_.host_of[0]) || shared.clock_asked_ns == 0 ||
      asked != shared.clock_asked_ns || answered < received)
    return;
  shared.clock_asked_ns = 0;
  const uint64_t way_ns = (now - asked) - std::min(answered - received, now - asked);
  const uint64_t measured_ns = way_ns / 2 + 1 + uncertainty;
  if (shared.clock_measured_ns != 0 && measured_ns > aged_uncertainty(shared, now)) return;
  const auto there = static_cast<int64_t>(received - asked);
  const auto back = static_cast<int64_t>(answered - now);
  shared.clock = {there / 2 + back / 2 + offset, measured_ns};
  shared.clock_measured_ns = now;
  parts_.clock_measured(shared.clock);
}

/// By a host that knows how far the clock of rank 0's host is ahead of its own.
void Control::answer_clock(uint32_t neighbour, uint64_t asked_ns, uint64_t received_ns) {
  const ControlHeader &shared = header();
  const bool is_reference = host_ == parts_.host_of[0];
  if (!is_reference && shared.clock_measured_ns == 0) return;
  const ClockOffset own =
      is_reference ? ClockOffset{} : ClockOffset{shared.clock.offset_ns, aged_uncertainty(shared, received_ns)};
  Cell cell(CellKind::clock);
  cell.put(asked_ns).put(received_ns).put(now_ns());
  lines_.send(neighbour, cell.put(static_cast<uint64_t>(own.offset_ns)).put(own.uncertainty_ns));
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

void Control::watch(std::vector<pollfd> &descriptors) const {
  const std::lock_guard own(mutex_);
  for (const pollfd &process : processes_)
    if (process.fd >= 0) descriptors.push_back(process);
  if (!is_to_serve(now_ns())) return;
  descriptors.push_back({parts_.share.bell.get(), POLLIN, 0});
  for (const uint32_t host : overlay_.neighbours(host_))
    if (parts_.share.memory.host(host).lost == 0) descriptors.push_back(lines_.interest(host));
}

}  // namespace rondo::net
