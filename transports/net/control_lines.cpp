// SPDX-License-Identifier: Apache-2.0
#include "transports/net/control_lines.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>

#include "src/proto/memory.h"
#include "transports/net/tcp_state.h"

namespace rondo::net {
namespace {

// A check sees the kernel's state up to one heartbeat late. So the limit is reached after 1.0 to 1.2 s, or after 1.4 to
// 1.6 s if three retransmissions are needed. Up to three lost probes in a row do no harm.
constexpr SilenceLimits usual = silence_limits(default_network_timeout_ns, heartbeat_ns);
static_assert(usual.looks == 5 && usual.repeats == 3 && usual.probes == 4);
constexpr uint32_t cells_max = 4096;  // most cells that one call takes
constexpr size_t ready_count_max = 64;  // hosts that one system call reports

}  // namespace

Result<void> ControlLines::open() {
  ready_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!ready_.valid()) return system_error("epoll_create1", errno);
  for (uint32_t host = 0; host < sockets_.size(); ++host) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = host;
    if (sockets_[host].valid() && ::epoll_ctl(ready_.get(), EPOLL_CTL_ADD, sockets_[host].get(), &event) != 0)
      return system_error("epoll_ctl of a control connection", errno);
  }
  return {};
}

/// Returns the errno that explains why the connection ended. If one direction of the network is cut, the other end
/// notices that and resets the connection. So if this end has unacknowledged data, the network was cut. If a process
/// ended instead, its kernel acknowledged everything before the reset. `error` may be 0 because send() took the error
/// from the socket; from then on the socket reads as closed.
int ControlLines::reason_of_end(uint32_t host, int error) const {
  const RemoteHost &peer = memory_.host(host);
  const uint32_t repeats_of_a_cut = std::max(2u, limits_.repeats - 1);  // the kernel may end the connection earlier
  const uint32_t repeats = std::max(peer.silence.repeats(), repeats_in(tcp_state_of(sockets_[host].get())));
  // This limit is lower than the usual one, because a busy machine retransmits late and checks late. The other end may
  // also have begun to count earlier.
  const uint64_t vain_ns = uint64_t{std::max(1u, limits_.looks - 3)} * heartbeat_ns;
  const bool in_vain = peer.silence.unacknowledged_ns() >= (repeats != 0 ? 1 : vain_ns);
  if (repeats >= repeats_of_a_cut || in_vain) return ETIMEDOUT;
  return error == 0 ? static_cast<int>(peer.send_error) : error;
}

bool ControlLines::send(uint32_t host, const Cell &cell, uint64_t limit) const {
  RemoteHost &peer = memory_.host(host);
  if (peer.lost != 0 || peer.send_error != 0 || peer.sent_unheard >= limit || !send_rest(host)) return false;
  std::ranges::copy(cell.bytes(), peer.unsent.begin());
  peer.unsent_bytes = cell_bytes;
  if (send_rest(host) || peer.unsent_bytes != cell_bytes) {
    if (peer.unsent_bytes != 0) memory::store_relaxed(memory_.header().rests, 1);
    ++peer.sent_unheard;
    return true;
  }
  peer.unsent_bytes = 0;
  return false;
}

bool ControlLines::send_rest(uint32_t host) const {
  RemoteHost &peer = memory_.host(host);
  while (peer.unsent_bytes != 0 && peer.send_error == 0) {  // at most one cell
    const std::byte *const from = peer.unsent.data() + cell_bytes - peer.unsent_bytes;
    const ssize_t sent = ::send(sockets_[host].get(), from, peer.unsent_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      peer.unsent_bytes -= static_cast<uint64_t>(sent);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return false;
    } else if (errno != EINTR) {
      // Do not read here what the peer has sent: this call may be answering the cell that is being read.
      // Control::serve() reads the rest, which may report a departure or a failure.
      peer.send_error = static_cast<uint64_t>(errno);
    }
  }
  return peer.unsent_bytes == 0;
}

bool ControlLines::has_arrived(uint32_t host) const {
  const RemoteHost &peer = memory_.host(host);
  if (peer.lost != 0 || peer.send_error != 0) return true;
  if (!send_rest(host)) return false;
  const int socket = sockets_[host].get();
  const auto state = tcp_state_of(socket).tcpi_state;
  const bool open = state == TCP_ESTABLISHED || state == TCP_CLOSE_WAIT;
  return !open || !is_under_way(socket);
}

/// Removes a cell from the connection only after `take` has handled it. So a rank that takes over finds the whole cell.
std::optional<int> ControlLines::receive(uint32_t host, const std::function<bool(ByteReader)> &take) const {
  const int socket = sockets_[host].get();
  for (uint32_t count = 0; count < cells_max; ++count) {
    std::array<std::byte, cell_bytes> bytes;
    const ssize_t got = ::recv(socket, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
    if (got < 0) return reason_of_end(host, errno);
    if (got < static_cast<ssize_t>(cell_bytes)) {  // the rest is on its way, or will never arrive
      const bool over = got == 0 || tcp_state_of(socket).tcpi_state != TCP_ESTABLISHED;
      return over ? std::optional<int>(reason_of_end(host, 0)) : std::nullopt;
    }
    if (!take(ByteReader(bytes))) return std::nullopt;
    [[maybe_unused]] const ssize_t taken = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
  }
  return std::nullopt;  // leave time for other connections
}

bool ControlLines::is_silent(uint32_t host, uint64_t now_ns) const {
  return memory_.host(host).silence.look(sockets_[host].get(), now_ns, limits_);
}

void ControlLines::give_up(uint32_t host) const { reset_connection(sockets_[host].get()); }

bool ControlLines::has_rest(uint32_t host) const {
  const RemoteHost &peer = memory_.host(host);
  return peer.unsent_bytes != 0 && peer.lost == 0 && peer.send_error == 0;
}

/// Serves each host whose connection is ready. Removes a lost host from the epoll instance. Other ranks of this host
/// keep the connection to the lost host open, so the kernel would report its end again and again.
void ControlLines::for_each_ready(const std::function<void(uint32_t)> &serve) const {
  std::array<epoll_event, ready_count_max> events;
  for (size_t seen = 0; seen <= sockets_.size();) {  // the kernel reports all others before it repeats one
    const int count = ::epoll_wait(ready_.get(), events.data(), ready_count_max, 0);
    for (int each = 0; each < count; ++each) {
      const uint32_t host = events[static_cast<size_t>(each)].data.u32;
      if (memory_.host(host).lost == 0) serve(host);
      if (memory_.host(host).lost != 0)
        static_cast<void>(::epoll_ctl(ready_.get(), EPOLL_CTL_DEL, sockets_[host].get(), nullptr));
    }
    if (count < static_cast<int>(ready_count_max)) return;
    seen += ready_count_max;
  }
}

void ControlLines::watch(std::vector<pollfd> &descriptors) const {
  descriptors.push_back({ready_.get(), POLLIN, 0});
  if (memory::load_relaxed(memory_.header().rests) == 0) return;
  for (uint32_t host = 0; host < sockets_.size(); ++host)
    if (has_rest(host)) descriptors.push_back({sockets_[host].get(), POLLOUT, 0});
}

void ControlLines::send_rests() const {
  if (memory::load_relaxed(memory_.header().rests) == 0) return;
  bool left = false;
  for (uint32_t host = 0; host < sockets_.size(); ++host) left |= has_rest(host) && !send_rest(host) && has_rest(host);
  memory::store_relaxed(memory_.header().rests, left ? 1 : 0);
}

}  // namespace rondo::net
