// SPDX-License-Identifier: Apache-2.0
// The thin shell of the store server: sockets, epoll and one thread around a StoreHub, which decides everything.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/start_thread.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/store_hub.h"

namespace rondo {
namespace {

constexpr uint64_t listener_tag = 0;  // connections are numbered from 1
constexpr uint64_t stop_tag = ~uint64_t{0};
constexpr uint64_t accept_pause_ns = 100'000'000;  // after descriptors ran out
constexpr uint64_t farewell_ns = 1'000'000'000;    // for replies that are still to be sent when the server ends
constexpr size_t read_bytes = 64u << 10;
constexpr int accepts_per_round = 64;

struct Listener {
  FileDescriptor socket;
  Endpoint endpoint;
};

Result<Listener> listen_on(const Endpoint &endpoint) {
  RONDO_TRY_ASSIGN(SocketAddress address, socket_address(endpoint));
  FileDescriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return system_error("socket for the store", errno);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.storage.ss_family == AF_INET6) {  // the wildcard "::" takes IPv4 too
    const int off = 0;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.get(), address.get(), address.bytes) != 0 || ::listen(socket.get(), 4096) != 0)
    return system_error("listen on " + format_endpoint(endpoint) + " for the store", errno);
  SocketAddress bound;
  bound.bytes = sizeof bound.storage;
  if (::getsockname(socket.get(), bound.get(), &bound.bytes) != 0) return system_error("getsockname", errno);
  return Listener{std::move(socket), endpoint_of(bound)};
}

/// A member whose host died without a word is noticed within half a minute.
void keep_alive(int socket) {
  const int on = 1, idle_s = 10, interval_s = 5, count = 4;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

class Server final : public StoreServer {
 public:
  Server(Listener listener, FileDescriptor epoll, FileDescriptor stop, const Secret &secret)
      : listener_(std::move(listener)), epoll_(std::move(epoll)), stop_(std::move(stop)), hub_(secret) {}
  Server(const Server &) = delete;
  Server &operator=(const Server &) = delete;

  ~Server() override {
    const uint64_t one = 1;
    while (::write(stop_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] Result<void> start() {
    RONDO_TRY(watch(EPOLL_CTL_ADD, stop_.get(), EPOLLIN, stop_tag));
    RONDO_TRY(watch(EPOLL_CTL_ADD, listener_.socket.get(), EPOLLIN, listener_tag));
    RONDO_TRY_ASSIGN(thread_, start_thread("the store server", [this] { run(); }));
    return {};
  }

  [[nodiscard]] const Endpoint &endpoint() const override { return listener_.endpoint; }

 private:
  struct Connection {
    FileDescriptor socket;
    std::string peer;
    bool wants_write = false;
  };

  [[nodiscard]] Result<void> watch(int how, int fd, uint32_t events, uint64_t tag) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    if (::epoll_ctl(epoll_.get(), how, fd, &event) != 0) return system_error("epoll_ctl for the store", errno);
    return {};
  }

  void run() {
    std::array<epoll_event, 64> events;
    uint64_t stop_at_ns = no_deadline;
    while (now_ns() < stop_at_ns && (stop_at_ns == no_deadline || hub_.has_output())) {
      const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms());
      for (int at = 0; at < count; ++at) {
        const epoll_event &event = events[static_cast<size_t>(at)];
        if (event.data.u64 == stop_tag) {
          (void)watch(EPOLL_CTL_DEL, stop_.get(), 0, stop_tag);
          stop_at_ns = now_ns() + farewell_ns;
          hub_.end(now_ns());
          continue;
        }
        if (event.data.u64 != listener_tag) serve(event.data.u64);
      }
      if (stop_at_ns == no_deadline) accept_some();
      hub_.on_time(now_ns());
      flush();
    }
    for (auto &[number, connection] : connections_) ::shutdown(connection.socket.get(), SHUT_WR);
    connections_.clear();
  }

  /// Until the next deadline; the listener is watched only while somebody may come in.
  int timeout_ms() {
    const uint64_t now = now_ns();
    uint64_t next_ns = hub_.next_deadline_ns();
    const bool paused = now < accept_again_ns_;
    if (paused) next_ns = std::min(next_ns, accept_again_ns_);
    const bool listening = !paused && hub_.can_accept(now);
    if (listening != listening_) {
      (void)watch(EPOLL_CTL_MOD, listener_.socket.get(), listening ? EPOLLIN : 0u, listener_tag);
      listening_ = listening;
    }
    if (next_ns == no_deadline) return 10'000;
    return next_ns <= now ? 0 : static_cast<int>(std::min<uint64_t>((next_ns - now) / 1'000'000 + 1, 10'000));
  }

  void accept_some() {
    for (int at = 0; at < accepts_per_round && now_ns() >= accept_again_ns_ && hub_.can_accept(now_ns()); ++at) {
      SocketAddress peer;
      peer.bytes = sizeof peer.storage;
      FileDescriptor socket(::accept4(listener_.socket.get(), peer.get(), &peer.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid()) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        if (errno == EINTR || errno == ECONNABORTED) continue;
        log::warning("store: cannot take connections for a moment: " + system_error("accept", errno).message);
        accept_again_ns_ = now_ns() + accept_pause_ns;
        return;
      }
      keep_alive(socket.get());
      const uint64_t number = hub_.accept(wire::random_challenge(), now_ns());
      if (!watch(EPOLL_CTL_ADD, socket.get(), EPOLLIN, number).ok()) {
        hub_.closed(number);
        continue;
      }
      connections_[number] = Connection{std::move(socket), format_endpoint(endpoint_of(peer))};
    }
  }

  void serve(uint64_t number) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) return;
    const ssize_t count = ::recv(found->second.socket.get(), buffer_.data(), buffer_.size(), 0);
    if (count > 0) return hub_.receive(number, ByteView(buffer_).first(static_cast<size_t>(count)), now_ns());
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return write_some(number);
    hub_.closed(number);
    connections_.erase(found);
  }

  void flush() {
    for (const uint64_t number : hub_.take_ready()) write_some(number);
    for (const StoreHub::Cut &cut : hub_.take_cut()) {
      const auto found = connections_.find(cut.connection);
      if (found == connections_.end()) continue;
      const std::string text = "store: cut the connection from " + found->second.peer + ": " + cut.reason;
      cut.authenticated ? log::warning(text) : log::info(text);  // strangers must not fill the log
      connections_.erase(found);
    }
  }

  void write_some(uint64_t number) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) return;
    Connection &connection = found->second;
    while (!hub_.output(number).empty()) {  // ends: the output shrinks, or the socket is full
      const ByteView output = hub_.output(number);
      const ssize_t count = ::send(connection.socket.get(), output.data(), output.size(), MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) break;
      hub_.sent(number, static_cast<size_t>(count), now_ns());
    }
    const bool wants_write = !hub_.output(number).empty();
    if (wants_write == connection.wants_write) return;
    connection.wants_write = wants_write;
    (void)watch(EPOLL_CTL_MOD, connection.socket.get(), wants_write ? EPOLLIN | EPOLLOUT : EPOLLIN, number);
  }

  Listener listener_;
  FileDescriptor epoll_;
  FileDescriptor stop_;
  StoreHub hub_;  // this and all below belong to the thread once it runs
  std::unordered_map<uint64_t, Connection> connections_;
  std::array<std::byte, read_bytes> buffer_;
  uint64_t accept_again_ns_ = 0;
  bool listening_ = true;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<StoreServer>> start_store_server(const Endpoint &address, const Secret &secret) {
  RONDO_TRY_ASSIGN(Listener listener, listen_on(address));
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return system_error("epoll_create1 for the store", errno);
  FileDescriptor stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return system_error("eventfd for the store", errno);
  auto server = std::make_unique<Server>(std::move(listener), std::move(epoll), std::move(stop), secret);
  RONDO_TRY(server->start());
  return std::unique_ptr<StoreServer>(std::move(server));
}

}  // namespace rondo
