// SPDX-License-Identifier: Apache-2.0
#include "transports/tcp/tcp_network.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/base/parse.h"
#include "src/proto/memory.h"
#include "src/proto/simple.h"
#include "transports/tcp/socket.h"

namespace rondo::tcp {
namespace {

constexpr int receives_per_poll = 8;
constexpr uint64_t silence_look_ns = 200'000'000;
constexpr uint32_t events_per_frame = 2;  // at most, if slots arrive in order

class TcpNetwork final : public net::Network {
 public:
  TcpNetwork(const std::vector<net::NearLink> &links, std::vector<PeerSocket> sockets);

  const char *name() const override { return "tcp"; }
  void serve_all() override { serves_all_ = true; }
  bool put(uint32_t link, const net::Message &message) override;
  bool credit(uint32_t link, uint64_t consumed) override;
  uint32_t poll(std::span<net::Event> events) override;
  bool flushed() const override;
  bool delivered() const override;
  void watch(std::vector<pollfd> &descriptors) const override;
  Error why_lost(uint32_t peer) const override;

 private:
  /// The slots of a link that arrive over one socket.
  struct Stream {
    uint64_t begun = 0;     ///< counter of the next slot to arrive, or of the one that is arriving
    uint64_t arrived = 0;   ///< counter of the next slot that has not arrived as a whole
    uint64_t consumed = 0;  ///< the highest `consumed` that the peer sent over this socket
  };
  struct Slot {
    uint32_t signature = 0;
    uint32_t bytes = 0;
  };
  struct Link {
    net::NearLink ends;
    size_t first_socket = 0;     ///< index in sockets_; the sockets of a peer follow each other
    uint64_t arrived = 0;        ///< counter of the next slot to report
    uint64_t consumed = 0;       ///< the highest `consumed` that the peer has sent
    std::vector<Stream> streams; ///< by index of the socket
    std::vector<Slot> slots;     ///< slots that have arrived
  };

  void send(Socket &socket);
  void receive(Socket &socket, net::EventList &events);
  /// Takes the staged bytes. Returns false if `events` is full or the socket is lost.
  bool parse(Socket &socket, net::EventList &events);
  bool begin_frame(Socket &socket, net::EventList &events);
  void end_payload(Socket &socket, net::EventList &events);
  /// Checks the tag of a complete frame. The frame takes effect only if its tag is right.
  void end_tag(Socket &socket, const wire::FrameTag &tag, net::EventList &events);
  void take_credit(const Socket &socket, net::EventList &events);
  void take_slot(const Socket &socket, net::EventList &events);
  /// Reports arrived slots up to the first one that is missing. Returns false if `events` is full.
  bool tell_arrived(uint32_t index, net::EventList &events);
  void look_for_silence();
  static void note(Socket &socket, const std::string &what);
  static void lose(Socket &socket, const std::string &what);
  /// Says whether the socket serves only links that are not open yet.
  [[nodiscard]] bool is_quiet(const Socket &socket) const { return !socket.of_collectives && !serves_all_; }
  [[nodiscard]] Socket &socket_of(const Link &link, uint64_t counter) {
    return *sockets_[link.first_socket + counter % per_peer_];
  }

  std::vector<Link> links_;
  std::vector<std::unique_ptr<Socket>> sockets_;  ///< by peer, then by index
  size_t per_peer_ = 1;
  bool serves_all_ = false;  ///< stored by serve_all()
  bool watches_ = false;  ///< true if the network must check some sockets for silence (PeerSocket::watched)
  uint64_t next_look_ns_ = 0;
};

TcpNetwork::TcpNetwork(const std::vector<net::NearLink> &links, std::vector<PeerSocket> sockets) {
  std::ranges::sort(sockets, {}, [](const PeerSocket &each) { return std::pair(each.peer, each.index); });
  if (!sockets.empty()) per_peer_ = sockets.back().index + 1;
  for (PeerSocket &socket : sockets) {
    watches_ |= socket.watched;
    size_t frames = 0;  // room for each slot of each link, and for a credit of each slot
    for (const net::NearLink &link : links)
      if (link.peer == socket.peer) frames += size_t{2} * link.outgoing.geometry.slot_count;
    sockets_.push_back(std::make_unique<Socket>(std::move(socket), frames + 1));
  }
  for (const net::NearLink &ends : links) {
    const auto found =
        std::ranges::find(sockets_, ends.peer, [](const auto &socket) { return socket->ends.peer; });
    assert(found != sockets_.end());
    const uint64_t out = net::first_counter(ends.outgoing), in = net::first_counter(ends.incoming);
    Link link{ends, static_cast<size_t>(found - sockets_.begin()), in, out, {}, {}};
    for (size_t index = 0; index < per_peer_; ++index) {
      Socket &socket = *sockets_[link.first_socket + index];
      socket.of_collectives |= ends.use == net::LinkUse::collectives;
      std::vector<uint32_t> &of_socket = socket.links;
      if (of_socket.size() <= ends.channel) of_socket.resize(ends.channel + 1);
      of_socket[ends.channel] = static_cast<uint32_t>(links_.size());
      const uint64_t first = net::first_counter_of(in, index, per_peer_);
      link.streams.push_back({first, first, out});
    }
    link.slots.resize(ends.incoming.geometry.slot_count);
    links_.push_back(std::move(link));
  }
}

bool TcpNetwork::put(uint32_t link, const net::Message &message) {
  const Link &of = links_[link];
  const FrameHeader header{static_cast<uint16_t>(FrameKind::slot), static_cast<uint16_t>(of.ends.channel),
                           message.signature, message.bytes, 0, message.counter, message.consumed};
  Socket &socket = socket_of(of, message.counter);
  return socket.mute || socket.queue.push({header, message.payload});
}

bool TcpNetwork::credit(uint32_t link, uint64_t consumed) {
  const Link &of = links_[link];
  const FrameHeader header{static_cast<uint16_t>(FrameKind::credit), static_cast<uint16_t>(of.ends.channel), 0, 0, 0, 0,
                           consumed};
  Socket &socket = socket_of(of, 0);
  return socket.mute || socket.queue.push({header, nullptr});
}

uint32_t TcpNetwork::poll(std::span<net::Event> events) {
  net::EventList list(events);
  if (per_peer_ > 1)  // report what had no room before
    for (uint32_t index = 0; index < links_.size(); ++index)
      if (!tell_arrived(index, list)) return list.count();
  if (watches_) look_for_silence();
  for (const auto &each : sockets_) {
    Socket &socket = *each;
    if (is_quiet(socket)) continue;
    if (!socket.mute) send(socket);
    if (!socket.lost) receive(socket, list);
    if (!socket.lost || socket.told || !list.has_room(events_per_frame)) continue;
    // A peer is reported as lost once, with the reason of its socket that was lost first.
    for (const auto &other : sockets_) {
      if (other->ends.peer != socket.ends.peer) continue;
      other->told = true;
      other->why = socket.why;
    }
    list.add({net::Event::Kind::lost, socket.links.front()});
  }
  return list.count();
}

void TcpNetwork::send(Socket &socket) {
  while (!socket.queue.empty()) {  // at most the queue
    const ssize_t sent = send_some(socket);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) note(socket, std::string("sending failed: ") + std::strerror(errno));
      return;
    }
    socket.queue.sent(static_cast<size_t>(sent));
  }
}

void TcpNetwork::receive(Socket &socket, net::EventList &events) {
  for (int attempt = 0; attempt < receives_per_poll; ++attempt) {
    if (!parse(socket, events)) return;
    size_t wanted = 0;
    const ssize_t got = receive_some(socket, wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0) {
      lose(socket,
           got == 0 ? "it closed the connection" : std::string("receiving failed: ") + std::strerror(errno));
      return;
    }
    const auto bytes = static_cast<size_t>(got);
    const size_t direct = std::min(bytes, socket.payload_bytes);
    socket.payload += direct;
    socket.payload_bytes -= direct;
    socket.staged_end += bytes - direct;
    if (direct != 0 && socket.payload_bytes == 0) end_payload(socket, events);
    if (bytes < wanted) {  // nothing more has arrived
      static_cast<void>(parse(socket, events));
      return;
    }
  }
}

bool TcpNetwork::parse(Socket &socket, net::EventList &events) {
  while (events.has_room(events_per_frame) && !socket.lost) {  // at most the staged bytes
    const size_t staged = socket.staged_end - socket.staged_first;
    if (socket.payload_bytes != 0) {
      const size_t bytes = std::min(staged, socket.payload_bytes);
      std::memcpy(socket.payload, socket.staging.data() + socket.staged_first, bytes);
      socket.staged_first += bytes;
      socket.payload += bytes;
      socket.payload_bytes -= bytes;
      if (socket.payload_bytes == 0) {
        end_payload(socket, events);
        continue;
      }
      socket.staged_first = socket.staged_end = 0;
      return true;
    }
    if (staged < (socket.tag_follows ? wire::tag_bytes : sizeof(FrameHeader))) {
      std::memmove(socket.staging.data(), socket.staging.data() + socket.staged_first, staged);
      socket.staged_first = 0;
      socket.staged_end = staged;
      return true;
    }
    if (socket.tag_follows) {
      wire::FrameTag tag;
      std::memcpy(tag.data(), socket.staging.data() + socket.staged_first, tag.size());
      socket.staged_first += tag.size();
      end_tag(socket, tag, events);
      continue;
    }
    std::memcpy(&socket.frame, socket.staging.data() + socket.staged_first, sizeof(FrameHeader));
    socket.staged_first += sizeof(FrameHeader);
    if (!begin_frame(socket, events))
      lose(socket, std::string("it sent a frame that this version of Rondo does not understand") +
                       (socket.tagger ? ", or the frame was changed on its way" : ""));
  }
  return false;
}

bool TcpNetwork::begin_frame(Socket &socket, net::EventList &events) {
  const FrameHeader &frame = socket.frame;
  if (frame.channel >= socket.links.size()) return false;
  const uint32_t index = socket.links[frame.channel];
  Link &link = links_[index];
  Stream &stream = link.streams[socket.ends.index];
  if (frame.consumed < stream.consumed) return false;
  if (!socket.tagger) take_credit(socket, events);
  if (frame.kind == static_cast<uint16_t>(FrameKind::credit)) {
    socket.tag_follows = socket.tagger.has_value();
    return frame.bytes == 0;
  }
  const ConnectionView &incoming = link.ends.incoming;
  // This pairs with S6 in SimpleReceiver::release: the slot's old content was read.
  const uint64_t free_from = memory::load_sync(incoming.simple_head()) + incoming.geometry.slot_count;
  if (frame.kind != static_cast<uint16_t>(FrameKind::slot) || frame.counter != stream.begun ||
      frame.counter >= free_from || frame.bytes > incoming.geometry.slot_bytes)
    return false;
  stream.begun += per_peer_;
  socket.payload = incoming.payload(frame.counter);
  socket.payload_bytes = frame.bytes;
  if (frame.bytes == 0) end_payload(socket, events);
  return true;
}

void TcpNetwork::end_payload(Socket &socket, net::EventList &events) {
  socket.tag_follows = socket.tagger.has_value();
  if (!socket.tagger) take_slot(socket, events);
}

void TcpNetwork::end_tag(Socket &socket, const wire::FrameTag &tag, net::EventList &events) {
  socket.tag_follows = false;
  const FrameHeader &frame = socket.frame;
  const std::byte *const payload = socket.payload - frame.bytes;
  if (!wire::equal_tags(tag, socket.tagger->next(bytes_of_header(frame), {payload, frame.bytes}))) {
    lose(socket, "a frame has a wrong tag: its bytes were changed on their way");
    return;
  }
  take_credit(socket, events);
  if (frame.kind == static_cast<uint16_t>(FrameKind::slot)) take_slot(socket, events);
}

void TcpNetwork::take_credit(const Socket &socket, net::EventList &events) {
  const FrameHeader &frame = socket.frame;
  const uint32_t index = socket.links[frame.channel];
  Link &link = links_[index];
  link.streams[socket.ends.index].consumed = frame.consumed;
  if (frame.consumed > link.consumed) events.add({net::Event::Kind::credit, index, frame.consumed});
  link.consumed = std::max(link.consumed, frame.consumed);
}

void TcpNetwork::take_slot(const Socket &socket, net::EventList &events) {
  const FrameHeader &frame = socket.frame;
  const uint32_t index = socket.links[frame.channel];
  Link &link = links_[index];
  link.slots[link.ends.incoming.slot(frame.counter)] = {frame.signature, frame.bytes};
  link.streams[socket.ends.index].arrived += per_peer_;
  static_cast<void>(tell_arrived(index, events));
}

bool TcpNetwork::tell_arrived(uint32_t index, net::EventList &events) {
  Link &link = links_[index];
  while (link.streams[link.arrived % per_peer_].arrived > link.arrived) {  // at most the slots of the link
    if (!events.has_room(1)) return false;
    const Slot &slot = link.slots[link.ends.incoming.slot(link.arrived)];
    events.add({net::Event::Kind::arrived, index, link.arrived, slot.signature, slot.bytes});
    ++link.arrived;
  }
  return true;
}

void TcpNetwork::look_for_silence() {
  const uint64_t now = now_ns();
  if (now < next_look_ns_) return;
  next_look_ns_ = now + silence_look_ns;
  for (const auto &each : sockets_) {
    Socket &socket = *each;
    if (!socket.ends.watched || socket.lost) continue;
    const uint64_t patience_ns = socket.ends.patience_ns;
    if (socket.silence.look(socket.ends.socket.get(), now, net::silence_limits(patience_ns, silence_look_ns)))
      lose(socket, "nothing that was sent has been acknowledged for " + show_seconds(patience_ns) +
                       " s; is this network between the hosts cut?");
  }
}

void TcpNetwork::note(Socket &socket, const std::string &what) {
  if (socket.mute) return;
  socket.mute = true;
  socket.queue.clear();
  socket.why = {RONDO_ERROR_REMOTE, socket.ends.name + ": " + what};
  socket.why.peer = static_cast<int32_t>(socket.ends.peer);
}

void TcpNetwork::lose(Socket &socket, const std::string &what) {
  note(socket, what);
  socket.lost = true;
}

bool TcpNetwork::flushed() const {
  return std::all_of(sockets_.begin(), sockets_.end(), [](const auto &socket) { return socket->queue.empty(); });
}

/// Says whether everything is acknowledged. If a rank closes earlier, a credit that arrives after closing makes the
/// kernel reset the connection and drop unsent data.
bool TcpNetwork::delivered() const {
  return flushed() && std::ranges::none_of(sockets_, [](const auto &socket) {
    return !socket->mute && net::is_under_way(socket->ends.socket.get());
  });
}

void TcpNetwork::watch(std::vector<pollfd> &descriptors) const {
  for (const auto &socket : sockets_) {
    if (socket->lost || is_quiet(*socket)) continue;
    const int events = socket->queue.empty() ? POLLIN : POLLIN | POLLOUT;
    descriptors.push_back({socket->ends.socket.get(), static_cast<short>(events), 0});
  }
}

Error TcpNetwork::why_lost(uint32_t peer) const {
  for (const auto &each : sockets_)
    if (each->ends.peer == peer && each->lost) return each->why;
  return {RONDO_ERROR_INTERNAL, "the connection is not lost"};
}

}  // namespace

Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &links,
                                                   std::vector<PeerSocket> sockets) {
  for (const PeerSocket &socket : sockets) {
    const int on = 1;
    if (::fcntl(socket.socket.get(), F_SETFL, O_NONBLOCK) != 0 ||
        ::setsockopt(socket.socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
      return system_error("setting up the connection to " + socket.name, errno);
  }
  return std::unique_ptr<net::Network>(std::make_unique<TcpNetwork>(links, std::move(sockets)));
}

}  // namespace rondo::tcp
