// SPDX-License-Identifier: Apache-2.0
// This file defines the content of a rondo_unique_id_t. Numbers are little-endian.
//
//      0  magic "RNDO"
//      4  format version u8 (1)
//      5  address family u8: 4 or 6
//      6  port u16
//      8  scope id u32 of a link-local IPv6 address, which only the host that made the id knows
//     12  address 16; an IPv4 address takes the first 4 bytes, and the rest is zero
//     28  secret 32
//     60  group 16: random; its hexadecimal form begins all keys of the group
//     76  process number u32 of the maker, for people
//     80  further addresses 4 x 4: IPv4, zero for none; tried after the first
//     96  check 32: BLAKE2b-256 keyed with the format's name over the 96 bytes before. It detects damage, such as a
//         cut-off copy or a wrong buffer. It gives no protection, because the id contains the secret.
#pragma once

#include "src/bootstrap/store/store.h"

namespace rondo {

struct UniqueId {
  Endpoint endpoint;
  Secret secret;
  std::array<std::byte, 16> group{};
  uint32_t process = 0;

  bool operator==(const UniqueId &) const = default;
};

[[nodiscard]] Result<rondo_unique_id_t> encode_unique_id(const UniqueId &id);

/// Returns the content of an id. If the id is invalid, RONDO_ERROR_INVALID_ARGUMENT says why.
[[nodiscard]] Result<UniqueId> decode_unique_id(const rondo_unique_id_t &id);

/// Returns the group as 32 hexadecimal digits.
[[nodiscard]] std::string group_name(const UniqueId &id);

/// Returns a name such as "process 4711" for the process that runs the store. The store ends with that process. On
/// another host or in another container, another process may have this number.
[[nodiscard]] std::string maker_name(const UniqueId &id);

struct UniqueIdServer {
  rondo_unique_id_t id{};
  std::unique_ptr<StoreServer> server;
};

/// Makes an id and its server. `network_interface` has the form that offer_addresses() takes.
[[nodiscard]] Result<UniqueIdServer> start_unique_id_server(std::string_view network_interface);

}  // namespace rondo
