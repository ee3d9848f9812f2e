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

/// Parses "HOST:PORT" or "[V6]:PORT"; the host is not looked up. The error quotes `text`.
[[nodiscard]] Result<Endpoint> parse_endpoint(std::string_view text);
[[nodiscard]] std::string format_endpoint(const Endpoint &endpoint);

/// Converts an endpoint with a numeric host.
[[nodiscard]] Result<SocketAddress> socket_address(const Endpoint &endpoint);
[[nodiscard]] Endpoint endpoint_of(const SocketAddress &address);

/// Returns the ends of a connected socket.
[[nodiscard]] std::optional<Endpoint> own_end(int socket);
[[nodiscard]] std::optional<Endpoint> other_end(int socket);
/// Returns whether both ends are on this host.
[[nodiscard]] bool stays_on_host(int socket);

/// The host of an endpoint may be several, which are tried in turn: "192.0.2.7,198.51.100.7".
[[nodiscard]] std::string join_hosts(std::span<const std::string> hosts);
[[nodiscard]] std::vector<std::string> split_hosts(const std::string &host);

/// Returns a numeric host as it is, and a name through the system's resolver, whose own timeouts bound it. The result
/// is not empty, and IPv4 is first. Of several hosts, the addresses of the first one come first.
[[nodiscard]] Result<std::vector<SocketAddress>> addresses_of(const Endpoint &endpoint);

/// Says whether only this host reaches the address: 127.0.0.0/8, ::1.
[[nodiscard]] bool is_loopback(const SocketAddress &address);

}  // namespace rondo
