// SPDX-License-Identifier: Apache-2.0
// This file resolves a host that may be a name. A name may resolve only later: a pod's name resolves once the pod runs.
#pragma once

#include <algorithm>
#include <vector>

#include "src/bootstrap/endpoint.h"

namespace rondo {

class Resolver {
 public:
  explicit Resolver(Endpoint endpoint) : endpoint_(std::move(endpoint)) {}

  /// Returns the next address of the host to try: all addresses in turn, IPv4 before IPv6. A name is looked up at the
  /// first call, and again at most once a second. An error is that of the latest lookup.
  [[nodiscard]] Result<SocketAddress> next(uint64_t now_ns);

  /// Waits until the host resolves, and returns all its addresses. Returns RONDO_ERROR_TIMEOUT after the deadline.
  [[nodiscard]] Result<std::vector<SocketAddress>> wait(uint64_t deadline_ns, const Cancel *cancel);

  /// Says whether the host is a name, so that a later lookup may have another result.
  [[nodiscard]] bool is_name() const {
    return std::ranges::any_of(split_hosts(endpoint_.host),
                               [](const std::string &host) { return !socket_address({host, 1}).ok(); });
  }
  /// Returns the number of addresses that next() returns in turn.
  [[nodiscard]] size_t address_count() const { return addresses_.ok() ? addresses_.value().size() : 0; }

 private:
  void look_up(uint64_t now_ns);

  Endpoint endpoint_;
  Result<std::vector<SocketAddress>> addresses_ = std::vector<SocketAddress>();
  size_t next_ = 0;
  uint64_t due_ns_ = 0;  ///< time of the next lookup; numeric hosts have none
};

}  // namespace rondo
