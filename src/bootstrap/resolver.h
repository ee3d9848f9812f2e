// SPDX-License-Identifier: Apache-2.0
// This file resolves a host that may be a name, and tries once to connect to an address. A name may resolve only later:
// a pod's name resolves once the pod runs.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/cancel.h"
#include "src/base/result.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/endpoint.h"

namespace rondo {

class Resolver {
 public:
  explicit Resolver(Endpoint endpoint) : endpoint_(std::move(endpoint)) {}

  /// Returns the next address of the host to try: all addresses in turn, IPv4 before IPv6. A name is looked up at the
  /// first call, and again at most once a second. A failure has the error of the latest lookup.
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

/// Says whether `cancel` was requested. Null is never requested.
[[nodiscard]] inline bool requested(const Cancel *cancel) { return cancel != nullptr && cancel->requested(); }

/// Waits for `events`. Returns false if the deadline passed or `cancel` was requested first. `cancel` may be null.
[[nodiscard]] bool wait_for(int socket, short events, uint64_t deadline_ns, const Cancel *cancel);

/// The outcome of an attempt to connect: a socket, or whether to try again later or to give up.
struct Attempt {
  FileDescriptor socket;
  bool again = false;
  bool refused = false;  ///< no process listens there
  Error error;
};

/// Connects to `address`. `name` is the store's name in errors.
[[nodiscard]] Attempt attempt_connect(const SocketAddress &address, const std::string &name, uint64_t deadline_ns,
                                      const Cancel *cancel);

}  // namespace rondo
