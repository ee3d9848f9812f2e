// SPDX-License-Identifier: Apache-2.0
// This check runs before a communicator over several hosts is complete. It sends a whole slot each way over each
// connection. A handshake has only small packets, which may pass where large ones are lost. Without this check, the
// first large message would hang.
#pragma once

#include <string>
#include <vector>

#include "src/bootstrap/store/store.h"
#include "transports/net/join.h"

namespace rondo::hosts {

struct PreflightRequest {
  std::string own_name;  ///< "rank 1 (host b, process 17) at 192.0.2.7"
  size_t slot_bytes = 0;
  uint64_t deadline_ns = 0;
};

/// Sends a whole slot each way; both ends call it right after the handshake. RONDO_ERROR_TIMEOUT: nothing has moved for
/// 5 s between this rank and the peer that the error names. If the group fails meanwhile, it returns the error that the
/// store knows.
[[nodiscard]] Result<void> preflight(const std::vector<const net::PeerSocket *> &sockets,
                                     const PreflightRequest &request, Store &store);

}  // namespace rondo::hosts
