// SPDX-License-Identifier: Apache-2.0
// Endpoints as text ("127.0.0.1:4000", "[fe80::1%eth0]:4000") and as socket addresses.
#pragma once

#include <sys/socket.h>

#include "src/bootstrap/store/store.h"

namespace rondo {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  [[nodiscard]] const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
  [[nodiscard]] sockaddr *get() { return reinterpret_cast<sockaddr *>(&storage); }
};

/// "HOST:PORT" or "[V6]:PORT"; the host is not looked up. The error quotes `text`.
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);
[[nodiscard]] std::string format_endpoint(const Endpoint &endpoint);

/// Of a numeric host.
[[nodiscard]] Result<SocketAddress> socket_address(const Endpoint &endpoint);
[[nodiscard]] Endpoint endpoint_of(const SocketAddress &address);

/// A numeric host as it is; a name through the system's resolver, whose own timeouts bound it. Not empty; IPv4 first.
[[nodiscard]] Result<std::vector<SocketAddress>> addresses_of(const Endpoint &endpoint);

/// An address that only this host reaches: 127.0.0.0/8, ::1.
[[nodiscard]] bool is_loopback(const SocketAddress &address);

}  // namespace rondo
