// SPDX-License-Identifier: Apache-2.0
// This function decides where a rank's slots of links to other hosts are. They are in memory of its device, if that was
// asked for and is possible, otherwise of its host.
#pragma once

#include <memory>
#include <vector>

#include "transports/hosts/connect.h"
#include "transports/net/net_transport.h"

namespace rondo::hosts {

/// Makes the network of `memory`'s links, which have slots in memory of the device afterwards or have not. Every rank
/// calls it. With DeviceSlots::on all ranks get the error of the first rank that cannot have such slots. With
/// `automatic` a rank that cannot have them uses slots of its host. If some rank cannot make the network while any has
/// such slots, all make it once more without them.
[[nodiscard]] Result<std::unique_ptr<net::Network>> make_network(const GroupRequest &request,
                                                                 const net::JoinRequest &join,
                                                                 std::vector<net::PeerSocket> sockets,
                                                                 net::NearMemory &memory, Store &store);

}  // namespace rondo::hosts
