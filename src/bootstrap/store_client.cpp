// SPDX-License-Identifier: Apache-2.0
// The thin shell of the store's client: a socket and poll around a StoreClientSession, which decides everything.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/clock.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/request_store.h"
#include "src/bootstrap/store_client_session.h"

namespace rondo {
namespace {

constexpr uint64_t retry_first_ns = 5'000'000;
constexpr uint64_t retry_most_ns = 100'000'000;
constexpr size_t read_bytes = 64u << 10;

/// Waits for `events`; false: the deadline passed first.
bool wait_for(int socket, short events, uint64_t deadline_ns) {
  pollfd entry{socket, events, 0};
  while (true) {  // ends at the deadline
    const uint64_t now = now_ns();
    if (now >= deadline_ns) return false;
    const uint64_t left_ms = std::min<uint64_t>((deadline_ns - now) / 1'000'000 + 1, 10'000);
    if (::poll(&entry, 1, static_cast<int>(left_ms)) > 0) return true;
  }
}

/// What a failed attempt means: try again later, or give up.
struct Attempt {
  FileDescriptor socket;
  bool again = false;
  Error error;
};

bool worth_another_try(int error_number) {
  for (const int known : {ECONNREFUSED, ECONNRESET, ECONNABORTED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EAGAIN, EINTR,
                          EADDRNOTAVAIL})
    if (error_number == known) return true;
  return false;
}

/// A connect to a free port of the ephemeral range can meet itself.
bool connected_to_itself(int socket) {
  SocketAddress here, there;
  here.bytes = there.bytes = sizeof here.storage;
  if (::getsockname(socket, here.get(), &here.bytes) != 0) return false;
  if (::getpeername(socket, there.get(), &there.bytes) != 0) return false;
  return endpoint_of(here) == endpoint_of(there);
}

Attempt attempt_connect(const SocketAddress &address, const std::string &name, uint64_t deadline_ns) {
  Attempt attempt;
  const auto refuse = [&attempt, &name](int error_number) {
    attempt.again = worth_another_try(error_number);
    attempt.error = system_error("connect to the store at " + name, error_number);
    attempt.socket.reset();
  };
  attempt.socket.reset(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!attempt.socket.valid()) {
    refuse(errno);
    return attempt;
  }
  const int fd = attempt.socket.get();
  if (::connect(fd, address.get(), address.bytes) != 0) {
    int error_number = errno;
    if (error_number == EINPROGRESS) {
      error_number = ETIMEDOUT;
      socklen_t bytes = sizeof error_number;
      if (wait_for(fd, POLLOUT, deadline_ns)) ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &bytes);
    }
    if (error_number != 0) {
      refuse(error_number);
      return attempt;
    }
  }
  if (connected_to_itself(fd)) {
    refuse(ECONNREFUSED);
    return attempt;
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  return attempt;
}

class Client final : public RequestStore {
 public:
  Client(FileDescriptor socket, const Secret &secret, std::string name)
      : socket_(std::move(socket)), session_(secret, wire::random_challenge(), std::move(name)) {}

  /// Moves bytes until `done()`, the session's failure, or the deadline (false).
  template <class Done>
  bool pump(const Done &done, uint64_t deadline_ns) {
    while (!done() && !session_.failure()) {  // ends at the deadline
      const uint64_t now = now_ns();
      if (now >= deadline_ns) return false;
      session_.on_time(now);
      if (!send_some() || done()) continue;
      const short events = static_cast<short>(session_.output().empty() ? POLLIN : POLLIN | POLLOUT);
      if (!wait_for(socket_.get(), events, std::min(deadline_ns, session_.deadline_ns()))) continue;
      const ssize_t count = ::recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
      if (count > 0) {
        session_.receive(ByteView(buffer_).first(static_cast<size_t>(count)));
      } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        session_.peer_closed();
      }
    }
    return true;
  }

  [[nodiscard]] const StoreClientSession &session() const { return session_; }

  /// Sends what is left of the handshake.
  void finish_handshake(uint64_t deadline_ns) {
    (void)pump([this] { return session_.output().empty(); }, deadline_ns);
  }

 private:
  /// False: the connection broke (the session knows).
  bool send_some() {
    while (!session_.output().empty()) {  // ends: the output shrinks, or the socket is full
      const ByteView output = session_.output();
      const ssize_t count = ::send(socket_.get(), output.data(), output.size(), MSG_NOSIGNAL);
      if (count >= 0) {
        session_.sent(static_cast<size_t>(count));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        return true;
      } else if (errno != EINTR) {
        session_.peer_closed();
        return false;
      }
    }
    return true;
  }

  Result<Reply> carry(Request request, uint64_t deadline_ns) override {
    if (session_.failure()) return *session_.failure();
    session_.begin(std::move(request), deadline_ns);
    (void)pump([this] { return !session_.in_flight(); }, no_deadline);  // the session has the deadline
    if (session_.failure()) return *session_.failure();
    auto reply = session_.take_reply();
    if (!reply) return Error{RONDO_ERROR_INTERNAL, "the store's session ended without a reply"};
    return std::move(*reply);
  }

  FileDescriptor socket_;
  StoreClientSession session_;
  std::array<std::byte, read_bytes> buffer_;
};

Error connect_timeout(const std::string &name, const std::string &last) {
  const std::string why = last.empty() ? "" : " (" + last + ")";
  return {RONDO_ERROR_TIMEOUT, "no store at " + name + " within the deadline" + why +
                                   "; is rank 0 running, and is the address reachable from here?"};
}

}  // namespace

Result<std::unique_ptr<Store>> connect_store(const Endpoint &endpoint, const Secret &secret, uint64_t deadline_ns) {
  const std::string name = format_endpoint(endpoint);
  RONDO_TRY_ASSIGN(const SocketAddress address, socket_address(endpoint));
  std::string last;
  // Ends at the deadline.
  for (uint64_t pause_ns = retry_first_ns;; pause_ns = std::min(2 * pause_ns, retry_most_ns)) {
    Attempt attempt = attempt_connect(address, name, deadline_ns);
    if (attempt.socket.valid()) {
      auto client = std::make_unique<Client>(std::move(attempt.socket), secret, name);
      if (!client->pump([&] { return client->session().open(); }, deadline_ns))
        return connect_timeout(name, "it takes connections, but does not answer");
      client->finish_handshake(deadline_ns);
      const auto &failure = client->session().failure();
      if (!failure) return std::unique_ptr<Store>(std::move(client));
      if (failure->status != RONDO_ERROR_REMOTE) return *failure;
      attempt.error = *failure;  // turned away by a crowded server, or one that ends: again
      attempt.again = true;
    }
    if (!attempt.again) return attempt.error;
    last = attempt.error.message;
    if (now_ns() + pause_ns >= deadline_ns) return connect_timeout(name, last);
    sleep_for_ns(pause_ns);
  }
}

}  // namespace rondo
