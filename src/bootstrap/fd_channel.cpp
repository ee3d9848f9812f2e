// SPDX-License-Identifier: Apache-2.0
#include "src/bootstrap/fd_channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <set>
#include <span>

#include "src/base/clock.h"
#include "src/base/start_thread.h"

namespace rondo {
namespace {

constexpr uint64_t client_patience_ns = 1'000'000'000;  // longest wait for the token, which a receiver sends at once
constexpr uint64_t look_ns = 10'000'000;  // between checks; a connect() to a full backlog waits ten times as long
constexpr int listen_backlog = 4096;
constexpr int accepts_per_round = 64;
constexpr size_t pending_count_max = 16;  // accepted clients that have not sent their token; each holds a descriptor
constexpr uint64_t retry_ns = 5'000'000;
constexpr int take_attempts_max = 20;

void random_hex(std::array<char, 32> &text) {
  std::array<unsigned char, 16> bytes{};
  randombytes_buf(bytes.data(), bytes.size());
  static constexpr char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < bytes.size(); ++i) {
    text[2 * i] = digits[bytes[i] >> 4];
    text[2 * i + 1] = digits[bytes[i] & 15];
  }
}

struct AbstractAddress {
  sockaddr_un address{};
  socklen_t bytes = 0;
};

AbstractAddress address_of(const FdTicket &ticket) {
  AbstractAddress result;
  result.address.sun_family = AF_UNIX;
  static constexpr char prefix[] = "rondo-";
  char *out = result.address.sun_path + 1;  // sun_path[0] stays NUL: the abstract name space
  out = std::copy(prefix, prefix + sizeof prefix - 1, out);
  out = std::copy(ticket.name.begin(), ticket.name.end(), out);
  result.bytes = static_cast<socklen_t>(out - reinterpret_cast<char *>(&result.address));
  return result;
}

/// Waits for `events`. Returns false if the deadline passes first.
bool wait_for(int descriptor, short events, uint64_t deadline_ns) {
  pollfd entry{descriptor, events, 0};
  for (uint64_t now = now_ns(); now < deadline_ns; now = now_ns()) {
    const int timeout_ms = static_cast<int>(std::min<uint64_t>((deadline_ns - now) / 1'000'000 + 1, 1000));
    if (::poll(&entry, 1, timeout_ms) > 0) return true;
  }
  return false;
}

/// Waits for `events`, and calls `check` every few milliseconds. RONDO_ERROR_TIMEOUT comes without a message.
Result<void> wait_checked(int descriptor, short events, uint64_t deadline_ns, const WaitCheck &check) {
  while (!wait_for(descriptor, events, std::min(deadline_ns, now_ns() + look_ns))) {  // ends at the deadline
    if (check) RONDO_TRY(check());
    if (now_ns() >= deadline_ns) return Error{RONDO_ERROR_TIMEOUT, ""};
  }
  return {};
}

constexpr size_t descriptors_max = 250;  // in one message; the kernel allows 253

/// A message for `count` descriptors, with one byte of data, because a message without data carries no descriptors. The
/// object points to its own members, so it cannot be copied.
struct DescriptorMessage {
  explicit DescriptorMessage(size_t count) {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(count * sizeof(int));
  }
  DescriptorMessage(const DescriptorMessage &) = delete;
  DescriptorMessage &operator=(const DescriptorMessage &) = delete;

  char payload = 'r';
  iovec data{&payload, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(descriptors_max * sizeof(int))> control{};
  msghdr header{};
};

bool send_descriptors(int client, std::span<const int> descriptors) {
  while (!descriptors.empty()) {
    const auto some = descriptors.first(std::min(descriptors.size(), descriptors_max));
    DescriptorMessage message(some.size());
    cmsghdr *const header = CMSG_FIRSTHDR(&message.header);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(some.size_bytes());
    std::memcpy(CMSG_DATA(header), some.data(), some.size_bytes());
    if (::sendmsg(client, &message.header, MSG_NOSIGNAL) != 1) return false;
    descriptors = descriptors.subspan(some.size());
  }
  return true;
}

Error owner_is_gone() { return {RONDO_ERROR_REMOTE, "the process that owns the shared memory has ended, or gave up"}; }

/// Returns the error for an owner that has ended, or is not on this machine.
Error nobody_listens() {
  Error error = owner_is_gone();
  error.message += "; if that process runs on another machine, both have the same /proc/sys/kernel/random/boot_id, as "
                   "copies of a running machine do: reboot one of them";
  return error;
}

/// Receives one message, and appends its descriptors.
Result<void> receive_descriptors(int server, std::vector<FileDescriptor> &descriptors) {
  DescriptorMessage message(descriptors_max);
  const ssize_t received = ::recvmsg(server, &message.header, MSG_CMSG_CLOEXEC);
  if (received == 0 || (received < 0 && errno == ECONNRESET)) return owner_is_gone();
  if (received < 0) return system_error("recvmsg of descriptors", errno);
  const cmsghdr *const header = CMSG_FIRSTHDR(&message.header);
  const bool came = header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS;
  const size_t count = came ? (header->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;
  for (size_t at = 0; at < count; ++at) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(header) + at * sizeof descriptor, sizeof descriptor);
    descriptors.emplace_back(descriptor);
  }
  if ((message.header.msg_flags & MSG_CTRUNC) != 0)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "no descriptor is free for the shared memory; raise ulimit -n"};
  if (!came) return Error{RONDO_ERROR_INTERNAL, "the owner of the shared memory sent no descriptor"};
  return {};
}

}  // namespace

Result<FdServer> FdServer::listen() {
  FdTicket ticket;
  random_hex(ticket.name);
  random_hex(ticket.token);
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return system_error("socket(AF_UNIX)", errno);
  const AbstractAddress address = address_of(ticket);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr *>(&address.address), address.bytes) != 0)
    return system_error("bind of an abstract unix socket", errno);
  if (::listen(socket.get(), listen_backlog) != 0) return system_error("listen on an abstract unix socket", errno);
  FileDescriptor spare(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  if (!spare.valid()) return system_error("a descriptor to serve processes of this host with", errno);
  return FdServer(std::move(socket), std::move(spare), ticket);
}

namespace {

/// One call of serve(): passes descriptors to the processes.
class Handout {
 public:
  Handout(int listener, FileDescriptor &spare, const std::vector<int> &descriptors, const FdTicket &ticket,
          const std::vector<uint64_t> &processes)
      : listener_(listener),
        spare_(spare),
        descriptors_(descriptors),
        ticket_(ticket),
        awaited_(processes.begin(), processes.end()),
        missing_(awaited_) {}

  /// Returns true if all of the expected processes have fetched the descriptors.
  [[nodiscard]] bool done() const { return !awaited_.empty() && missing_.empty(); }
  [[nodiscard]] bool stopped() const { return stopped_; }
  [[nodiscard]] const std::set<uint64_t> &missing() const { return missing_; }

  /// Waits for the next event, for at most look_ns, and handles it.
  Result<void> turn() {
    if (!spare_.valid() && pending_.empty()) spare_.reset(::fcntl(listener_, F_DUPFD_CLOEXEC, 0));
    std::vector<pollfd> entries{{listener_, POLLIN, 0}};
    for (const Pending &pending : pending_) entries.push_back({pending.socket.get(), POLLIN, 0});
    if (::poll(entries.data(), entries.size(), static_cast<int>(look_ns / 1'000'000)) > 0) {
      for (size_t at = 1; at < entries.size(); ++at)
        if (entries[at].revents != 0) read_token(pending_[at - 1]);
      std::erase_if(pending_, [](const Pending &pending) { return !pending.socket.valid(); });
      if (entries[0].revents != 0) RONDO_TRY(accept_some());
      stopped_ = (entries[0].revents & POLLHUP) != 0;  // after stop() the socket does not listen any more
    }
    const uint64_t now = now_ns();
    std::erase_if(pending_, [now](const Pending &pending) { return now >= pending.deadline_ns; });
    return {};
  }

 private:
  struct Pending {
    FileDescriptor socket;
    uint64_t process = 0;
    uint64_t deadline_ns = 0;
    std::array<char, 32> token{};
    size_t have = 0;
  };

  Result<void> accept_some() {
    for (int at = 0; at < accepts_per_round; ++at) {
      FileDescriptor client(::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!client.valid()) {
        const int why = errno;
        pollfd entry{listener_, POLLIN, 0};
        // Without a free descriptor, accept() fails even if no process waits.
        if (!ran_out(why) || ::poll(&entry, 1, 0) <= 0) return {};
        if (pending_.empty() && !spare_.valid()) return system_error("accept of a local process", why);
        if (pending_.empty()) spare_.reset();
        else pending_.erase(pending_.begin());
        continue;
      }
      ucred peer{};
      socklen_t bytes = sizeof peer;
      if (::getsockopt(client.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0 || peer.uid != ::geteuid()) continue;
      const auto process = static_cast<uint64_t>(peer.pid);
      if (!awaited_.empty() && !awaited_.contains(process)) continue;
      Pending pending{std::move(client), process, now_ns() + client_patience_ns, {}, 0};
      read_token(pending);  // a receiver sends its token right after connecting
      if (!pending.socket.valid()) continue;
      if (pending_.size() >= pending_count_max) pending_.erase(pending_.begin());
      pending_.push_back(std::move(pending));
    }
    return {};
  }

  /// Reads the token, and answers a right one with the descriptors. Closes the connection unless bytes are missing.
  void read_token(Pending &pending) {
    const int client = pending.socket.get();
    const ssize_t got =
        ::recv(client, pending.token.data() + pending.have, pending.token.size() - pending.have, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got > 0) pending.have += static_cast<size_t>(got);
    if (got > 0 && pending.have < pending.token.size()) return;
    const bool right = pending.have == pending.token.size() &&
                       sodium_memcmp(pending.token.data(), ticket_.token.data(), pending.have) == 0;
    if (right && send_descriptors(client, descriptors_)) missing_.erase(pending.process);
    pending.socket.reset();
  }

  int listener_;
  FileDescriptor &spare_;
  const std::vector<int> &descriptors_;
  const FdTicket &ticket_;
  std::set<uint64_t> awaited_;
  std::set<uint64_t> missing_;
  std::vector<Pending> pending_;  ///< the oldest is first
  bool stopped_ = false;
};

}  // namespace

Result<void> FdServer::serve(const std::vector<int> &descriptors, const std::vector<uint64_t> &processes,
                             uint64_t deadline_ns, const WaitCheck &check) {
  Handout handout(socket_.get(), spare_, descriptors, ticket_, processes);
  while (!handout.done() && !handout.stopped()) {  // ends at the deadline
    RONDO_TRY(handout.turn());
    if (check && !handout.done()) RONDO_TRY(check());
    if (now_ns() < deadline_ns) continue;
    std::string list;
    for (const uint64_t process : handout.missing()) list += (list.empty() ? "" : ", ") + std::to_string(process);
    return Error{RONDO_ERROR_TIMEOUT, "processes of this host did not fetch the shared memory in time: " + list};
  }
  return {};
}

void FdServer::stop() const { ::shutdown(socket_.get(), SHUT_RDWR); }

Result<std::unique_ptr<FdOffer>> FdOffer::make(std::vector<int> descriptors, uint64_t deadline_ns) {
  RONDO_TRY_ASSIGN(auto server, FdServer::listen());
  std::unique_ptr<FdOffer> offer(new FdOffer(std::move(server), std::move(descriptors)));
  RONDO_TRY(offer->start(deadline_ns));
  return offer;
}

Result<std::unique_ptr<FdOffer>> FdOffer::make(FileDescriptor descriptor, uint64_t deadline_ns) {
  RONDO_TRY_ASSIGN(auto offer, make(std::vector<int>{descriptor.get()}, deadline_ns));
  offer->own_ = std::move(descriptor);
  return offer;
}

Result<void> FdOffer::start(uint64_t deadline_ns) {
  RONDO_TRY_ASSIGN(thread_, start_thread("handing out descriptors", [this, deadline_ns] {
                     // A lack of descriptors may be temporary. So the thread tries again until the
                     // deadline.
                     while (!ended_.load(std::memory_order_acquire)) {  // pairs with the release in ~FdOffer
                       const auto served = server_.serve(descriptors_, {}, deadline_ns);
                       if (served.ok() || served.error().status != RONDO_ERROR_OUT_OF_RESOURCES) return;
                       sleep_for_ns(retry_ns);
                     }
                   }));
  return {};
}

FdOffer::~FdOffer() {
  ended_.store(true, std::memory_order_release);  // pairs with the acquire of its thread
  server_.stop();
  if (thread_.joinable()) thread_.join();
}

namespace {

/// Connects to the process that owns the descriptors. Returns RONDO_ERROR_TIMEOUT at the deadline.
Result<FileDescriptor> connect_to_owner(const FdTicket &ticket, uint64_t deadline_ns, const WaitCheck &check) {
  const AbstractAddress address = address_of(ticket);
  while (true) {  // ends at the deadline
    FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket.valid()) return system_error("socket(AF_UNIX)", errno);
    // If the backlog is full, a blocking connect() waits in the order of arrival. With non-blocking attempts, other
    // processes might be faster every time.
    constexpr timeval patience{0, 10 * look_ns / 1000};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr *>(&address.address), address.bytes) == 0)
      return socket;
    if (errno == ECONNREFUSED) return nobody_listens();
    if (errno != EAGAIN && errno != EINTR)
      return system_error("connect to the process that owns the shared memory (same network namespace needed)", errno);
    if (check) RONDO_TRY(check());
    if (now_ns() >= deadline_ns) return Error{RONDO_ERROR_TIMEOUT, ""};
  }
}

/// Takes descriptors from one connection. Returns fewer than `count` if the owner closed the connection. The owner
/// closes it if there are too many peers, or the token is wrong.
Result<std::vector<FileDescriptor>> take_once(const FdTicket &ticket, size_t count, uint64_t deadline_ns,
                                              const WaitCheck &check) {
  std::vector<FileDescriptor> taken;
  RONDO_TRY_ASSIGN(const FileDescriptor socket, connect_to_owner(ticket, deadline_ns, check));
  if (::send(socket.get(), ticket.token.data(), ticket.token.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(ticket.token.size())) {
    if (errno == EPIPE || errno == ECONNRESET) return taken;
    return system_error("send to the process that owns the shared memory", errno);
  }
  while (taken.size() < count) {  // each message brings at least one descriptor
    RONDO_TRY(wait_checked(socket.get(), POLLIN, deadline_ns, check));
    const auto received = receive_descriptors(socket.get(), taken);
    if (!received.ok() && received.error().status == RONDO_ERROR_REMOTE) return taken;
    RONDO_TRY(received);
  }
  return taken;
}

}  // namespace

Result<std::vector<FileDescriptor>> take_descriptors(const FdTicket &ticket, size_t count, uint64_t deadline_ns,
                                                     const WaitCheck &check) {
  for (int attempt = 0; attempt < take_attempts_max; ++attempt) {
    auto taken = take_once(ticket, count, deadline_ns, check);
    if (!taken.ok() && taken.error().status == RONDO_ERROR_TIMEOUT && taken.error().message.empty())
      return Error{RONDO_ERROR_TIMEOUT, "the process that owns the shared memory did not hand it over in time"};
    if (!taken.ok() || taken.value().size() == count) return taken;
    sleep_for_ns(retry_ns);
    if (check) RONDO_TRY(check());  // it may know why the owner gave up
  }
  return owner_is_gone();
}

Result<FileDescriptor> take_descriptor(const FdTicket &ticket, uint64_t deadline_ns, const WaitCheck &check) {
  RONDO_TRY_ASSIGN(auto taken, take_descriptors(ticket, 1, deadline_ns, check));
  return std::move(taken[0]);
}

}  // namespace rondo
