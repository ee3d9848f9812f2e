// SPDX-License-Identifier: Apache-2.0
// This file chooses the address of this host on which the bootstrap listens.
#pragma once

#include <optional>

#include "src/base/config.h"
#include "src/bootstrap/store/store.h"

namespace rondo {

/// An address of one of this host's network interfaces, as the system lists it.
struct HostAddress {
  std::string interface;
  std::string address;  ///< numeric; link-local IPv6 with "%interface"
  bool up = false;
  bool loopback = false;
  bool v6 = false;
  bool link_local = false;
  bool running = true;         ///< the interface has a carrier
  bool default_route = false;  ///< packets without a more specific route leave by this interface
};

/// Picks one of `addresses` (pure). `wanted` names an interface or an address. It may also be a choice of one
/// interface, by the names that it admits ("eth*,ib0") or excludes ("^docker*,lo"); * stands for any end of a name. If
/// `wanted` is empty, or among several admitted ones, picks `by_route` if it is in the list and not loopback. Without
/// such a `by_route`, picks a global address of an interface that is up, or loopback if none exists. Interfaces with a
/// default route come first, and IPv4 before IPv6. Last come interfaces without a carrier, and bridges to guests and
/// containers. Many hosts have the same addresses on such bridges. The error lists the addresses.
[[nodiscard]] Result<std::string> pick_address(const std::vector<HostAddress> &addresses, std::string_view wanted,
                                               std::string_view by_route = {});

[[nodiscard]] Result<std::vector<HostAddress>> host_addresses();

/// Returns interfaces that have a default route in the texts of /proc/net/route and /proc/net/ipv6_route (pure).
[[nodiscard]] std::vector<std::string> default_route_interfaces(const std::string &routes,
                                                                const std::string &ipv6_routes);

inline constexpr size_t offers_max = 5;

/// Returns addresses by which other hosts may reach this host, the likeliest first: one for each interface, at most
/// offers_max (pure). Bridges to guests, and interfaces without a carrier, count only if nothing better exists.
[[nodiscard]] std::vector<std::string> pick_offers(const std::vector<HostAddress> &addresses);

/// The address on which a store listens for ranks of other hosts, and the host in the endpoint that they use.
struct Offer {
  std::string listen;
  std::string host;  ///< one address, or several that are tried in turn (join_hosts())
};
/// Returns the address of `network_interface`, whose form is as for choose_address(). If `network_interface` is empty
/// and several networks may lead to the other hosts, returns pick_offers().
[[nodiscard]] Result<Offer> offer_addresses(std::string_view network_interface);

/// Returns this host's address on the route to the numeric address `to`. Sends no packet.
[[nodiscard]] std::optional<HostAddress> address_of_route(const std::string &to);

inline constexpr size_t rails_max = 8;

/// Checks that no entry of the list is empty, and that the list is not too long.
[[nodiscard]] Result<void> check_rails(std::string_view network_interfaces);
/// Calls pick_address() on this host's addresses for each entry of a comma-separated list. Two entries must not have
/// the same address. An address such as 127.0.0.9, which no interface lists, is accepted; its interface is "".
[[nodiscard]] Result<std::vector<HostAddress>> choose_addresses(std::string_view network_interfaces,
                                                                std::string_view by_route = {});
/// Returns an error if choose_addresses() would refuse the list. An empty list is valid on every host.
[[nodiscard]] Result<void> check_interfaces(std::string_view network_interfaces);
/// Returns the first address that choose_addresses() returns, as text.
[[nodiscard]] Result<std::string> choose_address(std::string_view network_interfaces);
/// Returns the number of entries of a list. An empty list and a choice count as one entry.
[[nodiscard]] size_t rail_count(std::string_view list);
/// Returns the number of rails of links between hosts. A rail is a network interface, or with verbs an RDMA device if
/// the user has named devices.
[[nodiscard]] size_t rail_count(const Config &config);

}  // namespace rondo
