// SPDX-License-Identifier: Apache-2.0
// This file chooses the address of this host on which the bootstrap listens.
#include "src/bootstrap/address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "src/base/log.h"
#include "src/base/parse.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/endpoint.h"

namespace rondo {
namespace {

std::string listed(const std::vector<HostAddress> &addresses) {
  std::string text;
  for (const HostAddress &each : addresses)
    text += (text.empty() ? "" : ", ") + each.interface + " (" + each.address + (each.up ? ")" : ", down)");
  return text.empty() ? "none" : text;
}

/// Says whether the interface is a bridge that a program made for this host's containers or virtual machines.
bool is_guest_bridge(const std::string &interface) {
  constexpr std::array prefixes{"docker", "br-",     "virbr", "veth",  "vnet",   "cni",
                                "cali",   "flannel", "lxcbr", "lxdbr", "podman", "kube"};
  return std::ranges::any_of(prefixes, [&](const char *prefix) { return interface.starts_with(prefix); });
}

constexpr int last_place = 4;  // of an address that other hosts have, too, or whose interface leads nowhere

/// Returns the address's place in the order of preference. It is lower if other hosts more likely reach the address.
int place_of(const HostAddress &each) {
  const bool last = is_guest_bridge(each.interface) || !each.running;
  return (each.default_route ? 0 : last ? last_place : 2) + (each.v6 ? 1 : 0);
}

/// Returns the global addresses, the best first.
std::vector<HostAddress> best_global(const std::vector<HostAddress> &addresses) {
  std::vector<HostAddress> found;
  for (const HostAddress &each : addresses)
    if (each.up && !each.loopback && !each.link_local) found.push_back(each);
  std::ranges::stable_sort(found, {}, place_of);
  return found;
}

std::string read_text(const char *path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns whether the list says by which names one interface is chosen: "^docker*,lo" or "eth*,ib*".
bool is_choice(std::string_view list) { return list.starts_with('^') || list.find('*') != list.npos; }

/// Removes the first entry of a comma-separated list, and returns it. All of a choice is one entry.
std::string_view take_entry(std::string_view &rest) {
  const std::string_view entry = rest.substr(0, is_choice(rest) ? rest.npos : rest.find(','));
  rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
  return entry;
}

/// Returns whether a choice admits the interface.
bool admits(std::string_view choice, std::string_view interface) {
  const bool excludes = choice.starts_with('^');
  choice.remove_prefix(excludes ? 1 : 0);
  bool matches = false;
  for (std::string_view rest = choice; !rest.empty();) {
    const std::string_view name = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    matches |= name.ends_with('*') ? interface.starts_with(name.substr(0, name.size() - 1)) : interface == name;
  }
  return matches != excludes;
}

/// Calls pick_address() for each entry of a comma-separated list.
Result<std::vector<HostAddress>> pick_addresses(const std::vector<HostAddress> &addresses,
                                                std::string_view network_interfaces, std::string_view by_route) {
  RONDO_TRY(check_rails(network_interfaces));
  std::vector<HostAddress> chosen;
  for (std::string_view rest = network_interfaces; chosen.size() < rail_count(network_interfaces);) {
    RONDO_TRY_ASSIGN(std::string address, pick_address(addresses, take_entry(rest), by_route));
    if (std::ranges::find(chosen, address, &HostAddress::address) != chosen.end())
      return invalid_argument(in_quotes(network_interfaces) + " names the address " + address + " twice");
    const auto found = std::ranges::find(addresses, address, &HostAddress::address);
    chosen.push_back(found != addresses.end() ? *found : HostAddress{.interface = {}, .address = std::move(address)});
  }
  return chosen;
}

/// Returns the first address for which `fits` is true. IPv4 precedes IPv6, and global precedes link-local.
template <class Fits>
const HostAddress *best(const std::vector<HostAddress> &addresses, const Fits &fits) {
  for (const bool link_local : {false, true})
    for (const bool v6 : {false, true})
      for (const HostAddress &each : addresses)
        if (each.up && each.v6 == v6 && each.link_local == link_local && fits(each)) return &each;
  return nullptr;
}

/// Returns the address `by_route`, or the best address that other hosts may reach. Returns nothing if there is none.
std::optional<std::string> preferred(const std::vector<HostAddress> &addresses, std::string_view by_route) {
  const HostAddress *const routed =
      best(addresses, [&](const HostAddress &each) { return !each.loopback && each.address == by_route; });
  if (routed != nullptr) return routed->address;
  if (const auto global = best_global(addresses); !global.empty()) return global.front().address;
  return std::nullopt;
}

/// Picks the address of an interface that the choice admits.
Result<std::string> pick_by_choice(const std::vector<HostAddress> &addresses, std::string_view choice,
                                   std::string_view by_route) {
  std::vector<HostAddress> admitted;
  for (const HostAddress &each : addresses)
    if (admits(choice, each.interface)) admitted.push_back(each);
  if (const auto found = preferred(admitted, by_route)) return *found;
  const HostAddress *const other = best(admitted, [](const HostAddress &) { return true; });
  if (other != nullptr) return other->address;
  return invalid_argument(in_quotes(choice) +
                          " selects no network interface that is up and has an address; this host " +
                          "has: " + listed(addresses));
}

}  // namespace

Result<std::string> pick_address(const std::vector<HostAddress> &addresses, std::string_view wanted,
                                 std::string_view by_route) {
  if (wanted.empty()) {
    if (const auto found = preferred(addresses, by_route)) return *found;
    const HostAddress *const found = best(addresses, [](const HostAddress &each) { return each.loopback; });
    return found == nullptr ? std::string("127.0.0.1") : found->address;
  }
  if (is_choice(wanted)) return pick_by_choice(addresses, wanted, by_route);
  for (const HostAddress &each : addresses)
    if (each.address == wanted) return each.address;
  // `wanted` may be another spelling of an address of this host ("::0001"), or an address of 127.0.0.0/8.
  if (const auto parsed = socket_address({std::string(wanted), 1}); parsed.ok()) {
    const std::string plain = endpoint_of(parsed.value()).host;
    const bool known = std::ranges::any_of(addresses, [&](const HostAddress &each) { return each.address == plain; });
    if (known || plain.compare(0, 4, "127.") == 0) return plain;
    return invalid_argument("address " + in_quotes(wanted) +
                            " is not an address of this host, which has: " + listed(addresses));
  }
  const HostAddress *found = best(addresses, [&](const HostAddress &each) { return each.interface == wanted; });
  if (found != nullptr) return found->address;
  return invalid_argument("network interface " + in_quotes(wanted) +
                          " does not exist, is down or has no address; this host has: " + listed(addresses));
}

std::vector<std::string> pick_offers(const std::vector<HostAddress> &addresses) {
  std::vector<std::string> offers, interfaces;
  for (const HostAddress &each : best_global(addresses)) {
    const bool useless = !offers.empty() && place_of(each) >= last_place;
    if (useless || offers.size() == offers_max || std::ranges::find(interfaces, each.interface) != interfaces.end())
      continue;
    offers.push_back(each.address);
    interfaces.push_back(each.interface);
  }
  return offers;
}

Result<Offer> offer_addresses(std::string_view network_interface) {
  if (network_interface.empty()) {
    RONDO_TRY_ASSIGN(const std::vector<HostAddress> addresses, host_addresses());
    const std::vector<std::string> offers = pick_offers(addresses);
    if (offers.size() > 1) {
      const bool v6 = std::ranges::any_of(addresses, &HostAddress::v6);
      return Offer{v6 ? "::" : "0.0.0.0", join_hosts(offers)};
    }
  }
  RONDO_TRY_ASSIGN(const std::string address, choose_address(network_interface));
  return Offer{address, address};
}

std::optional<HostAddress> address_of_route(const std::string &to) {
  constexpr uint16_t any_port = 9;  // nothing is sent to this port
  auto address = socket_address({to, any_port});
  const auto addresses = host_addresses();
  if (!address.ok() || !addresses.ok()) return std::nullopt;
  const FileDescriptor socket(::socket(address.value().get()->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.valid() || ::connect(socket.get(), address.value().get(), address.value().bytes) != 0)
    return std::nullopt;
  const auto own = own_end(socket.get());
  if (!own) return std::nullopt;
  const auto found = std::ranges::find(addresses.value(), own->host, &HostAddress::address);
  return found == addresses.value().end() ? std::nullopt : std::optional(*found);
}

std::vector<std::string> default_route_interfaces(const std::string &routes, const std::string &ipv6_routes) {
  std::vector<std::string> interfaces;
  std::string line;
  for (std::istringstream lines(routes); std::getline(lines, line);) {
    std::istringstream words(line);  // interface, destination, gateway, flags, three counts, mask
    std::string interface, destination, skipped, mask;
    words >> interface >> destination >> skipped >> skipped >> skipped >> skipped >> skipped >> mask;
    if (destination == "00000000" && mask == "00000000") interfaces.push_back(interface);
  }
  for (std::istringstream lines(ipv6_routes); std::getline(lines, line);) {
    std::istringstream words(line);  // destination and its length, source and its length, next hop, ..., interface
    std::string destination, length, word, interface;
    words >> destination >> length;
    while (words >> word) interface = word;
    const bool all = length == "00" && destination.find_first_not_of('0') == std::string::npos && !destination.empty();
    if (all && interface != "lo") interfaces.push_back(interface);  // on lo, it only rejects packets
  }
  return interfaces;
}

Result<std::vector<HostAddress>> host_addresses() {
  struct Deleter {
    void operator()(ifaddrs *list) const { ::freeifaddrs(list); }
  };
  ifaddrs *head = nullptr;
  if (::getifaddrs(&head) != 0) return system_error("getifaddrs", errno);
  const std::unique_ptr<ifaddrs, Deleter> list(head);
  std::vector<HostAddress> addresses;
  const auto routed = default_route_interfaces(read_text("/proc/net/route"), read_text("/proc/net/ipv6_route"));
  for (const ifaddrs *each = head; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    const int family = each->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    SocketAddress address;
    address.bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    std::memcpy(&address.storage, each->ifa_addr, address.bytes);
    HostAddress host;
    host.interface = each->ifa_name;
    host.address = endpoint_of(address).host;
    host.up = (each->ifa_flags & IFF_UP) != 0;
    host.loopback = (each->ifa_flags & IFF_LOOPBACK) != 0;
    host.running = (each->ifa_flags & IFF_RUNNING) != 0;
    host.default_route = std::ranges::find(routed, host.interface) != routed.end();
    host.v6 = family == AF_INET6;
    const auto *bytes = reinterpret_cast<const sockaddr_in *>(address.get());
    host.link_local = host.v6 ? IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6 *>(address.get())->sin6_addr)
                              : (ntohl(bytes->sin_addr.s_addr) >> 16) == 0xa9feu;
    addresses.push_back(std::move(host));
  }
  return addresses;
}

size_t rail_count(std::string_view list) {
  if (is_choice(list)) return 1;
  return 1 + static_cast<size_t>(std::ranges::count(list, ','));
}

size_t rail_count(const Config &config) {
  const bool by_device = config.network == NetworkChoice::verbs && !config.ib_devices.empty();
  return rail_count(by_device ? config.ib_devices : config.network_interface);
}

Result<void> check_rails(std::string_view network_interfaces) {
  if (network_interfaces.empty()) return {};
  if (network_interfaces.front() == ',' || network_interfaces.back() == ',' ||
      network_interfaces.find(",,") != std::string_view::npos)
    return invalid_argument(in_quotes(network_interfaces) + " has an empty entry; name a network interface there");
  for (size_t at = 0; at < network_interfaces.size(); ++at) {
    const bool ends = at + 1 == network_interfaces.size() || network_interfaces[at + 1] == ',';
    if ((network_interfaces[at] == '*' && !ends) || (network_interfaces[at] == '^' && (at != 0 || ends)))
      return invalid_argument(in_quotes(network_interfaces) +
                              " is no list of names; put ^ before the first name, and * behind a name");
  }
  if (rail_count(network_interfaces) <= rails_max) return {};
  return invalid_argument(in_quotes(network_interfaces) + " has more than " + std::to_string(rails_max) +
                          " network interfaces");
}

Result<std::vector<HostAddress>> choose_addresses(std::string_view network_interfaces, std::string_view by_route) {
  RONDO_TRY_ASSIGN(const std::vector<HostAddress> addresses, host_addresses());
  RONDO_TRY_ASSIGN(std::vector<HostAddress> chosen, pick_addresses(addresses, network_interfaces, by_route));
  if (log::enabled(log::Level::debug, log::Subsystem::bootstrap))
    for (const HostAddress &each : chosen)
      log::debug(log::Subsystem::bootstrap, "uses the address " + each.address +
                                                (each.interface.empty() ? "" : ", interface " + each.interface) +
                                                "; there are: " + listed(addresses));
  return chosen;
}

Result<void> check_interfaces(std::string_view network_interfaces) {
  if (network_interfaces.empty()) return {};
  RONDO_TRY_ASSIGN(const std::vector<HostAddress> addresses, host_addresses());
  const auto picked = pick_addresses(addresses, network_interfaces, {});
  if (picked.ok()) return {};
  Error error = picked.error();
  error.message.insert(0, "RONDO_INTERFACE or network_interface: ");
  return error;
}

Result<std::string> choose_address(std::string_view network_interfaces) {
  RONDO_TRY(check_rails(network_interfaces));
  RONDO_TRY_ASSIGN(const auto chosen, choose_addresses(take_entry(network_interfaces)));
  return chosen.front().address;
}

}  // namespace rondo
