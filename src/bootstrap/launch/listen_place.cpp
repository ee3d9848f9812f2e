// SPDX-License-Identifier: Apache-2.0
#include "src/bootstrap/launch/listen_place.h"

#include <algorithm>

#include "src/base/log.h"
#include "src/base/parse.h"
#include "src/bootstrap/resolver.h"

namespace rondo {
namespace {

constexpr uint64_t own_name_interval_ns = 1'000'000'000;

/// Says whether `host` is written as loopback: "localhost" or a similar name, or a loopback address.
bool spells_loopback(const std::string &host) {
  if (const auto address = socket_address({host, 1}); address.ok()) return is_loopback(address.value());
  const std::string_view name = host;
  return name.starts_with("localhost") || name.starts_with("ip6-l") || name.ends_with(".localhost");
}

bool is_one_of(const std::vector<HostAddress> &own, const std::string &address) {
  return std::ranges::any_of(own, [&](const HostAddress &each) { return each.up && each.address == address; });
}

std::string listed(const std::vector<HostAddress> &own) {
  std::string text;
  for (const HostAddress &each : own)
    if (each.up && !each.loopback) text += (text.empty() ? "" : ", ") + each.address + " (" + each.interface + ")";
  return text.empty() ? "none but loopback" : text;
}

/// Returns the address that stands for all addresses of this host, with IPv4 and IPv6 if it has both.
std::string any_address(const std::vector<HostAddress> &own) {
  return std::ranges::any_of(own, &HostAddress::v6) ? "::" : "0.0.0.0";
}

}  // namespace

Result<ListenPlace> pick_listen_place(const Endpoint &master, const std::vector<SocketAddress> &master_is,
                                      const std::vector<HostAddress> &own, const std::string &chosen) {
  std::vector<Endpoint> reached;
  for (const SocketAddress &address : master_is) {
    const Endpoint here = endpoint_of(address);
    const bool any = here.host == "0.0.0.0" || here.host == "::";  // a request to listen on all addresses
    if (any) return ListenPlace{here, here};
    const auto is_same = [&](const Endpoint &other) { return other.host == here.host; };
    const bool is_known = std::any_of(reached.begin(), reached.end(), is_same);  // a name may have an address twice
    if (!is_known && !is_loopback(address) && is_one_of(own, here.host)) reached.push_back(here);
  }
  if (reached.size() == 1) return ListenPlace{reached[0], reached[0]};
  // Another host may reach only some of these addresses.
  if (reached.size() > 1) return ListenPlace{{any_address(own), master.port}, reached[0]};
  for (const SocketAddress &address : master_is) {
    if (!is_loopback(address)) continue;
    const Endpoint here = endpoint_of(address);
    return ListenPlace{spells_loopback(master.host) ? here : Endpoint{any_address(own), master.port}, here};
  }
  if (!chosen.empty()) return ListenPlace{{chosen, master.port}, {chosen, master.port}};
  const std::string address = master_is.empty() ? "no address" : endpoint_of(master_is.front()).host;
  return invalid_argument("MASTER_ADDR: " + in_quotes(master.host) +
                          (address == master.host ? "" : ", which is " + address + ",") +
                          " is not an address of this host, on which rank 0 listens. This host has: " + listed(own) +
                          ". Give the address of rank 0's host. If a service, as of Kubernetes, forwards connections "
                          "to this host, set RONDO_INTERFACE for rank 0 to the interface on which they arrive");
}

Result<ListenPlace> find_listen_place(const Endpoint &master, std::string_view network_interface,
                                      uint64_t deadline_ns, const Cancel *cancel) {
  std::string chosen;
  if (!network_interface.empty()) {
    RONDO_TRY_ASSIGN(chosen, choose_address(network_interface));
  }
  for (bool first = true;; first = false) {  // ends at the deadline
    Resolver resolver(master);
    RONDO_TRY_ASSIGN(const std::vector<SocketAddress> master_is, resolver.wait(deadline_ns, cancel));
    RONDO_TRY_ASSIGN(const std::vector<HostAddress> own, host_addresses());
    auto place = pick_listen_place(master, master_is, own, chosen);
    if (place.ok()) {
      log::debug(log::Subsystem::bootstrap, "MASTER_ADDR " + in_quotes(master.host) + ": listens on " +
                                                format_endpoint(place.value().listen));
      return place;
    }
    // A restarted pod has another address, which the name service learns a moment later.
    const bool again = resolver.is_name() && now_ns() + own_name_interval_ns < deadline_ns;
    if (!again || (cancel != nullptr && cancel->requested())) return place;
    if (first) log::warning(log::Subsystem::bootstrap, place.error().message + ". Rondo looks it up again");
    sleep_for_ns(own_name_interval_ns);
  }
}

}  // namespace rondo
