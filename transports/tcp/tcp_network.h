// SPDX-License-Identifier: Apache-2.0
// The links between hosts over TCP. All of a peer's links share its sockets. Each peer has the same number of sockets:
// several for several rails, or where one does not carry what the network does. The slot with counter c of a link goes
// over socket c % socket_count, so that all carry the same whatever the schedule. A slot that arrives before an earlier
// one waits in its place.
//
// Frame   FrameHeader 32 | payload of a slot. Numbers are little-endian. A frame that does not fit the link's state
//         ends the connection, so what a peer sends never decides where it is written. Such a frame has a counter that
//         is not this socket's next one, more bytes than a slot has, or a slot that was not yet consumed.
#pragma once

#include <memory>
#include <vector>

#include "transports/net/join.h"

namespace rondo::tcp {

using net::PeerSocket;

/// Makes the network. `links` are counted as they stand. Each one's peer has the same number of sockets, at least one,
/// and they become non-blocking.
[[nodiscard]] Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &links,
                                                                 std::vector<PeerSocket> sockets);

}  // namespace rondo::tcp
