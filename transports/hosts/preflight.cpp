// SPDX-License-Identifier: Apache-2.0
#include "transports/hosts/connect_steps.h"

#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "src/base/clock.h"
#include "src/bootstrap/endpoint.h"

namespace rondo::hosts {
namespace {

constexpr uint64_t stall_limit_ns = 5'000'000'000;  // the kernel repeats a lost packet several times within this time
constexpr int look_ms = 200;
constexpr size_t block_bytes = 16 * 1024;

std::byte expected_at(size_t index) { return static_cast<std::byte>(index * 131 + (index >> 8)); }

class Pair {
 public:
  Pair(const net::PeerSocket &peer, size_t slot_bytes) : peer_(peer), slot_bytes_(slot_bytes), moved_ns_(now_ns()) {}

  [[nodiscard]] bool done() const { return sent_ == slot_bytes_ && received_ == slot_bytes_; }
  [[nodiscard]] uint64_t moved_ns() const { return moved_ns_; }
  [[nodiscard]] pollfd interest() const {
    const int events = (sent_ < slot_bytes_ ? POLLOUT : 0) | (received_ < slot_bytes_ ? POLLIN : 0);
    return {done() ? -1 : peer_.socket.get(), static_cast<short>(events), 0};
  }
  Result<void> advance(const PreflightRequest &request);
  [[nodiscard]] Error stalled(const PreflightRequest &request) const;

 private:
  [[nodiscard]] Error broken(const PreflightRequest &request, const std::string &how) const;
  [[nodiscard]] std::string name() const;

  const net::PeerSocket &peer_;
  const size_t slot_bytes_;
  size_t sent_ = 0;
  size_t received_ = 0;
  uint64_t moved_ns_;
};

std::string Pair::name() const {
  SocketAddress address;
  address.bytes = sizeof address.storage;
  if (::getpeername(peer_.socket.get(), address.get(), &address.bytes) != 0) return peer_.name;
  return peer_.name + " at " + endpoint_of(address).host;
}

Error Pair::broken(const PreflightRequest &request, const std::string &how) const {
  Error error{RONDO_ERROR_REMOTE, request.own_name + " and " + name() + ", a whole slot each way: " + how};
  error.peer = static_cast<int32_t>(peer_.peer);
  return error;
}

/// Sends and receives as much as possible without blocking. Both ends send at once, so neither waits for the other.
Result<void> Pair::advance(const PreflightRequest &request) {
  std::array<std::byte, block_bytes> block;
  while (sent_ < slot_bytes_) {
    const size_t bytes = std::min(block.size(), slot_bytes_ - sent_);
    for (size_t at = 0; at < bytes; ++at) block[at] = expected_at(sent_ + at);
    const ssize_t moved = ::send(peer_.socket.get(), block.data(), bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (moved < 0 && errno != EAGAIN && errno != EINTR) return broken(request, std::strerror(errno));
    if (moved <= 0) break;
    sent_ += static_cast<size_t>(moved);
    moved_ns_ = now_ns();
  }
  while (received_ < slot_bytes_) {  // reads nothing beyond the slot
    const size_t bytes = std::min(block.size(), slot_bytes_ - received_);
    const ssize_t moved = ::recv(peer_.socket.get(), block.data(), bytes, MSG_DONTWAIT);
    if (moved == 0) return broken(request, "the other end has closed the connection");
    if (moved < 0 && errno != EAGAIN && errno != EINTR) return broken(request, std::strerror(errno));
    if (moved < 0) break;
    for (size_t at = 0; at < static_cast<size_t>(moved); ++at)
      if (block[at] != expected_at(received_ + at))
        return broken(
            request,
            "the bytes that arrived differ from those that were sent; find what changes packets between the hosts");
    received_ += static_cast<size_t>(moved);
    moved_ns_ = now_ns();
  }
  return {};
}

Error Pair::stalled(const PreflightRequest &request) const {
  int unacknowledged = 0;
  if (::ioctl(peer_.socket.get(), SIOCOUTQ, &unacknowledged) != 0) unacknowledged = 0;
  tcp_info info{};
  socklen_t bytes = sizeof info;
  static_cast<void>(::getsockopt(peer_.socket.get(), IPPROTO_TCP, TCP_INFO, &info, &bytes));
  const size_t arrived = sent_ - std::min(sent_, static_cast<size_t>(unacknowledged));
  Error error{RONDO_ERROR_TIMEOUT,
              request.own_name + " and " + name() + " reach each other with small packets, but a slot of " +
                  std::to_string(slot_bytes_) + " bytes does not pass: " + std::to_string(arrived) +
                  " bytes arrived there, " + std::to_string(received_) +
                  " here, and nothing moved for 5 s. Packets carry up to " + std::to_string(info.tcpi_snd_mss) +
                  " bytes. Give the interfaces of both hosts the MTU that the network between them carries (ip link "
                  "set dev NAME mtu N), let the firewall pass large packets and ICMP \"fragmentation needed\", or "
                  "choose another network with RONDO_INTERFACE"};
  error.peer = static_cast<int32_t>(peer_.peer);
  return error;
}

}  // namespace

Result<void> preflight(const std::vector<const net::PeerSocket *> &sockets, const PreflightRequest &request,
                       Store &store) {
  std::vector<Pair> pairs;
  pairs.reserve(sockets.size());
  for (const net::PeerSocket *socket : sockets) pairs.emplace_back(*socket, request.slot_bytes);
  std::vector<pollfd> descriptors(pairs.size(), {-1, 0, POLLOUT});
  StoreWatch watch(store);
  for (;;) {  // ends when all slots are through, or nothing moves
    bool done = true;
    for (size_t index = 0; index < pairs.size(); ++index) {
      Pair &pair = pairs[index];
      if (descriptors[index].revents != 0)
        if (auto broken = pair.advance(request); !broken.ok()) {
          RONDO_TRY(watch.hear_why());
          return broken;
        }
      const uint64_t now = now_ns();
      if (!pair.done() && (now - pair.moved_ns() >= stall_limit_ns || now >= request.deadline_ns))
        return pair.stalled(request);
      descriptors[index] = pair.interest();
      done &= pair.done();
    }
    if (done) return {};
    ::poll(descriptors.data(), descriptors.size(), look_ms);
    RONDO_TRY(watch.look());
  }
}

}  // namespace rondo::hosts
