// SPDX-License-Identifier: Apache-2.0
// The links between hosts over TCP: one connected socket for each peer, which all of the peer's links share.
//
// Frame   FrameHeader 32 | payload of a slot. Numbers are little-endian. A frame that does not fit the link's state (a
//         counter out of order, more bytes than a slot has, a slot that was not yet consumed) ends the connection: what
//         a peer sends never decides where it is written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/base/unique_handle.h"
#include "transports/net.h"

namespace rondo::tcp {

/// A socket that is connected to `peer`, whose ends have proved that they know the job's secret.
struct PeerSocket {
  uint32_t peer = 0;
  FileDescriptor socket;
  std::string name;  ///< for people: "rank 2 (host b, process 17) at 192.0.2.7"
};

/// `links` are counted as they stand; each one's peer has a socket. Sockets become non-blocking.
[[nodiscard]] Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &links,
                                                                 std::vector<PeerSocket> sockets);

}  // namespace rondo::tcp
