// SPDX-License-Identifier: Apache-2.0
// This function decides where a rank has the slots of its links to other hosts: in device memory if that is requested
// and possible, otherwise in host memory.
#pragma once

#include <memory>
#include <vector>

#include "transports/hosts/connect.h"
#include "transports/net/net_transport.h"

namespace rondo::hosts {

/// Makes the network of the links in `memory`, and decides whether their slots are in device memory. Every rank calls
/// it. With DeviceSlots::on, if a rank cannot have device slots, all ranks get the error of the first such rank. With
/// `automatic`, such a rank uses host memory. If a rank cannot make the network while any rank has device slots, all
/// ranks make it again without device slots.
[[nodiscard]] Result<std::unique_ptr<net::Network>> make_network(const GroupRequest &request,
                                                                 const net::JoinRequest &join,
                                                                 std::vector<net::PeerSocket> sockets,
                                                                 net::NearMemory &memory, Store &store);

}  // namespace rondo::hosts
