// SPDX-License-Identifier: Apache-2.0
// This file declares links between hosts over TCP. All links with a peer share its sockets. Every peer has the same
// number of sockets: several if there are several rails, or if one socket is slower than the network. The slot with
// counter c of a link goes over socket c % socket_count, so all sockets carry the same share whatever the schedule. If
// a slot arrives before an earlier one, it waits in its place in the FIFO.
//
// Frame   FrameHeader 32 | payload of a slot. Numbers are little-endian. A frame is wrong if its counter is not the
//         next one of this socket, it has more bytes than a slot, or its slot was not yet consumed. A wrong frame ends
//         the connection. So what a peer sends never decides where it is written.
#pragma once

#include <memory>
#include <vector>

#include "transports/net/join.h"

namespace rondo::tcp {

using net::PeerSocket;

/// Makes the network, which numbers `links` in their order. The peer of each link has the same number of sockets, at
/// least one. The sockets become non-blocking.
[[nodiscard]] Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &links,
                                                                 std::vector<PeerSocket> sockets);

}  // namespace rondo::tcp
