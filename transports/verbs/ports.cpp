// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/ports.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>

#include "src/bootstrap/address.h"

namespace rondo::verbs {
namespace {

constexpr size_t v4_offset = 12;

bool holds_v4(const GidBytes &gid) {
  return std::all_of(gid.begin(), gid.begin() + 10, [](uint8_t byte) { return byte == 0; }) && gid[10] == 0xff &&
         gid[11] == 0xff;
}

/// Returns the GID that RoCE derives from a numeric address.
std::optional<GidBytes> gid_of(const std::string &address) {
  GidBytes gid{};
  if (::inet_pton(AF_INET, address.c_str(), gid.data() + v4_offset) == 1) {
    gid[10] = gid[11] = 0xff;
    return gid;
  }
  const std::string plain = address.substr(0, address.find('%'));
  if (::inet_pton(AF_INET6, plain.c_str(), gid.data()) == 1) return gid;
  return std::nullopt;
}

/// Returns how good a GID is; 0 means unusable.
int rank_of(const Gid &gid, const std::optional<GidBytes> &wanted) {
  if (gid.kind == GidKind::roce_v1) return 1;
  if (gid.kind == GidKind::infiniband) return 4;
  if (wanted && gid.bytes == *wanted) return 5;
  if (holds_v4(gid.bytes)) return 4;
  const bool link_local = gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80;
  return link_local ? 2 : 3;
}

bool wishes_for(const PortWish &wish, const Port &port) {
  return wish.device.empty() || wish.device == port.device ||
         wish.device == port.device + ":" + std::to_string(port.number);
}

std::string list(const std::vector<Port> &ports) {
  std::string text;
  for (const Port &port : ports) {
    text += (text.empty() ? "" : "; ") + port.describe() + (port.active ? " (active" : " (down");
    for (const Gid &gid : port.gids) text += ", " + gid.describe();
    text += ")";
  }
  return text;
}

Error cannot_be_used(const std::vector<Port> &ports, const std::string &what) {
  return {RONDO_ERROR_UNSUPPORTED, "RDMA verbs cannot be used: " + what +
                                       (ports.empty() ? "" : "; ports: " + list(ports)) +
                                       "; set RONDO_NETWORK=tcp to do without"};
}

/// Splits the wish into one wish for each rail.
Result<std::vector<PortWish>> split(const RailsWish &wish) {
  std::vector<PortWish> wishes;
  const auto add = [&](std::string device) {
    const std::vector<std::string> &known = wish.addresses;
    const size_t rail = wishes.size();
    wishes.push_back({std::move(device), wish.gid_index, known.empty() ? "" : known[rail < known.size() ? rail : 0],
                      wish.near_devices});
  };
  if (wish.devices.empty()) {
    do add("");
    while (wishes.size() < wish.addresses.size());
    return wishes;
  }
  const std::string devices = wish.devices + ",";
  for (size_t begin = 0, end = 0; begin < devices.size(); begin = end + 1) {
    end = devices.find(',', begin);
    if (end == begin)
      return Error{RONDO_ERROR_INVALID_ARGUMENT,
                   "RONDO_IB_HCA is '" + wish.devices + "', with an empty entry; name a device there"};
    add(devices.substr(begin, end - begin));
  }
  if (wishes.size() <= rails_max) return wishes;
  return Error{RONDO_ERROR_INVALID_ARGUMENT,
               "RONDO_IB_HCA is '" + wish.devices + "', of more than " + std::to_string(rails_max) + " devices"};
}

/// Returns a port near the rank's cores instead of `best`, if that port is known to reach the same remote ports. Only
/// InfiniBand ports of one subnet are known to do so; the subnet's number is the first half of a GID. RoCE does not
/// show which networks are connected.
PortChoice near_one(const std::vector<Port> &ports, const PortWish &wish, const PortChoice &best) {
  constexpr size_t subnet_bytes = 8;
  const auto is_near = [&](const Port &port) {
    return std::find(wish.near_devices.begin(), wish.near_devices.end(), port.device) != wish.near_devices.end();
  };
  if (best.gid.kind != GidKind::infiniband || is_near(ports[best.port])) return best;
  for (size_t index = 0; index < ports.size(); ++index) {
    if (!wishes_for(wish, ports[index]) || !ports[index].active || !is_near(ports[index])) continue;
    for (const Gid &gid : ports[index].gids)
      if (gid.kind == GidKind::infiniband && (wish.gid_index < 0 || gid.index == best.gid.index) &&
          std::equal(gid.bytes.begin(), gid.bytes.begin() + subnet_bytes, best.gid.bytes.begin()))
        return {index, gid};
  }
  return best;
}

}  // namespace

std::string Gid::describe() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (holds_v4(bytes))
    ::inet_ntop(AF_INET, bytes.data() + v4_offset, text.data(), text.size());
  else
    ::inet_ntop(AF_INET6, bytes.data(), text.data(), text.size());
  static constexpr std::array<const char *, 3> names{"InfiniBand", "RoCE v1", "RoCE v2"};
  return "GID " + std::to_string(index) + ", " + names.at(static_cast<size_t>(kind)) + ", " + text.data();
}

Result<PortChoice> choose_port(const std::vector<Port> &ports, const PortWish &wish) {
  const auto refuse = [&](const std::string &what) { return cannot_be_used(ports, what); };
  if (ports.empty()) return refuse("this host has no RDMA device");
  const auto wanted = gid_of(wish.address);
  std::optional<PortChoice> best;
  int best_rank = 0;
  bool device_known = false;
  bool active = false;
  for (size_t index = 0; index < ports.size(); ++index) {
    if (!wishes_for(wish, ports[index])) continue;
    device_known = true;
    if (!ports[index].active) continue;
    active = true;
    for (const Gid &gid : ports[index].gids) {
      if (wish.gid_index >= 0 && gid.index != static_cast<uint32_t>(wish.gid_index)) continue;
      if (rank_of(gid, wanted) <= best_rank) continue;
      best_rank = rank_of(gid, wanted);
      best = PortChoice{index, gid};
    }
  }
  if (best) return near_one(ports, wish, *best);
  if (!device_known) return refuse("RONDO_IB_HCA is " + wish.device + ", and no port has that name");
  if (!active) return refuse("no port is active");
  if (wish.gid_index >= 0)
    return refuse("RONDO_IB_GID_INDEX is " + std::to_string(wish.gid_index) + ", which no active port has");
  return refuse("no active port has an address (GID); does its network interface have one?");
}

Result<std::vector<PortChoice>> choose_ports(const std::vector<Port> &ports, const RailsWish &wish) {
  RONDO_TRY_ASSIGN(const std::vector<PortWish> wishes, split(wish));
  std::vector<PortChoice> choices;
  for (const PortWish &each : wishes) {
    RONDO_TRY_ASSIGN(const PortChoice choice, choose_port(ports, each));
    const auto same = [&](const PortChoice &earlier) { return earlier.port == choice.port; };
    if (std::any_of(choices.begin(), choices.end(), same))
      return cannot_be_used(ports, "two rails would both go by " + ports[choice.port].describe() +
                                       "; name a device for each rail in RONDO_IB_HCA");
    choices.push_back(choice);
  }
  return choices;
}

}  // namespace rondo::verbs
