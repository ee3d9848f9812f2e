// SPDX-License-Identifier: Apache-2.0
#include "transports/net/control.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "transports/net/tcp_state.h"

namespace rondo::net {
namespace {

enum Kind : uint8_t { status_kind = 1, ask_kind = 2, record_kind = 3, failure_kind = 4, clock_kind = 5 };

constexpr size_t header_bytes = 5;
constexpr size_t frame_bytes_max = 4096;
constexpr size_t output_bytes_max = 1u << 20;
constexpr int socket_buffer_bytes = 1 << 20;
constexpr uint64_t ask_again_ns = 50'000'000;
constexpr uint64_t heartbeats_unanswered_max = 300;  // a minute's; a stopped process may be looked at for longer
constexpr size_t text_bytes_max = 1024;

/// Told all the time: without an allocation.
using StatusBody = std::array<std::byte, 3 * sizeof(uint64_t)>;
StatusBody body_of(const RankStatus &status) {
  StatusBody body;
  const std::array<uint64_t, 3> fields{static_cast<uint64_t>(status.state), status.entered, status.completed};
  std::memcpy(body.data(), fields.data(), body.size());
  return body;
}

using ClockBody = std::array<std::byte, 3 * sizeof(uint64_t)>;
ClockBody body_of(const std::array<uint64_t, 3> &times) {
  ClockBody body;
  std::memcpy(body.data(), times.data(), body.size());
  return body;
}

/// Clocks of two hosts part by that much a second at worst: an old measurement loses to a new one of this uncertainty.
constexpr uint64_t clock_drift_divisor = 50'000;  // 20 parts in a million

Bytes body_of(uint64_t operation, const OperationInfo &what) {
  Bytes body;
  append_number(body, operation);
  for (const uint64_t field :
       {uint64_t{what.signature.collective}, uint64_t{what.signature.type}, uint64_t{what.signature.op},
        uint64_t{what.signature.root}, what.signature.count, what.signature.counts_hash,
        static_cast<uint64_t>(what.choice.algorithm), static_cast<uint64_t>(what.choice.protocol),
        uint64_t{what.choice.channels}, what.choice.chunk_bytes, static_cast<uint64_t>(what.choice.kernel),
        uint64_t{what.history}})
    append_number(body, field);
  return body;
}

OperationInfo entered_of(ByteReader &body) {
  OperationInfo what;
  what.signature.collective = static_cast<uint32_t>(body.number<uint64_t>());
  what.signature.type = static_cast<uint32_t>(body.number<uint64_t>());
  what.signature.op = static_cast<uint32_t>(body.number<uint64_t>());
  what.signature.root = static_cast<uint32_t>(body.number<uint64_t>());
  what.signature.count = body.number<uint64_t>();
  what.signature.counts_hash = body.number<uint64_t>();
  what.choice.algorithm = static_cast<rondo_algorithm_t>(body.number<uint64_t>());
  what.choice.protocol = static_cast<rondo_protocol_t>(body.number<uint64_t>());
  what.choice.channels = static_cast<uint32_t>(body.number<uint64_t>());
  what.choice.chunk_bytes = body.number<uint64_t>();
  what.choice.kernel = static_cast<rondo_kernel_t>(body.number<uint64_t>());
  what.history = static_cast<uint32_t>(body.number<uint64_t>());
  return what;
}

/// Of what errno says about a connection: was the silence too long, or did the other end close?
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
    default:
      return std::string(" cannot be reached (") + std::strerror(error) + ")";
  }
}

/// Where only one direction is cut, the other end notices, gives up, and its end arrives here: the network was cut all
/// the same.
bool is_unanswered(int descriptor) { return repeats_in(tcp_state_of(descriptor)) >= 2; }

}  // namespace

Result<std::unique_ptr<Control>> Control::make(uint32_t rank_count, std::vector<ControlSocket> sockets, Owner owner) {
  std::unique_ptr<Control> control(new Control(rank_count, std::move(owner)));
  for (ControlSocket &each : sockets) {
    const int on = 1;
    const int timeout_ms = 5'000;  // beside the looks: the kernel's own counts time in which this machine stood still
    const int descriptor = each.socket.get();
    if (::fcntl(descriptor, F_SETFL, O_NONBLOCK) != 0 ||
        ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        ::setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms) != 0 ||
        ::setsockopt(descriptor, SOL_SOCKET, SO_RCVBUF, &socket_buffer_bytes, sizeof socket_buffer_bytes) != 0)
      return system_error("setting up the control connection to rank " + std::to_string(each.peer), errno);
    control->index_of_[each.peer] = static_cast<int32_t>(control->peers_.size());
    Peer peer;
    peer.rank = each.peer;
    peer.socket = std::move(each.socket);
    peer.input.reserve(2 * frame_bytes_max);
    peer.output.reserve(frame_bytes_max);
    control->peers_.push_back(std::move(peer));
  }
  return control;
}

const Control::Peer *Control::find(uint32_t rank) const {
  return index_of_[rank] < 0 ? nullptr : &peers_[static_cast<size_t>(index_of_[rank])];
}

RankStatus Control::status(uint32_t peer) const {
  const std::lock_guard lock(mutex_);
  const Peer *const found = find(peer);
  return found == nullptr ? RankStatus() : found->status;
}

std::optional<OperationInfo> Control::entered(uint32_t rank, uint64_t operation) {
  const std::lock_guard lock(mutex_);
  const Peer *const found = find(rank);
  if (found == nullptr || operation == 0) return std::nullopt;
  Peer &peer = peers_[static_cast<size_t>(found - peers_.data())];
  const Record &record = peer.records[operation % kept_records];
  if (record.operation == operation) return record.what;
  const uint64_t now = now_ns();
  const bool asked = peer.asked_operation == operation && now - peer.asked_ns < ask_again_ns;
  if (peer.lost || peer.status.entered < operation || asked) return std::nullopt;
  peer.asked_operation = operation;
  peer.asked_ns = now;
  Bytes body;
  append_number(body, operation);
  send(peer, ask_kind, body);
  return std::nullopt;
}

void Control::add_dead(std::vector<uint32_t> &dead) const {
  const std::lock_guard lock(mutex_);
  for (const Peer &peer : peers_)
    if (peer.lost && peer.status.state != RankState::left) dead.push_back(peer.rank);
}

bool Control::gone(uint32_t peer) const {
  const std::lock_guard lock(mutex_);
  const Peer *const found = find(peer);
  return found != nullptr && (found->lost || found->status.state == RankState::left);
}

std::string Control::why_dead(uint32_t peer) const {
  const std::lock_guard lock(mutex_);
  const Peer *const found = find(peer);
  return found == nullptr || !found->lost ? " has ended" : found->why;
}

void Control::tell_status() {
  const RankStatus own = owner_.status();
  const std::lock_guard lock(mutex_);
  for (Peer &peer : peers_) send(peer, status_kind, body_of(own));
}

void Control::report_failure(const Error &error) {
  Bytes body;
  append_number(body, static_cast<uint32_t>(error.status));
  append_number(body, static_cast<uint32_t>(error.rank));
  append_number(body, static_cast<uint32_t>(error.peer));
  append_number(body, error.operation);
  append_bytes(body, bytes_of(std::string_view(error.message).substr(0, text_bytes_max)));
  const std::lock_guard lock(mutex_);
  for (Peer &peer : peers_) send(peer, failure_kind, body);
}

void Control::step(uint64_t now_ns) {
  const RankStatus own = owner_.status();
  const std::lock_guard lock(mutex_);
  const bool beats = now_ns >= next_beat_ns_;
  if (beats) next_beat_ns_ = now_ns + heartbeat_ns;
  for (Peer &peer : peers_) {
    if (!peer.lost) receive(peer);
    if (!peer.lost && peer.send_error != 0) lose(peer, reason_of(peer.send_error));
    // Before the next heartbeat is sent, so that the first of these looks sees one that was sent when the last one was.
    if (beats && !peer.lost && peer.silence.look(peer.socket.get(), now_ns)) lose(peer, reason_of(ETIMEDOUT));
    if (beats && ++peer.heartbeats_unanswered < heartbeats_unanswered_max) send(peer, status_kind, body_of(own));
    if (beats && peer.rank == 0 && owner_.clock_measured && !peer.lost) {
      clock_asked_ns_ = rondo::now_ns();
      send(peer, clock_kind, body_of(std::array<uint64_t, 3>{clock_asked_ns_, 0, 0}));
    }
    if (!peer.lost) flush(peer);
  }
}

void Control::send(Peer &peer, uint8_t kind, ByteView body) {
  if (peer.send_error != 0 || peer.lost || peer.output.size() > output_bytes_max) return;
  append_number(peer.output, static_cast<uint32_t>(body.size()));
  append_number(peer.output, kind);
  append_bytes(peer.output, body);
  flush(peer);
}

void Control::flush(Peer &peer) {
  while (!peer.output.empty() && !peer.lost) {  // bounded by the output
    const ssize_t sent =
        ::send(peer.socket.get(), peer.output.data(), peer.output.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {
      // What it said last may still be there to be read: its departure, or a failure. step() reads that: here it may be
      // an answer that could not be sent, to what is being read.
      peer.send_error = errno;
      peer.output.clear();
      return;
    }
    peer.output.erase(peer.output.begin(), peer.output.begin() + sent);
  }
}

void Control::receive(Peer &peer) {
  for (;;) {  // bounded by what has come: a peer sends a few hundred bytes a second
    std::array<std::byte, frame_bytes_max> buffer;
    const ssize_t got = ::recv(peer.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      const int error = got == 0 ? 0 : errno;
      return lose(peer, reason_of(is_unanswered(peer.socket.get()) ? ETIMEDOUT : error));
    }
    append_bytes(peer.input, ByteView(buffer).first(static_cast<size_t>(got)));
    while (peer.input.size() >= header_bytes) {
      const size_t body_bytes = number_at<uint32_t>(peer.input.data());
      if (body_bytes > frame_bytes_max) return lose(peer, " sent what is no message of this version of Rondo");
      if (peer.input.size() < header_bytes + body_bytes) break;
      take(peer, number_at<uint8_t>(peer.input.data() + 4),
           ByteReader(ByteView(peer.input).subspan(header_bytes, body_bytes)));
      peer.input.erase(peer.input.begin(), peer.input.begin() + static_cast<std::ptrdiff_t>(header_bytes + body_bytes));
    }
  }
}

void Control::take(Peer &peer, uint8_t kind, ByteReader body) {
  peer.heartbeats_unanswered = 0;
  switch (kind) {
    case status_kind: {
      peer.status.state = static_cast<RankState>(body.number<uint64_t>());
      peer.status.entered = body.number<uint64_t>();
      peer.status.completed = body.number<uint64_t>();
      return;
    }
    case ask_kind:
      return answer(peer, body.number<uint64_t>());
    case record_kind: {
      const auto operation = body.number<uint64_t>();
      const OperationInfo what = entered_of(body);
      if (!body.failed()) peer.records[operation % kept_records] = {operation, what};
      return;
    }
    case clock_kind:
      return take_clock(peer, body);
    case failure_kind: {
      Error error;
      error.status = static_cast<rondo_status_t>(body.number<uint32_t>());
      error.rank = static_cast<int32_t>(body.number<uint32_t>());
      error.peer = static_cast<int32_t>(body.number<uint32_t>());
      error.operation = body.number<uint64_t>();
      error.message = text_of(body.rest());
      if (!body.failed()) owner_.failed(error);
      return;
    }
    default:
      return;  // of a later version
  }
}

void Control::answer(Peer &peer, uint64_t operation) {
  // With those before it: ranks that disagree go back to where they parted. What was asked for comes last.
  for (uint64_t each = operation - std::min<uint64_t>(operation, kept_records) + 1; each <= operation; ++each)
    if (const auto what = owner_.entered(each)) send(peer, record_kind, body_of(each, *what));
}

/// A question is answered at once. An answer says what rank 0's clock was between the asking and now: the offset is
/// taken from the middle, and may be wrong by half of what the way there and back took.
void Control::take_clock(Peer &peer, ByteReader body) {
  const uint64_t now = now_ns();
  const auto asked = body.number<uint64_t>();
  const auto received = body.number<uint64_t>();
  const auto answered = body.number<uint64_t>();
  if (body.failed()) return;
  if (answered == 0) return send(peer, clock_kind, body_of(std::array<uint64_t, 3>{asked, now, now_ns()}));
  if (peer.rank != 0 || clock_asked_ns_ == 0 || asked != clock_asked_ns_ || answered < received) return;
  clock_asked_ns_ = 0;
  const uint64_t way_ns = (now - asked) - std::min(answered - received, now - asked);
  const uint64_t aged_ns = clock_.uncertainty_ns + (now - clock_measured_ns_) / clock_drift_divisor;
  if (clock_measured_ns_ != 0 && way_ns / 2 + 1 > aged_ns) return;
  const auto there = static_cast<int64_t>(received - asked);
  const auto back = static_cast<int64_t>(answered - now);
  clock_ = {there / 2 + back / 2, way_ns / 2 + 1};
  clock_measured_ns_ = now;
  owner_.clock_measured(clock_);
}

void Control::lose(Peer &peer, std::string why) {
  if (peer.lost) return;
  peer.lost = true;
  peer.why = std::move(why);
}

void Control::watch(std::vector<pollfd> &descriptors) const {
  const std::lock_guard lock(mutex_);
  for (const Peer &peer : peers_) {
    if (peer.lost) continue;
    const int events = peer.output.empty() ? POLLIN : POLLIN | POLLOUT;
    descriptors.push_back({peer.socket.get(), static_cast<short>(events), 0});
  }
}

}  // namespace rondo::net
