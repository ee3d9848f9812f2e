// SPDX-License-Identifier: Apache-2.0
// This file implements unique ids: encoding, checking, and the server of a new id.
#include "src/bootstrap/launch/unique_id.h"

#include <netinet/in.h>
#include <sodium.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "src/bootstrap/address.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/endpoint.h"

namespace rondo {
namespace {

constexpr std::string_view magic = "RNDO";
constexpr uint8_t format_version = 1;
constexpr size_t id_checked_bytes = 96;
constexpr std::string_view check_key = "rondo unique id, format 1";
constexpr size_t further_max = 4;
static_assert(offers_max == 1 + further_max);

std::array<std::byte, 32> id_check_of(ByteView bytes) {
  std::array<std::byte, 32> out;
  crypto_generichash(raw(out.data()), out.size(), raw(bytes.data()), bytes.size(), raw(bytes_of(check_key).data()),
                     check_key.size());
  return out;
}

Error damaged(const std::string &why) {
  return invalid_argument("unique id: " + why + "; pass on all " + std::to_string(RONDO_UNIQUE_ID_BYTES) +
                          " bytes of what rondo_get_unique_id() wrote");
}

SocketAddress v4_address(ByteView bytes, uint16_t port) {
  SocketAddress address;
  auto *const in4 = reinterpret_cast<sockaddr_in *>(address.get());
  in4->sin_family = AF_INET;
  in4->sin_port = htons(port);
  std::memcpy(&in4->sin_addr, bytes.data(), sizeof in4->sin_addr);
  address.bytes = sizeof *in4;
  return address;
}

/// Appends the addresses after the first one. An id has no room for further IPv6 addresses.
void append_further(Bytes &out, const std::vector<std::string> &hosts) {
  for (size_t at = 1; at < std::min(hosts.size(), 1 + further_max); ++at) {
    const auto address = socket_address({hosts[at], 1});
    if (!address.ok() || address.value().storage.ss_family != AF_INET) continue;
    append_bytes(out, std::as_bytes(std::span(
                          &reinterpret_cast<const sockaddr_in *>(address.value().get())->sin_addr, 1)));
  }
}

}  // namespace

Result<rondo_unique_id_t> encode_unique_id(const UniqueId &id) {
  const std::vector<std::string> hosts = split_hosts(id.endpoint.host);
  RONDO_TRY_ASSIGN(const SocketAddress address, socket_address({hosts.front(), id.endpoint.port}));
  Bytes out;
  out.reserve(RONDO_UNIQUE_ID_BYTES);
  append_bytes(out, bytes_of(magic));
  append_number(out, format_version);
  const bool v4 = address.storage.ss_family == AF_INET;
  append_number(out, static_cast<uint8_t>(v4 ? 4 : 6));
  append_number(out, id.endpoint.port);
  std::array<std::byte, 16> host{};
  uint32_t scope = 0;
  if (v4) {
    std::memcpy(host.data(), &reinterpret_cast<const sockaddr_in *>(address.get())->sin_addr, 4);
  } else {
    const auto *in6 = reinterpret_cast<const sockaddr_in6 *>(address.get());
    std::memcpy(host.data(), &in6->sin6_addr, host.size());
    scope = in6->sin6_scope_id;
  }
  append_number(out, scope);
  append_bytes(out, host);
  append_bytes(out, id.secret.bytes);
  append_bytes(out, id.group);
  append_number(out, id.process);
  append_further(out, hosts);
  out.resize(id_checked_bytes);
  append_bytes(out, id_check_of(out));
  rondo_unique_id_t encoded;
  std::memcpy(encoded.internal, out.data(), sizeof encoded.internal);
  return encoded;
}

Result<UniqueId> decode_unique_id(const rondo_unique_id_t &id) {
  const ByteView bytes = std::as_bytes(std::span(id.internal));
  ByteReader in(bytes);
  if (text_of(in.bytes(magic.size())) != magic) return damaged("this is not one");
  const auto version = in.number<uint8_t>();
  if (version != format_version)
    return damaged("format version " + std::to_string(version) + ", this library knows version " +
                   std::to_string(format_version) + " (use the same library on all ranks)");
  const auto check = id_check_of(bytes.first(id_checked_bytes));
  if (sodium_memcmp(check.data(), bytes.data() + id_checked_bytes, check.size()) != 0) return damaged("it is damaged");
  const auto family = in.number<uint8_t>();
  const auto port = in.number<uint16_t>();
  const auto scope = in.number<uint32_t>();
  const ByteView host = in.bytes(16);
  if ((family != 4 && family != 6) || port == 0) return damaged("it has no valid address");
  SocketAddress address;
  if (family == 4) {
    address = v4_address(host, port);
  } else {
    auto *in6 = reinterpret_cast<sockaddr_in6 *>(address.get());
    in6->sin6_family = AF_INET6;
    in6->sin6_port = htons(port);
    std::memcpy(&in6->sin6_addr, host.data(), 16);
    in6->sin6_scope_id = scope;
    address.bytes = sizeof *in6;
  }
  UniqueId decoded;
  decoded.endpoint = endpoint_of(address);
  std::ranges::copy(in.bytes(decoded.secret.bytes.size()), decoded.secret.bytes.begin());
  std::ranges::copy(in.bytes(decoded.group.size()), decoded.group.begin());
  decoded.process = in.number<uint32_t>();
  for (size_t at = 0; at < further_max; ++at) {
    const ByteView further = in.bytes(sizeof(in_addr));
    if (std::ranges::all_of(further, [](std::byte byte) { return byte == std::byte{0}; })) break;
    decoded.endpoint.host += "," + endpoint_of(v4_address(further, port)).host;
  }
  return decoded;
}

std::string group_name(const UniqueId &id) { return hexadecimal(id.group); }

std::string maker_name(const UniqueId &id) { return "process " + std::to_string(id.process); }

Result<UniqueIdServer> start_unique_id_server(std::string_view network_interface) {
  UniqueId id;
  RONDO_TRY_ASSIGN(const Offer offer, offer_addresses(network_interface));
  id.secret = random_secret();
  id.process = static_cast<uint32_t>(::getpid());
  const Secret name = random_secret();
  std::copy_n(name.bytes.begin(), id.group.size(), id.group.begin());
  UniqueIdServer made;
  RONDO_TRY_ASSIGN(made.server, start_store_server({offer.listen, 0}, id.secret));
  id.endpoint = {offer.host, made.server->endpoint().port};
  RONDO_TRY_ASSIGN(made.id, encode_unique_id(id));
  return made;
}

}  // namespace rondo
