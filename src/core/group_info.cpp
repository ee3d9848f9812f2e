// SPDX-License-Identifier: Apache-2.0
#include "src/core/init.h"

#include <sched.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "src/bootstrap/address.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/store/store.h"
#include "src/topo/host.h"

namespace rondo {
namespace {

constexpr uint32_t peer_info_version = 14;

/// The part of a rank's peer info that has a fixed size. Process number, host name and interfaces follow this part.
struct PeerInfo {
  uint32_t version = peer_info_version;
  uint32_t library_version = RONDO_VERSION_MAJOR << 16 | RONDO_VERSION_MINOR << 8 | RONDO_VERSION_PATCH;
  uint32_t rank_count = 0;
  uint32_t on_device = 0;
  uint64_t rails = 0;
  uint64_t tuning_hash = 0;
  std::array<uint64_t, 48> settings{};  ///< in the order of config_variables(); 0 for a setting that may differ
  std::array<unsigned char, 32> host{};
  std::array<uint64_t, 4> host_parts{};  ///< digests of the parts of host_id()
  std::array<uint64_t, 16> cores{};  ///< bits of the hardware threads in the rank's affinity
};
static_assert(std::is_trivially_copyable_v<PeerInfo>);

constexpr std::array host_part_names{"kernel", "PID namespace", "network namespace", "user namespace"};

/// Returns digests of the parts of "BOOT/pid:N/net:N/user:N", in the order of host_part_names.
std::array<uint64_t, 4> host_parts_of(std::string_view host) {
  std::array<uint64_t, 4> parts{};
  for (uint64_t &part : parts) {
    const std::string_view text = host.substr(0, host.find('/'));
    std::array<uint64_t, 2> digest{};
    crypto_generichash(reinterpret_cast<unsigned char *>(digest.data()), sizeof digest,
                       reinterpret_cast<const unsigned char *>(text.data()), text.size(), nullptr, 0);
    part = digest[0];
    host.remove_prefix(std::min(text.size() + 1, host.size()));
  }
  return parts;
}

/// Describes why processes of the two ranks share no memory. The text is empty if the processes share memory.
std::string why_apart(const PeerInfo &own, const PeerInfo &theirs) {
  if (own.host == theirs.host) return {};
  if (own.host_parts[0] != theirs.host_parts[0]) return "another machine";
  std::string names;
  for (size_t part = 1; part < host_part_names.size(); ++part)
    if (own.host_parts[part] != theirs.host_parts[part])
      names += std::string(names.empty() ? "" : ", ") + host_part_names[part];
  return "this machine, but in a container: other " + names;
}

Result<PeerInfo> own_peer_info(uint32_t rank_count, const Settings &settings) {
  PeerInfo info;
  info.rank_count = rank_count;
  info.on_device = settings.device != RONDO_DEVICE_HOST ? 1 : 0;
  info.rails = rail_count(settings);
  info.tuning_hash = settings.tuning_hash;
  const auto variables = config_variables();
  assert(variables.size() <= info.settings.size());
  for (size_t i = 0; i < variables.size(); ++i)
    if (variables[i].shared.get != nullptr) info.settings[i] = variables[i].shared.get(settings);
  RONDO_TRY_ASSIGN(const std::string host, host_id());
  crypto_generichash(info.host.data(), info.host.size(), reinterpret_cast<const unsigned char *>(host.data()),
                     host.size(), nullptr, 0);
  info.host_parts = host_parts_of(host);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  // The call fails if the machine has more processors than a cpu_set_t holds. In that case assume the first processors.
  if (::sched_getaffinity(0, sizeof cores, &cores) != 0)
    for (size_t core = 0; core < info.cores.size() * 64; ++core) CPU_SET(core, &cores);
  for (size_t core = 0; core < info.cores.size() * 64; ++core)
    if (CPU_ISSET(core, &cores)) info.cores[core / 64] |= uint64_t{1} << core % 64;
  return info;
}

std::vector<NetworkInterface> own_interfaces(const std::string &network_interface, const std::string &by_route) {
  std::vector<NetworkInterface> interfaces;
  const auto addresses = choose_addresses(network_interface, by_route);
  if (!addresses.ok()) return interfaces;  // if one is needed, the registry reports the error
  for (const HostAddress &each : addresses.value()) interfaces.push_back({each.interface, each.address});
  return interfaces;
}

void append_text(Bytes &bytes, const std::string &text) {
  append_number(bytes, static_cast<uint16_t>(text.size()));
  append_bytes(bytes, bytes_of(text));
}

std::string read_text(ByteReader &reader) { return std::string(text_of(reader.bytes(reader.number<uint16_t>()))); }

/// Encodes the peer info. `by_route` is the result of Store::own_address().
Bytes encode(const PeerInfo &info, const Settings &settings, const std::string &by_route) {
  const auto fixed = std::as_bytes(std::span(&info, 1));
  Bytes bytes(fixed.begin(), fixed.end());
  append_number(bytes, static_cast<uint64_t>(::getpid()));
  append_text(bytes, host_name());
  const std::vector<NetworkInterface> interfaces = own_interfaces(settings.network_interface, by_route);
  append_number(bytes, static_cast<uint16_t>(interfaces.size()));
  for (const NetworkInterface &each : interfaces) {
    append_text(bytes, each.name);
    append_text(bytes, each.address);
  }
  return bytes;
}

/// Returns the network interface to other hosts, for a rank on the host of the store. On that host, the route to the
/// store is local. The route to the address of another host's rank shows the interface.
std::optional<NetworkInterface> interface_of_route(const GroupInfo &group, uint32_t rank, const Settings &settings) {
  const std::vector<NetworkInterface> &own = group.infos[rank].interfaces;
  if (!settings.network_interface.empty() || own.size() != 1) return std::nullopt;
  for (const RankInfo &other : group.infos) {
    if (other.node == group.node_of(rank) || other.interfaces.size() != 1) continue;
    const auto found = address_of_route(other.interfaces[0].address);
    if (!found || found->loopback || found->interface == own[0].name) return std::nullopt;
    return NetworkInterface{found->interface, found->address};
  }
  return std::nullopt;
}

/// The peer infos that all ranks have sent, by rank.
struct Told {
  std::vector<PeerInfo> peers;
  std::vector<RankInfo> ranks;  ///< infos without their nodes
};

Result<Told> decode(const std::vector<Bytes> &parts) {
  Told told;
  for (const Bytes &part : parts) {
    ByteReader reader(part);
    const ByteView fixed = reader.bytes(sizeof(PeerInfo));
    if (reader.failed()) return Error{RONDO_ERROR_MISMATCH, "ranks run different versions of Rondo"};
    std::memcpy(&told.peers.emplace_back(), fixed.data(), sizeof(PeerInfo));
    const PeerInfo &peer = told.peers.back();
    RankInfo &info = told.ranks.emplace_back();
    for (uint32_t core = 0; core < 64 * peer.cores.size(); ++core)
      if ((peer.cores[core / 64] >> core % 64 & 1) != 0) info.cores.push_back(core);
    info.process = reader.number<uint64_t>();
    info.host_name = read_text(reader);
    for (auto count = reader.number<uint16_t>(); count != 0 && !reader.failed(); --count) {
      std::string name = read_text(reader);
      info.interfaces.push_back({std::move(name), read_text(reader)});
    }
    // If the versions differ, only the fixed part can be read. The comparison of that part then gives a better error.
    if (!reader.complete() && peer.version == peer_info_version)
      return Error{RONDO_ERROR_MISMATCH, "ranks run different versions of Rondo"};
  }
  return told;
}

struct Fact {
  const char *what;
  uint64_t (*of)(const PeerInfo &);
};

constexpr std::array facts{
    Fact{"the bootstrap version (all must run the same Rondo)",
         [](const PeerInfo &it) { return uint64_t{it.version}; }},
    Fact{"the library's version", [](const PeerInfo &it) { return uint64_t{it.library_version}; }},
    Fact{"the communicator's size", [](const PeerInfo &it) { return uint64_t{it.rank_count}; }},
    Fact{"what rondo_config_t.device is (0: host memory, 1: a CUDA device)",
         [](const PeerInfo &it) { return uint64_t{it.on_device}; }},
    Fact{"the number of rails (network interfaces in RONDO_INTERFACE, or RDMA devices in RONDO_IB_HCA)",
         [](const PeerInfo &it) { return it.rails; }},
    Fact{"the tuning table (RONDO_TUNING_FILE; 0: none)", [](const PeerInfo &it) { return it.tuning_hash; }},
};

Error disagreement(uint32_t rank, uint32_t peer, const std::string &what, const std::string &first,
                   const std::string &theirs) {
  return {RONDO_ERROR_MISMATCH,
          "ranks 0 and " + std::to_string(peer) + " differ in " + what + ": " + first + " and " + theirs +
              "; make them equal",
          static_cast<int32_t>(rank), static_cast<int32_t>(peer)};
}

/// Returns the value of the setting as a user would write it in the environment variable.
std::string shown(const ConfigVariable &variable, uint64_t number) {
  Config config;
  variable.shared.put(config, number);
  return variable.show(config);
}

Result<void> compare(const PeerInfo &first, const PeerInfo &theirs, uint32_t rank, uint32_t peer) {
  for (const Fact &fact : facts)
    if (fact.of(theirs) != fact.of(first))
      return disagreement(rank, peer, fact.what, std::to_string(fact.of(first)), std::to_string(fact.of(theirs)));
  const auto variables = config_variables();
  for (size_t i = 0; i < variables.size(); ++i) {
    if (variables[i].shared.get == nullptr || first.settings[i] == theirs.settings[i]) continue;
    std::string what = variables[i].name;
    if (variables[i].field.name != nullptr) what += std::string(" or rondo_config_t.") + variables[i].field.name;
    return disagreement(rank, peer, what, shown(variables[i], first.settings[i]),
                        shown(variables[i], theirs.settings[i]));
  }
  return {};
}

Result<void> compare(const std::vector<PeerInfo> &all, uint32_t rank) {
  for (uint32_t peer = 1; peer < all.size(); ++peer) RONDO_TRY(compare(all[0], all[peer], rank, peer));
  return {};
}

/// Counts whole cores, not hardware threads, because two ranks that share a core slow each other down.
uint32_t count_cores(const std::vector<PeerInfo> &all, const PeerInfo &own, const Topology &topology) {
  std::vector<uint32_t> os_indices;
  for (uint32_t core = 0; core < 64 * all[0].cores.size(); ++core)
    for (const PeerInfo &info : all)
      if (info.host == own.host && (info.cores[core / 64] >> core % 64 & 1) != 0) {
        os_indices.push_back(core);
        break;
      }
  return usable_core_count(topology, os_indices);
}

/// Returns, for each rank, the lowest rank of its host.
std::vector<uint32_t> first_of_host(const std::vector<PeerInfo> &all) {
  std::vector<uint32_t> firsts;
  for (const PeerInfo &info : all) {
    const auto same_host = [&](const PeerInfo &other) { return other.host == info.host; };
    firsts.push_back(static_cast<uint32_t>(std::find_if(all.begin(), all.end(), same_host) - all.begin()));
  }
  return firsts;
}

}  // namespace

Result<GroupInfo> exchange_peer_info(Store &store, const std::string &key_prefix, uint32_t rank, uint32_t rank_count,
                                     const Settings &settings, const Topology &topology, uint64_t deadline_ns) {
  RONDO_TRY_ASSIGN(const PeerInfo own, own_peer_info(rank_count, settings));
  RONDO_TRY_ASSIGN(const auto parts, store.gather(key_prefix + "/peer_info", rank, rank_count,
                                                  encode(own, settings, store.own_address()), deadline_ns));
  auto decoded = decode(parts);
  // All ranks find the same disagreement. They gather it, so that the store's rank leaves only after all ranks know it.
  if (const auto agreed = decoded.ok() ? compare(decoded.value().peers, rank) : Result<void>(decoded.error());
      !agreed.ok())
    return gather_outcomes(store, key_prefix + "/disagreed", rank, rank_count, agreed.error(), deadline_ns).error();
  Told told = std::move(decoded).value();
  const std::vector<PeerInfo> &all = told.peers;
  GroupInfo group(first_of_host(all));
  for (uint32_t peer = 0; peer < rank_count; ++peer) {
    told.ranks[peer].node = group.node_of(peer);
    group.infos[peer] = std::move(told.ranks[peer]);
  }
  group.core_count = count_cores(all, own, topology);
  group.oversubscribed = group.ranks_of(group.node_of(rank)).size() > group.core_count;
  if (group.one_node()) return group;
  for (uint32_t node = 0; node < group.node_count(); ++node)
    group.apart.push_back(why_apart(own, all[group.ranks_of(node).front()]));
  // Every rank must know `oversubscribed` for all nodes, because choices depend on it. A node knows only its own cores.
  Bytes seen{std::byte{group.oversubscribed}};
  const auto better = store.is_on_this_host() ? interface_of_route(group, rank, settings) : std::nullopt;
  append_text(seen, better ? better->name : "");
  append_text(seen, better ? better->address : "");
  RONDO_TRY_ASSIGN(const auto all_seen, store.gather(key_prefix + "/seen", rank, rank_count, seen, deadline_ns));
  for (uint32_t peer = 0; peer < rank_count; ++peer) {
    ByteReader reader(all_seen[peer]);
    group.oversubscribed |= reader.number<uint8_t>() != 0;
    std::string name = read_text(reader);
    NetworkInterface mended{std::move(name), read_text(reader)};
    if (!mended.address.empty()) group.infos[peer].interfaces = {std::move(mended)};
  }
  return group;
}

}  // namespace rondo
