// SPDX-License-Identifier: Apache-2.0
// This file declares links between hosts over TCP. All links with a peer share its sockets. Every peer has the same
// number of sockets: several if there are several rails, or if one socket is slower than the network. The slot with
// counter c of a link goes over socket c % socket_count, so all sockets carry the same share whatever the schedule. If
// a slot arrives before an earlier one, it waits in its place in the FIFO.
//
// Frame   FrameHeader 32 | payload of a slot. Numbers are little-endian. A frame that does not fit the state of its
//         link ends the connection, so what a peer sends never decides where it is written. Such a frame has a counter
//         that is not this socket's next one, more bytes than a slot has, or a slot that was not yet consumed.
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
