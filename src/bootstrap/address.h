// SPDX-License-Identifier: Apache-2.0
// Which of this host's addresses the bootstrap listens on.
#pragma once

#include <optional>

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
};

/// Picks from `addresses` (pure). `wanted` is the name of an interface or an address; empty: the first global IPv4
/// address of an interface that is up, else the first global IPv6 one, else loopback. The error lists what there is.
[[nodiscard]] Result<std::string> pick_address(const std::vector<HostAddress> &addresses, std::string_view wanted);

[[nodiscard]] Result<std::vector<HostAddress>> host_addresses();

/// pick_address() from this host's addresses.
[[nodiscard]] Result<std::string> choose_address(std::string_view network_interface);

}  // namespace rondo
