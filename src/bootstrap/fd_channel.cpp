// SPDX-License-Identifier: Apache-2.0
#include "src/bootstrap/fd_channel.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "src/base/clock.h"
#include "src/base/start_thread.h"

namespace rondo {
namespace {

constexpr uint64_t client_patience_ns = 1'000'000'000;  // a taker sends its token at once
constexpr int listen_backlog = 128;
constexpr uint64_t retry_ns = 5'000'000;

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

/// False: the deadline passed.
bool wait_for(int descriptor, short events, uint64_t deadline_ns) {
  pollfd entry{descriptor, events, 0};
  for (uint64_t now = now_ns(); now < deadline_ns; now = now_ns()) {
    const int timeout_ms = static_cast<int>(std::min<uint64_t>((deadline_ns - now) / 1'000'000 + 1, 1000));
    if (::poll(&entry, 1, timeout_ms) > 0) return true;
  }
  return false;
}

bool same_user(int client) {
  ucred credentials{};
  socklen_t bytes = sizeof credentials;
  return ::getsockopt(client, SOL_SOCKET, SO_PEERCRED, &credentials, &bytes) == 0 && credentials.uid == ::geteuid();
}

/// One byte, since a descriptor needs data to ride on, with room for one descriptor. Points into itself.
struct DescriptorMessage {
  DescriptorMessage() {
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  DescriptorMessage(const DescriptorMessage &) = delete;
  DescriptorMessage &operator=(const DescriptorMessage &) = delete;

  char payload = 'r';
  iovec data{&payload, 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header{};
};

bool send_descriptor(int client, int descriptor) {
  DescriptorMessage message;
  cmsghdr *const header = CMSG_FIRSTHDR(&message.header);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(client, &message.header, MSG_NOSIGNAL) == 1;
}

Error owner_is_gone() { return {RONDO_ERROR_REMOTE, "the process that owns the shared memory is gone, or gave up"}; }

Result<FileDescriptor> receive_descriptor(int server) {
  DescriptorMessage message;
  const ssize_t received = ::recvmsg(server, &message.header, MSG_CMSG_CLOEXEC);
  if (received == 0 || (received < 0 && errno == ECONNRESET)) return owner_is_gone();
  if (received < 0) return system_error("recvmsg of a descriptor", errno);
  const cmsghdr *const header = CMSG_FIRSTHDR(&message.header);
  if ((message.header.msg_flags & MSG_CTRUNC) != 0)
    return Error{RONDO_ERROR_OUT_OF_RESOURCES, "no descriptor is free for the shared memory; raise ulimit -n"};
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
    return Error{RONDO_ERROR_INTERNAL, "the owner of the shared memory sent no descriptor"};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return FileDescriptor(descriptor);
}

}  // namespace

Result<FdServer> FdServer::listen() {
  FdTicket ticket;
  random_hex(ticket.name);
  random_hex(ticket.token);
  FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return system_error("socket(AF_UNIX)", errno);
  const AbstractAddress address = address_of(ticket);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr *>(&address.address), address.bytes) != 0)
    return system_error("bind of an abstract unix socket", errno);
  if (::listen(socket.get(), listen_backlog) != 0) return system_error("listen on an abstract unix socket", errno);
  return FdServer(std::move(socket), ticket);
}

Result<void> FdServer::serve(int descriptor, uint32_t taker_count, uint64_t deadline_ns) {
  for (uint32_t served = 0; served < taker_count;) {
    if (!wait_for(socket_.get(), POLLIN, deadline_ns))
      return Error{RONDO_ERROR_TIMEOUT, "only " + std::to_string(served) + " of " + std::to_string(taker_count) +
                                            " processes of this host fetched the shared memory in time"};
    const FileDescriptor client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!client.valid() && errno == EINVAL) return {};  // stop() was called: the socket listens no more
    if (!client.valid() && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
      return Error{RONDO_ERROR_OUT_OF_RESOURCES, system_error("accept of a local process", errno).message};
    if (client.valid() && same_user(client.get()) &&
        serve_one(client.get(), descriptor, std::min(deadline_ns, now_ns() + client_patience_ns)))
      ++served;
  }
  return {};
}

void FdServer::stop() const { ::shutdown(socket_.get(), SHUT_RDWR); }

bool FdServer::serve_one(int client, int descriptor, uint64_t deadline_ns) const {
  std::array<char, 32> token{};
  for (size_t have = 0; have < token.size();) {
    if (!wait_for(client, POLLIN, deadline_ns)) return false;
    const ssize_t got = ::recv(client, token.data() + have, token.size() - have, MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) return false;
    if (got > 0) have += static_cast<size_t>(got);
  }
  return sodium_memcmp(token.data(), ticket_.token.data(), token.size()) == 0 && send_descriptor(client, descriptor);
}

Result<std::unique_ptr<FdOffer>> FdOffer::make(FileDescriptor descriptor, uint64_t deadline_ns) {
  RONDO_TRY_ASSIGN(auto server, FdServer::listen());
  std::unique_ptr<FdOffer> offer(new FdOffer(std::move(server), std::move(descriptor)));
  RONDO_TRY_ASSIGN(offer->thread_, start_thread("handing out a descriptor", [&it = *offer, deadline_ns] {
                     constexpr uint32_t everybody = UINT32_MAX;
                     // For want of descriptors, say, others give theirs back: until the deadline it tries again.
                     while (!it.ended_.load(std::memory_order_acquire)) {  // pairs with the release in ~FdOffer
                       const auto served = it.server_.serve(it.descriptor_.get(), everybody, deadline_ns);
                       if (served.ok() || served.error().status != RONDO_ERROR_OUT_OF_RESOURCES) return;
                       sleep_for_ns(retry_ns);
                     }
                   }));
  return offer;
}

FdOffer::~FdOffer() {
  ended_.store(true, std::memory_order_release);  // pairs with the acquire of its thread
  server_.stop();
  if (thread_.joinable()) thread_.join();
}

Result<FileDescriptor> take_descriptor(const FdTicket &ticket, uint64_t deadline_ns) {
  const FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return system_error("socket(AF_UNIX)", errno);
  // A full backlog makes connect() wait.
  const uint64_t now = now_ns();
  const uint64_t left_us = deadline_ns > now ? (deadline_ns - now) / 1000 + 1 : 1;
  const timeval patience{static_cast<time_t>(left_us / 1'000'000), static_cast<suseconds_t>(left_us % 1'000'000)};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  const AbstractAddress address = address_of(ticket);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr *>(&address.address), address.bytes) != 0)
    return errno == ECONNREFUSED
               ? owner_is_gone()
               : system_error("connect to the process that owns the shared memory (same network namespace needed)",
                              errno);
  if (::send(socket.get(), ticket.token.data(), ticket.token.size(), MSG_NOSIGNAL) !=
      static_cast<ssize_t>(ticket.token.size()))
    return errno == EPIPE ? owner_is_gone() : system_error("send to the process that owns the shared memory", errno);
  if (!wait_for(socket.get(), POLLIN, deadline_ns))
    return Error{RONDO_ERROR_TIMEOUT, "the process that owns the shared memory did not hand it over in time"};
  return receive_descriptor(socket.get());
}

}  // namespace rondo
