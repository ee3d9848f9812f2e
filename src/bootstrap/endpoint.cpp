// SPDX-License-Identifier: Apache-2.0
// This file implements endpoints: their text, their socket addresses, and the lookup of names.
#include "src/bootstrap/endpoint.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "src/base/parse.h"

namespace rondo {
namespace {

struct AddressListDeleter {
  void operator()(addrinfo *list) const { ::freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, AddressListDeleter>;

Result<AddressList> look_up(const Endpoint &endpoint, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo *list = nullptr;
  const int error = ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &list);
  if (error != 0)
    return invalid_argument("address " + in_quotes(endpoint.host) + ": " + ::gai_strerror(error) + "; give " +
                            ((flags & AI_NUMERICHOST) != 0 ? "an IPv4 or IPv6 address of this host's network"
                                                           : "a host name that resolves, or an address"));
  return AddressList(list);
}

SocketAddress copy_of(const addrinfo &info) {
  SocketAddress address;
  std::memcpy(&address.storage, info.ai_addr, info.ai_addrlen);
  address.bytes = info.ai_addrlen;
  return address;
}

}  // namespace

Result<Endpoint> parse_endpoint(std::string_view text) {
  const auto refuse = [text] {
    return invalid_argument(in_quotes(text) + " is not HOST:PORT or [IPV6]:PORT with a port of 1-65535");
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return refuse();
  std::string_view host = text.substr(0, colon);
  const auto port = parse_number(text.substr(colon + 1), 1, 65'535);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  const bool odd = host.find_first_of("[] \t\r\n") != std::string_view::npos;
  if (!port.ok() || host.empty() || host.size() > 255 || odd) return refuse();
  if (!bracketed && host.find(':') != std::string_view::npos) return refuse();
  return Endpoint{std::string(host), static_cast<uint16_t>(port.value())};
}

std::string format_endpoint(const Endpoint &endpoint) {
  const bool v6 = endpoint.host.find(':') != std::string::npos;
  return (v6 ? "[" + endpoint.host + "]" : endpoint.host) + ":" + std::to_string(endpoint.port);
}

Result<SocketAddress> socket_address(const Endpoint &endpoint) {
  RONDO_TRY_ASSIGN(const AddressList list, look_up(endpoint, AI_NUMERICHOST));
  return copy_of(*list);
}

Endpoint endpoint_of(const SocketAddress &address) {
  char host[INET6_ADDRSTRLEN + IF_NAMESIZE + 2] = "?";
  char port[8] = "0";
  ::getnameinfo(address.get(), address.bytes, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  const auto number = parse_number(port, 0, 65'535);
  return {host, number.ok() ? static_cast<uint16_t>(number.value()) : uint16_t{0}};
}

std::optional<Endpoint> own_end(int socket) {
  SocketAddress address;
  address.bytes = sizeof address.storage;
  return ::getsockname(socket, address.get(), &address.bytes) == 0 ? std::optional(endpoint_of(address)) : std::nullopt;
}

std::optional<Endpoint> other_end(int socket) {
  SocketAddress address;
  address.bytes = sizeof address.storage;
  return ::getpeername(socket, address.get(), &address.bytes) == 0 ? std::optional(endpoint_of(address)) : std::nullopt;
}

bool stays_on_host(int socket) {
  const auto here = own_end(socket), there = other_end(socket);
  if (!here || !there) return false;
  const auto address = socket_address(*here);
  return here->host == there->host || (address.ok() && is_loopback(address.value()));
}

Endpoint seen_from(const std::string &own, Endpoint endpoint) {
  const size_t own_scope = own.find('%'), scope = endpoint.host.find('%');
  if (own_scope != std::string::npos && scope != std::string::npos)
    endpoint.host.replace(scope, std::string::npos, own, own_scope);
  return endpoint;
}

std::string join_hosts(std::span<const std::string> hosts) {
  std::string joined;
  for (const std::string &host : hosts) joined += (joined.empty() ? "" : ",") + host;
  return joined;
}

std::vector<std::string> split_hosts(const std::string &host) {
  std::vector<std::string> hosts;
  for (size_t at = 0; at <= host.size();) {  // one host per round
    const size_t end = std::min(host.find(',', at), host.size());
    hosts.push_back(host.substr(at, end - at));
    at = end + 1;
  }
  return hosts;
}

Result<std::vector<SocketAddress>> addresses_of(const Endpoint &endpoint) {
  std::vector<SocketAddress> addresses;
  for (std::string &host : split_hosts(endpoint.host)) {
    RONDO_TRY_ASSIGN(const AddressList list, look_up({std::move(host), endpoint.port}, 0));
    for (const bool v4 : {true, false})
      for (const addrinfo *info = list.get(); info != nullptr; info = info->ai_next)
        if ((info->ai_family == AF_INET) == v4) addresses.push_back(copy_of(*info));
  }
  return addresses;
}

bool is_loopback(const SocketAddress &address) {
  if (address.storage.ss_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in *>(address.get())->sin_addr.s_addr) >> 24) == 127;
  return address.storage.ss_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6 *>(address.get())->sin6_addr);
}

}  // namespace rondo
