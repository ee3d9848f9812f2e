// SPDX-License-Identifier: Apache-2.0
// This file resolves a host that may be a name. The name may not resolve yet: a pod's name resolves once the pod runs.
#pragma once

#include <algorithm>
#include <vector>

#include "src/bootstrap/endpoint.h"

namespace rondo {

class Resolver {
 public:
  explicit Resolver(Endpoint endpoint) : endpoint_(std::move(endpoint)) {}

  /// Returns the address to try next: all of the host's in turn, IPv4 before IPv6. Looks a name up at the first call,
  /// and again if that was a second ago. The error is the latest lookup's.
  [[nodiscard]] Result<SocketAddress> next(uint64_t now_ns);

  /// Waits until the host resolves; returns all its addresses. RONDO_ERROR_TIMEOUT after the deadline.
  [[nodiscard]] Result<std::vector<SocketAddress>> wait(uint64_t deadline_ns, const Cancel *cancel);

  /// Says whether a host is a name: a later call may have another outcome.
  [[nodiscard]] bool is_name() const {
    return std::ranges::any_of(split_hosts(endpoint_.host),
                               [](const std::string &host) { return !socket_address({host, 1}).ok(); });
  }
  /// Returns how many addresses are tried in turn.
  [[nodiscard]] size_t address_count() const { return addresses_.ok() ? addresses_.value().size() : 0; }

 private:
  void look_up(uint64_t now_ns);

  Endpoint endpoint_;
  Result<std::vector<SocketAddress>> addresses_ = std::vector<SocketAddress>();
  size_t next_ = 0;
  uint64_t due_ns_ = 0;  ///< of the next lookup; never again for numeric hosts
};

}  // namespace rondo
