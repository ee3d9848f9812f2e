// SPDX-License-Identifier: Apache-2.0
// The links between hosts over TCP. All of a peer's links share its sockets, of which each peer has as many: several
// for several rails, or where one does not carry what the network does. The slot with counter c of a link goes over
// socket c % socket_count, so that all carry the same whatever the schedule; a slot that comes before an earlier one
// waits in its place.
//
// Frame   FrameHeader 32 | payload of a slot. Numbers are little-endian. A frame that does not fit the link's state (a
//         counter that is not this socket's next one, more bytes than a slot has, a slot that was not yet consumed)
//         ends the connection: what a peer sends never decides where it is written.
#pragma once

#include <memory>
#include <vector>

#include "transports/net/join.h"

namespace rondo::tcp {

using net::PeerSocket;

/// `links` are counted as they stand; each one's peer has as many sockets, one at least. They become non-blocking.
[[nodiscard]] Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &links,
                                                                 std::vector<PeerSocket> sockets);

}  // namespace rondo::tcp
