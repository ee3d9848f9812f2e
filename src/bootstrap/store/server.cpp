// SPDX-License-Identifier: Apache-2.0
// This file implements the store server's sockets, epoll and thread. The StoreHub inside makes all decisions.
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <mutex>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/base/start_thread.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/endpoint.h"
#include "src/bootstrap/store/hub.h"
#include "src/bootstrap/store/store.h"

namespace rondo {
namespace {

constexpr uint64_t listener_tag = 0;  // connections are numbered from 1
constexpr uint64_t bell_tag = ~uint64_t{0};
constexpr uint64_t accept_pause_ns = 100'000'000;   // pause after descriptors ran out and no stranger held one
constexpr uint64_t drought_max_ns = 1'000'000'000;  // longest time without a free descriptor; then ranks get an error
// An ending server waits this long for unsent replies, and for ranks that must still learn that their group failed.
constexpr uint64_t farewell_wait_ns = 1'000'000'000;
constexpr size_t socket_read_bytes = 64u << 10;
constexpr int accepts_per_turn = 64;
constexpr int reserve_min = 16;  // strangers leave a quarter of the descriptors free, but at least this many
constexpr int reserve_max = 256;
constexpr size_t strangers_min = 4;  // strangers that are accepted even if few descriptors are free; one may be a rank

/// Returns how many descriptors this process may have.
int descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 20));
}

/// Returns the limits. Strangers may hold a quarter of all descriptors, and half of that without sending anything.
HubLimits limits_for(int descriptors) {
  HubLimits limits;
  const auto share = static_cast<size_t>(std::max(descriptors / 8, 4));
  limits.silent_count = std::min(limits.silent_count, share);
  limits.greeted_count = std::min(limits.greeted_count, share);
  return limits;
}

/// Makes a later close() of the socket leave no connection in the state TIME_WAIT. Otherwise a flood of strangers would
/// leave thousands of connections in that state.
void drop(int socket) {
  const linger at_once{1, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

/// Makes the kernel notice within half a minute that a member's host has died.
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
  Server(StoreListener listener, FileDescriptor epoll, FileDescriptor bell, const Secret &secret, GroupNames names)
      : listener_(std::move(listener)),
        epoll_(std::move(epoll)),
        bell_(std::move(bell)),
        spare_(::fcntl(bell_.get(), F_DUPFD_CLOEXEC, 0)),
        descriptor_limit_(descriptor_limit()),
        hub_(secret, limits_for(descriptor_limit_), names) {}
  Server(const Server &) = delete;
  Server &operator=(const Server &) = delete;

  ~Server() override {
    post([this] { stop_at_ns_ = now_ns() + farewell_wait_ns; });
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] Result<void> start() {
    RONDO_TRY(watch(EPOLL_CTL_ADD, bell_.get(), EPOLLIN, bell_tag));
    RONDO_TRY(watch(EPOLL_CTL_ADD, listener_.socket.get(), EPOLLIN, listener_tag));
    RONDO_TRY_ASSIGN(thread_, start_thread("the store server", [this] { run(); }));
    return {};
  }

  [[nodiscard]] const Endpoint &endpoint() const override { return listener_.endpoint; }
  void hosted_by(uint32_t rank) override {
    post([this, rank] { hub_.hosted_by(rank, now_ns()); });
  }
  void host_failed(const Error &error, uint32_t rank) override {
    post([this, error, rank] { hub_.fail_all(error, now_ns(), rank); });
  }
  void rank_ended(uint32_t rank) override {
    post([this, rank] { hub_.rank_ended(rank, now_ns()); });
  }
  void on_rival(std::function<void(const Error &)> report) override {
    post([this, report = std::move(report)]() mutable { report_rival_ = std::move(report); });
  }
  [[nodiscard]] std::string turned_away() override {
    const std::lock_guard lock(posted_mutex_);
    if (turned_away_count_ == 0) return {};
    return std::to_string(turned_away_count_) +
           (turned_away_count_ == 1 ? " client was" : " clients were") +
           " turned away for another secret, the last at " + last_turned_away_;
  }

 private:
  struct Connection {
    FileDescriptor socket;
    SocketAddress peer;
    bool wants_write = false;
    bool member = false;
  };

  /// Makes the thread run `what` soon.
  void post(std::function<void()> what) {
    {
      const std::lock_guard lock(posted_mutex_);
      posted_.push_back(std::move(what));
    }
    const uint64_t one = 1;
    while (::write(bell_.get(), &one, sizeof one) < 0 && errno == EINTR) {
    }
  }

  void do_posted() {
    uint64_t rung = 0;
    static_cast<void>(::read(bell_.get(), &rung, sizeof rung) < 0);  // it does not block
    std::vector<std::function<void()>> posted;
    {
      const std::lock_guard lock(posted_mutex_);
      posted.swap(posted_);
    }
    for (const auto &what : posted) what();
  }

  [[nodiscard]] Result<void> watch(int how, int fd, uint32_t events, uint64_t tag) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    if (::epoll_ctl(epoll_.get(), how, fd, &event) != 0) return system_error("epoll_ctl for the store", errno);
    return {};
  }

  void run() {
    std::array<epoll_event, 64> events;
    bool stopping = false;
    while (now_ns() < stop_at_ns_ && (!stopping || hub_.has_output() || hub_.core().expects_ranks())) {
      const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms());
      for (int at = 0; at < count; ++at) {
        const epoll_event &event = events[static_cast<size_t>(at)];
        if (event.data.u64 == bell_tag) {
          do_posted();
        } else if (event.data.u64 != listener_tag) {
          serve(event.data.u64);
        }
      }
      if (!stopping && stop_at_ns_ != no_deadline) hub_.end(now_ns());
      stopping = stop_at_ns_ != no_deadline;
      accept_some();
      hub_.on_time(now_ns());
      flush();
      if (report_rival_)
        if (const auto mixed_up = hub_.take_mixed_up()) report_rival_(*mixed_up);
    }
    for (auto &[number, connection] : connections_) ::shutdown(connection.socket.get(), SHUT_WR);
    connections_.clear();
  }

  /// Returns the time until the next deadline. Also starts or stops watching the listener, as can_accept() says.
  int timeout_ms() {
    const uint64_t now = now_ns();
    uint64_t next_ns = std::min(hub_.next_deadline_ns(), stop_at_ns_);
    const bool paused = now < accept_again_ns_;
    if (paused) next_ns = std::min(next_ns, accept_again_ns_);
    const bool listening = !paused && hub_.can_accept();
    if (listening != listening_) {
      (void)watch(EPOLL_CTL_MOD, listener_.socket.get(), listening ? EPOLLIN : 0u, listener_tag);
      listening_ = listening;
    }
    if (next_ns == no_deadline) return 10'000;
    return next_ns <= now ? 0 : static_cast<int>(std::min<uint64_t>((next_ns - now) / 1'000'000 + 1, 10'000));
  }

  void accept_some() {
    for (int at = 0; at < accepts_per_turn && now_ns() >= accept_again_ns_ && hub_.can_accept(); ++at) {
      SocketAddress peer;
      peer.bytes = sizeof peer.storage;
      FileDescriptor socket(::accept4(listener_.socket.get(), peer.get(), &peer.bytes, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid()) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        const int why = errno;
        if (why == EINTR || why == ECONNABORTED) continue;
        if (!somebody_waits()) return;  // without a free descriptor, accept() fails even if nobody waits
        if (ran_out(why) && (make_room() || use_spare(why))) continue;
        accept_again_ns_ = now_ns() + accept_pause_ns;
        return;
      }
      if (spare_.valid()) drought_since_ns_ = no_deadline;
      const int reserve = std::clamp(descriptor_limit_ / 4, reserve_min, reserve_max);
      if (socket.get() >= descriptor_limit_ - reserve && hub_.stranger_count() > strangers_min) make_room();
      const uint64_t number = hub_.accept(wire::random_challenge(), now_ns());
      if (!watch(EPOLL_CTL_ADD, socket.get(), EPOLLIN, number).ok()) {
        hub_.closed(number, now_ns());
        continue;
      }
      connections_[number] = Connection{std::move(socket), peer};
      serve(number);  // a member has sent its hello already, so it is not silent now
      close_cut();
    }
  }

  [[nodiscard]] bool somebody_waits() const {
    pollfd entry{listener_.socket.get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
  }

  /// Cuts a stranger because descriptors run short. Returns false if no stranger holds one.
  bool make_room() {
    const bool made = hub_.make_room(now_ns());
    close_cut();
    return made;
  }

  /// Handles the case that no descriptor is free and no stranger holds one. At first it returns false. If the lack
  /// lasts, it fails all groups, frees the spare descriptor and returns true. With that descriptor, the server accepts
  /// new clients one by one, and sends them the error.
  bool use_spare(int why) {
    const uint64_t now = now_ns();
    if (drought_since_ns_ == no_deadline) {
      drought_since_ns_ = now;
      log::warning(log::Subsystem::bootstrap,
                   "store: cannot take connections for a moment: " + system_error("accept", why).message);
    }
    if (!spare_.valid() || now - drought_since_ns_ < drought_max_ns) return false;
    spare_.reset();
    Error error = system_error("the process that runs the store cannot accept all ranks: accept", why);
    hub_.fail_all(error, now);
    return true;
  }

  void serve(uint64_t number) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) return;
    const ssize_t count = ::recv(found->second.socket.get(), buffer_.data(), buffer_.size(), 0);
    if (count > 0) {
      hub_.receive(number, ByteView(buffer_).first(static_cast<size_t>(count)), now_ns());
      if (!found->second.member && hub_.is_member(number)) {
        found->second.member = true;
        keep_alive(found->second.socket.get());
      }
      return;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return write_some(number);
    hub_.closed(number, now_ns());
    connections_.erase(found);
    keep_spare();
  }

  void keep_spare() {
    if (!spare_.valid()) spare_.reset(::fcntl(bell_.get(), F_DUPFD_CLOEXEC, 0));
  }

  void flush() {
    for (const uint64_t number : hub_.take_ready()) write_some(number);
    close_cut();
  }

  void close_cut() {
    for (const StoreHub::Cut &cut : hub_.take_cut()) {
      const auto found = connections_.find(cut.connection);
      if (found == connections_.end()) continue;
      // Strangers must not fill the log.
      if (const auto level = cut.authenticated ? log::Level::warning : log::Level::info;
          log::enabled(level, log::Subsystem::bootstrap))
        log::write(level, log::Subsystem::bootstrap,
                   "store: cut the connection from " + format_endpoint(endpoint_of(found->second.peer)) + ": " +
                       cut.reason);
      if (cut.other_secret) note_other_secret(format_endpoint(endpoint_of(found->second.peer)));
      if (!cut.authenticated) drop(found->second.socket.get());
      connections_.erase(found);
      keep_spare();
    }
  }

  /// Records that a client has another secret. Such a client may be a stranger. So only the first one is logged, and
  /// errors of this process mention it only briefly.
  void note_other_secret(const std::string &peer) {
    {
      const std::lock_guard lock(posted_mutex_);
      last_turned_away_ = peer;
      if (++turned_away_count_ > 1) return;
    }
    log::warning(log::Subsystem::bootstrap,
                 "store: a client at " + peer +
                     " has another secret. If it is a rank of this job, give it the same unique id or RONDO_SECRET. If "
                     "RONDO_SECRET is not set, MASTER_PORT and TORCHELASTIC_RUN_ID must be equal");
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

  StoreListener listener_;
  FileDescriptor epoll_;
  FileDescriptor bell_;
  FileDescriptor spare_;
  std::mutex posted_mutex_;
  std::vector<std::function<void()>> posted_;  // the mutex guards this and the next two members
  uint64_t turned_away_count_ = 0;
  std::string last_turned_away_;
  int descriptor_limit_;
  StoreHub hub_;  // only the thread uses this and the following members, once it runs
  std::unordered_map<uint64_t, Connection> connections_;
  std::array<std::byte, socket_read_bytes> buffer_;
  std::function<void(const Error &)> report_rival_;
  uint64_t accept_again_ns_ = 0;
  uint64_t drought_since_ns_ = no_deadline;
  uint64_t stop_at_ns_ = no_deadline;
  bool listening_ = true;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<StoreServer>> start_store_server(StoreListener listener, const Secret &secret,
                                                        GroupNames names) {
  FileDescriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return system_error("epoll_create1 for the store", errno);
  FileDescriptor bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) return system_error("eventfd for the store", errno);
  auto server = std::make_unique<Server>(std::move(listener), std::move(epoll), std::move(bell), secret, names);
  RONDO_TRY(server->start());
  return std::unique_ptr<StoreServer>(std::move(server));
}

Result<std::unique_ptr<StoreServer>> start_store_server(const Endpoint &address, const Secret &secret,
                                                        GroupNames names, int *listen_errno) {
  RONDO_TRY_ASSIGN(StoreListener listener, listen_for_store(address, listen_errno));
  return start_store_server(std::move(listener), secret, names);
}

Result<StoreListener> listen_for_store(const Endpoint &endpoint, int *listen_errno) {
  int unused = 0;
  int &error_number = listen_errno != nullptr ? *listen_errno : unused;
  error_number = 0;
  RONDO_TRY_ASSIGN(SocketAddress address, socket_address(endpoint));
  FileDescriptor socket(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) {
    error_number = errno;
    return system_error("socket for the store", error_number);
  }
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.storage.ss_family == AF_INET6) {  // so that "::" covers IPv4, too
    const int off = 0;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  }
  if (::bind(socket.get(), address.get(), address.bytes) != 0 || ::listen(socket.get(), 4096) != 0) {
    error_number = errno;
    return system_error("listen on " + format_endpoint(endpoint) + " for the store", error_number);
  }
  SocketAddress bound;
  bound.bytes = sizeof bound.storage;
  if (::getsockname(socket.get(), bound.get(), &bound.bytes) != 0) return system_error("getsockname", errno);
  return StoreListener{std::move(socket), endpoint_of(bound)};
}

}  // namespace rondo
