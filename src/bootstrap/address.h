// SPDX-License-Identifier: Apache-2.0
// Which of this host's addresses the bootstrap listens on.
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
  bool running = true;         ///< it has a carrier
  bool default_route = false;  ///< what has no route of its own leaves by this interface
};

/// Picks from `addresses` (pure). `wanted` is the name of an interface or an address. If it is empty, picks `by_route`
/// if that is one of these and not loopback. Otherwise picks a global address of an interface that is up, or loopback
/// if there is none. Among global ones an interface with a default route is first. Bridges to guests and containers of
/// this host, which have the same addresses on many hosts, and interfaces without a carrier are last. IPv4 is before
/// IPv6. The error lists the addresses.
[[nodiscard]] Result<std::string> pick_address(const std::vector<HostAddress> &addresses, std::string_view wanted,
                                               std::string_view by_route = {});

[[nodiscard]] Result<std::vector<HostAddress>> host_addresses();

/// Returns the interfaces of default routes, from the texts of /proc/net/route and /proc/net/ipv6_route (pure).
[[nodiscard]] std::vector<std::string> default_route_interfaces(const std::string &routes,
                                                                const std::string &ipv6_routes);

inline constexpr size_t offers_max = 5;

/// Returns the addresses by which other hosts may reach this one, the likeliest first, one of each interface (pure).
/// Bridges to guests and interfaces without a carrier are left out if there are others. At most offers_max.
[[nodiscard]] std::vector<std::string> pick_offers(const std::vector<HostAddress> &addresses);

/// Where a store listens that ranks on other hosts are to reach, and the host of its endpoint for them.
struct Offer {
  std::string listen;
  std::string host;  ///< an address, or several that are tried in turn (join_hosts())
};
/// Offers the address of `network_interface`, as choose_address() takes it. If that is empty and several networks may
/// lead to the other hosts, offers pick_offers().
[[nodiscard]] Result<Offer> offer_addresses(std::string_view network_interface);

/// Returns this host's own address on the route to the numeric address `to`. Sends nothing.
[[nodiscard]] std::optional<HostAddress> address_of_route(const std::string &to);

inline constexpr size_t rails_max = 8;

/// Checks that no place of the list is empty, and that it is not too long.
[[nodiscard]] Result<void> check_rails(std::string_view network_interfaces);
/// Calls pick_address() on this host's addresses for each of a list with commas; no two may have the same address. The
/// interface of an address that no interface lists (127.0.0.9) is empty.
[[nodiscard]] Result<std::vector<HostAddress>> choose_addresses(std::string_view network_interfaces,
                                                                std::string_view by_route = {});
/// Refuses a list that choose_addresses() would refuse. An empty one is right on every host.
[[nodiscard]] Result<void> check_interfaces(std::string_view network_interfaces);
/// Returns the first of choose_addresses(), as text.
[[nodiscard]] Result<std::string> choose_address(std::string_view network_interfaces);
/// Returns how many places a list has; an empty one has one.
[[nodiscard]] size_t rail_count(std::string_view list);
/// Returns the rails of the links between hosts. A rail is a network interface, or by verbs a device if the user names
/// devices.
[[nodiscard]] size_t rail_count(const Config &config);

}  // namespace rondo
