// SPDX-License-Identifier: Apache-2.0
// This file converts endpoints between text ("127.0.0.1:4000", "[fe80::1%eth0]:4000") and socket addresses.
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

/// Parses "HOST:PORT" or "[V6]:PORT", without resolving the host. The error quotes `text`.
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);
[[nodiscard]] std::string format_endpoint(const Endpoint &endpoint);

/// Converts an endpoint with a numeric host.
[[nodiscard]] Result<SocketAddress> socket_address(const Endpoint &endpoint);
[[nodiscard]] Endpoint endpoint_of(const SocketAddress &address);

/// Sets the interface of a link-local address of another host to that of this host's address `own`. Interface names
/// differ between hosts.
[[nodiscard]] Endpoint seen_from(const std::string &own, Endpoint endpoint);

/// Returns the address of this end of a connected socket. other_end() returns the address of the other end.
[[nodiscard]] std::optional<Endpoint> own_end(int socket);
[[nodiscard]] std::optional<Endpoint> other_end(int socket);
/// Says whether both ends of the connection are on this host.
[[nodiscard]] bool stays_on_host(int socket);

/// Joins hosts into the host of an endpoint, such as "192.0.2.7,198.51.100.7". Clients try the hosts in turn.
[[nodiscard]] std::string join_hosts(std::span<const std::string> hosts);
[[nodiscard]] std::vector<std::string> split_hosts(const std::string &host);

/// Returns the addresses of the host, at least one. A name is resolved by the system's resolver, whose own timeouts
/// apply. The hosts keep their order, and each host's IPv4 addresses precede its IPv6 addresses.
[[nodiscard]] Result<std::vector<SocketAddress>> addresses_of(const Endpoint &endpoint);

/// Says whether only this host can reach the address: 127.0.0.0/8, ::1.
[[nodiscard]] bool is_loopback(const SocketAddress &address);

}  // namespace rondo
