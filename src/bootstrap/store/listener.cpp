// SPDX-License-Identifier: Apache-2.0
#include "src/bootstrap/store/listener.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

#include "src/bootstrap/endpoint.h"

namespace rondo {

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
