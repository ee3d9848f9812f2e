// SPDX-License-Identifier: Apache-2.0
// This program acts as a stranger that keeps COUNT connections to a TCP port of loopback: flood PORT COUNT silent|half.
// On each connection it sends nothing or half of a handshake. If a connection is closed, it makes a new one as fast as
// possible. It prints "ready" when it has made each connection once. It ends with its input, or after two minutes, and
// prints the number of connections.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr time_t longest_s = 120;
// A client hello of the store's protocol, version 3; the challenge may be anything.
constexpr char hello[40] = {'R', 'O', 'N', 'D', 'O', 3, 'c', 'l'};

time_t now_s() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

class Flood {
 public:
  Flood(int port, size_t count, bool speaks) : speaks_(speaks), sockets_(count, -1), epoll_(::epoll_create1(0)) {
    address_.sin_family = AF_INET;
    address_.sin_port = htons(static_cast<uint16_t>(port));
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }

  void renew(size_t at) {
    if (sockets_[at] >= 0) ::close(sockets_[at]);
    sockets_[at] = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (sockets_[at] < 0) return;
    const linger at_once{1, 0};  // otherwise its own ports would run out
    ::setsockopt(sockets_[at], SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    if (::connect(sockets_[at], reinterpret_cast<const sockaddr *>(&address_), sizeof address_) != 0 &&
        errno != EINPROGRESS) {
      ::close(sockets_[at]);
      sockets_[at] = -1;
      return;
    }
    epoll_event event{};
    event.events = speaks_ ? EPOLLIN | EPOLLOUT : EPOLLIN;
    event.data.u64 = at;
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, sockets_[at], &event);
    ++made_;
  }

  void run() {
    const time_t until_s = now_s() + longest_s;
    for (size_t at = 0; at < sockets_.size(); ++at) renew(at);
    std::puts("ready");
    std::fflush(stdout);
    std::array<epoll_event, 256> events;
    pollfd input{STDIN_FILENO, POLLIN, 0};
    while (::poll(&input, 1, 0) == 0 && now_s() < until_s) {
      const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 10);
      for (int at = 0; at < count; ++at) take(events[static_cast<size_t>(at)]);
      for (size_t at = 0; at < sockets_.size() && count <= 0; ++at)
        if (sockets_[at] < 0) renew(at);
    }
    // Connections that the store has closed by now count, even if this program ran too late to see that.
    for (int count = 1; count > 0 && made_ <= sockets_.size();) {  // ends: a renewed connection counts
      count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
      for (int at = 0; at < count; ++at) take(events[static_cast<size_t>(at)]);
    }
    std::printf("made %zu\n", made_);
  }

 private:
  void take(const epoll_event &event) {
    const size_t at = event.data.u64;
    if ((event.events & (EPOLLERR | EPOLLHUP)) != 0) return renew(at);
    if ((event.events & EPOLLOUT) != 0) {
      static_cast<void>(::send(sockets_[at], hello, sizeof hello, MSG_NOSIGNAL) < 0);
      epoll_event silent{};
      silent.events = EPOLLIN;
      silent.data.u64 = at;
      ::epoll_ctl(epoll_, EPOLL_CTL_MOD, sockets_[at], &silent);
    }
    if ((event.events & EPOLLIN) == 0) return;
    std::array<char, 256> answer;
    const ssize_t got = ::recv(sockets_[at], answer.data(), answer.size(), 0);
    if (got == 0 || (got < 0 && errno != EAGAIN)) renew(at);
  }

  bool speaks_;
  std::vector<int> sockets_;
  int epoll_;
  sockaddr_in address_{};
  size_t made_ = 0;
};

}  // namespace

int main(int argc, char **argv) {
  const std::string manner = argc == 4 ? argv[3] : "";
  const size_t count = argc == 4 ? std::strtoul(argv[2], nullptr, 10) : 0;
  if (count == 0 || (manner != "silent" && manner != "half")) {
    std::fprintf(stderr, "usage: flood PORT COUNT silent|half\n");
    return 2;
  }
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < count + 16) {
    std::printf("too few descriptors: %llu\n", static_cast<unsigned long long>(limit.rlim_max));
    return 0;
  }
  Flood(std::atoi(argv[1]), count, manner == "half").run();
  return 0;
}
