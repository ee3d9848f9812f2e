// SPDX-License-Identifier: Apache-2.0
// One attempt to connect to a store, and waiting for a socket, both of which end when they are cancelled.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/cancel.h"
#include "src/base/result.h"
#include "src/base/unique_handle.h"
#include "src/bootstrap/endpoint.h"

namespace rondo {

/// Returns whether `cancel` was requested. Null: nothing can.
[[nodiscard]] inline bool requested(const Cancel *cancel) { return cancel != nullptr && cancel->requested(); }

/// Waits for `events`. Returns false if the deadline passed first, or `cancel` (null: nothing can) was requested.
[[nodiscard]] bool wait_for(int socket, short events, uint64_t deadline_ns, const Cancel *cancel);

/// The outcome of an attempt: a socket, or whether to try again later or to give up.
struct Attempt {
  FileDescriptor socket;
  bool again = false;
  bool refused = false;  ///< nobody listens there
  Error error;
};

/// Connects to `address`. `name` is the store's name in errors.
[[nodiscard]] Attempt attempt_connect(const SocketAddress &address, const std::string &name, uint64_t deadline_ns,
                                      const Cancel *cancel);

}  // namespace rondo
