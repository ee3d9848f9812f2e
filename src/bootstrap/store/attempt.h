// SPDX-License-Identifier: Apache-2.0
// This file makes one attempt to connect to a store, and waits for sockets. Both can be cancelled.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/cancel.h"
#include "src/base/result.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/endpoint.h"

namespace rondo {

/// Says whether `cancel` was requested. Null is never requested.
[[nodiscard]] inline bool requested(const Cancel *cancel) { return cancel != nullptr && cancel->requested(); }

/// Waits for `events`. Returns false if the deadline passed or `cancel` was requested first. `cancel` may be null.
[[nodiscard]] bool wait_for(int socket, short events, uint64_t deadline_ns, const Cancel *cancel);

/// The outcome of an attempt: a socket, or whether to try again later or to give up.
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
