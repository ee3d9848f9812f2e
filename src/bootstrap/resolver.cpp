// SPDX-License-Identifier: Apache-2.0
#include "src/bootstrap/resolver.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/clock.h"
#include "src/base/log.h"

namespace rondo {
namespace {

constexpr uint64_t lookup_interval_ns = 1'000'000'000;
constexpr uint64_t cancel_poll_ns = 100'000'000;

bool worth_another_try(int error_number) {
  for (const int known : {ECONNREFUSED, ECONNRESET, ECONNABORTED, ETIMEDOUT, EHOSTUNREACH, ENETUNREACH, EAGAIN, EINTR,
                          EADDRNOTAVAIL})
    if (error_number == known) return true;
  return false;
}

}  // namespace

void Resolver::look_up(uint64_t now_ns) {
  if (now_ns < due_ns_) return;
  const bool first = due_ns_ == 0;
  const bool name = is_name();
  addresses_ = addresses_of(endpoint_);
  due_ns_ = name ? rondo::now_ns() + lookup_interval_ns : ~uint64_t{0};  // counted from the lookup's end
  if (!first || addresses_.ok()) return;
  log::warning(log::Subsystem::bootstrap,
               addresses_.error().message + (name ? "; it is looked up again until init_timeout_ms has passed" : ""));
}

Result<SocketAddress> Resolver::next(uint64_t now_ns) {
  look_up(now_ns);
  if (!addresses_.ok()) return addresses_.error();
  return addresses_.value()[next_++ % addresses_.value().size()];
}

Result<std::vector<SocketAddress>> Resolver::wait(uint64_t deadline_ns, const Cancel *cancel) {
  while (true) {  // ends at the deadline
    look_up(now_ns());
    if (addresses_.ok() || !is_name()) return addresses_;
    if (cancel != nullptr && cancel->requested())
      return Error{RONDO_ERROR_ABORTED, "it was aborted here before the communicator was made"};
    const uint64_t now = now_ns();
    if (now >= deadline_ns) return Error{RONDO_ERROR_TIMEOUT, addresses_.error().message};
    sleep_for_ns(std::min(cancel_poll_ns, deadline_ns - now));
  }
}

bool wait_for(int socket, short events, uint64_t deadline_ns, const Cancel *cancel) {
  std::array<pollfd, 2> entries{{{socket, events, 0}, {cancel != nullptr ? cancel->descriptor() : -1, POLLIN, 0}}};
  while (true) {  // ends at the deadline
    const uint64_t now = now_ns();
    if (now >= deadline_ns) return false;
    const uint64_t left_ms = std::min<uint64_t>((deadline_ns - now) / 1'000'000 + 1, 10'000);
    if (::poll(entries.data(), entries.size(), static_cast<int>(left_ms)) > 0) return entries[0].revents != 0;
  }
}

Attempt attempt_connect(const SocketAddress &address, const std::string &name, uint64_t deadline_ns,
                        const Cancel *cancel) {
  Attempt attempt;
  const auto refuse = [&attempt, &name](int error_number) {
    attempt.again = worth_another_try(error_number);
    attempt.refused = error_number == ECONNREFUSED;
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
      if (wait_for(fd, POLLOUT, deadline_ns, cancel)) ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error_number, &bytes);
    }
    if (error_number != 0) {
      refuse(error_number);
      return attempt;
    }
  }
  // If the port is free and in the ephemeral range, a socket can connect to itself.
  if (const auto here = own_end(fd); here && here == other_end(fd)) {
    refuse(ECONNREFUSED);
    return attempt;
  }
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  return attempt;
}

}  // namespace rondo
