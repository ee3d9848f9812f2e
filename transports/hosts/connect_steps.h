// SPDX-License-Identifier: Apache-2.0
// These functions are steps of connect.cpp, and each has a file of its own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/bootstrap/store/store.h"
#include "transports/hosts/connect.h"
#include "transports/net/join.h"
#include "transports/net/net_transport.h"

namespace rondo::hosts {

/// The parameters of preflight(), which detects whether the network loses large packets. A handshake has only small
/// packets, which may pass such a network. Without preflight(), the first large message would hang.
struct PreflightRequest {
  std::string own_name;  ///< "rank 1 (host b, process 17) at 192.0.2.7"
  size_t slot_bytes = 0;
  uint64_t deadline_ns = 0;
};

/// Sends a whole slot each way; both ends call it right after the handshake. RONDO_ERROR_TIMEOUT: nothing has moved for
/// 5 s between this rank and the peer that the error names. If the group fails meanwhile, preflight() returns the error
/// that the store knows.
[[nodiscard]] Result<void> preflight(const std::vector<const net::PeerSocket *> &sockets,
                                     const PreflightRequest &request, Store &store);

/// Makes the network of the links in `memory`, and decides whether their slots are in device memory. Every rank calls
/// it. With DeviceSlots::on, if a rank cannot have device slots, all ranks get the error of the first such rank. With
/// `automatic`, such a rank uses host memory. If a rank cannot make the network while any rank has device slots, all
/// ranks make it again without device slots.
[[nodiscard]] Result<std::unique_ptr<net::Network>> make_network(const GroupRequest &request,
                                                                 const net::JoinRequest &join,
                                                                 std::vector<net::PeerSocket> sockets,
                                                                 net::NearMemory &memory, Store &store);

}  // namespace rondo::hosts
