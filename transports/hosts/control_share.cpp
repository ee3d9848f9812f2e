// SPDX-License-Identifier: Apache-2.0
#include "transports/hosts/control_share.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>

namespace rondo::hosts {
namespace {

constexpr int socket_buffer_bytes = 1 << 20;

/// Returns the descriptors in the order in which they are passed.
std::vector<int> descriptors_of(int memory, int bell, const std::vector<int> &sockets) {
  std::vector<int> descriptors{memory, bell};
  descriptors.insert(descriptors.end(), sockets.begin(), sockets.end());
  return descriptors;
}

Result<net::ControlShare> take_share(const FdTicket &ticket, const ShareRequest &request, uint32_t host_count,
                                Store &store) {
  constexpr size_t others = 2;  // memory and bell
  RONDO_TRY_ASSIGN(auto taken, take_descriptors(ticket, others + host_count - 1, request.deadline_ns,
                                                [&store] { return store.check(); }));
  net::ControlShare share;
  const auto rank_count = static_cast<uint32_t>(request.host_of.size());
  RONDO_TRY_ASSIGN(share.memory, net::ControlMemory::map(taken[0].get(), host_count, rank_count));
  share.bell = std::move(taken[1]);
  share.sockets.resize(host_count);
  size_t next = others;
  for (uint32_t host = 0; host < host_count; ++host)
    if (host != request.host_of[request.rank]) share.sockets[host] = std::move(taken[next++]);
  return share;
}

}  // namespace

Result<SharedControl> share_control(const ShareRequest &request, const std::vector<int> &sockets, Store &store) {
  const std::vector<uint32_t> &host_of = request.host_of;
  const uint32_t host = host_of[request.rank];
  const uint32_t host_count = net::host_count_of(host_of);
  const auto rank_count = static_cast<uint32_t>(host_of.size());
  const auto first = static_cast<uint32_t>(std::ranges::find(host_of, host) - host_of.begin());
  const std::string key = request.key_prefix + "/control/" + std::to_string(host);
  SharedControl result;
  if (request.rank != first) {
    RONDO_TRY_ASSIGN(const Bytes bytes, store.get(key, request.deadline_ns));
    FdTicket ticket;
    if (bytes.size() != sizeof ticket) return Error{RONDO_ERROR_MISMATCH, "ranks run different versions of Rondo"};
    std::memcpy(&ticket, bytes.data(), sizeof ticket);
    auto taken = take_share(ticket, request, host_count, store);
    if (!taken.ok()) return StoreWatch(store).about_owner(std::move(taken).error(), first);
    result.share = std::move(taken).value();
    return result;
  }
  FileDescriptor &file = result.offer.memory;
  RONDO_TRY_ASSIGN(file, net::ControlMemory::create(host_count, rank_count));
  RONDO_TRY_ASSIGN(result.share.memory, net::ControlMemory::map(file.get(), host_count, rank_count));
  result.share.bell.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!result.share.bell.valid()) return system_error("eventfd", errno);
  if (std::ranges::count(host_of, host) == 1) return result;
  RONDO_TRY_ASSIGN(result.offer.offer, FdOffer::make(descriptors_of(file.get(), result.share.bell.get(), sockets),
                                                     request.deadline_ns));
  const auto ticket = std::as_bytes(std::span(&result.offer.offer->ticket(), 1));
  RONDO_TRY(store.put(key, ticket, request.deadline_ns));
  return result;
}

Result<void> set_control_options(int socket, uint64_t network_timeout_ns) {
  const int on = 1, idle_s = net::idle_s;
  // This timeout is a backup for the checks of the control plane. Unlike those checks, the kernel also counts time in
  // which this machine stood still, so this timeout is longer.
  const int timeout_ms = static_cast<int>(2 * network_timeout_ns / 1'000'000) + 3'000;
  const int whole_cell = net::cell_bytes;  // fewer bytes do not wake a reader
  if (::fcntl(socket, F_SETFL, O_NONBLOCK) != 0 ||
      ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
      ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof timeout_ms) != 0 ||
      ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on) != 0 ||
      ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s) != 0 ||
      ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &idle_s, sizeof idle_s) != 0 ||
      ::setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &socket_buffer_bytes, sizeof socket_buffer_bytes) != 0 ||
      // Without this clamp, older kernels keep the window that the buffer had when the connection was made.
      ::setsockopt(socket, IPPROTO_TCP, TCP_WINDOW_CLAMP, &socket_buffer_bytes, sizeof socket_buffer_bytes) != 0 ||
      ::setsockopt(socket, SOL_SOCKET, SO_RCVLOWAT, &whole_cell, sizeof whole_cell) != 0)
    return system_error("setting up a control connection", errno);
  return {};
}

}  // namespace rondo::hosts
