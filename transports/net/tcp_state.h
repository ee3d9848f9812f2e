// SPDX-License-Identifier: Apache-2.0
// What the kernel knows of a TCP connection. Its own limit (TCP_USER_TIMEOUT) is no measure of silence: it is looked at
// only when it retransmits, at growing intervals, and it counts the time in which a receiver has no room, too, as a
// stopped process has none.
#pragma once

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <cstdint>

namespace rondo::net {

/// Zeros where the kernel does not tell.
[[nodiscard]] inline tcp_info tcp_state_of(int descriptor) {
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return {};
  return info;
}

/// For how many milliseconds nothing has been acknowledged, where what was sent has not been; 0: it was.
[[nodiscard]] inline uint32_t silence_of(int descriptor) {
  const tcp_info info = tcp_state_of(descriptor);
  return info.tcpi_unacked != 0 ? info.tcpi_last_ack_recv : 0;
}

}  // namespace rondo::net
