// SPDX-License-Identifier: Apache-2.0
// This file declares one socket of the links over TCP: its data to send, its received data, and the system calls. Only
// transports/tcp includes this header.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "transports/net/join.h"
#include "transports/net/tcp_state.h"
#include "transports/tcp/frames.h"

namespace rondo::tcp {

using net::PeerSocket;

inline constexpr size_t staging_bytes = 16384 + 64;

struct Socket {
  Socket(PeerSocket of, size_t queue_frames)
      : ends(std::move(of)),
        queue(queue_frames, ends.frame_keys ? std::optional(ends.frame_keys->send) : std::nullopt) {
    if (!ends.frame_keys) return;
    tagger.emplace(ends.frame_keys->receive);
    ends.frame_keys.reset();  // the queue and the tagger hold the keys now
  }

  PeerSocket ends;
  std::vector<uint32_t> links;  ///< by channel
  bool of_collectives = false;  ///< true if a link of collectives uses it
  SendQueue queue;
  std::array<std::byte, staging_bytes> staging;
  size_t staged_first = 0;
  size_t staged_end = 0;
  FrameHeader frame;             ///< header of the frame whose payload or tag is arriving
  std::byte *payload = nullptr;  ///< where the next byte of the payload goes
  size_t payload_bytes = 0;      ///< bytes of the payload that have not arrived yet
  std::optional<wire::FrameTagger> tagger;  ///< none if frames have no tags
  bool tag_follows = false;           ///< the frame's payload has arrived, its tag has not
  bool mute = false;  ///< true if nothing can be sent any more; after reading all that has arrived, the socket is lost
  bool lost = false;
  bool told = false;
  net::SilenceWatch silence;
  Error why;  ///< why the socket became mute or lost, whichever was first
};

/// Sends by one system call, and returns its result.
inline ssize_t send_some(Socket &socket) {
  std::array<std::byte, joined_bytes_max> joined;
  const size_t bytes = socket.queue.join(joined);
  if (bytes != 0) return ::send(socket.ends.socket.get(), joined.data(), bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  std::array<iovec, parts_per_send> parts;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = socket.queue.fill(parts);
  return ::sendmsg(socket.ends.socket.get(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// Receives by one system call, after all staged bytes were taken. The rest of a payload goes straight into its slot.
/// The call also stages the payload's tag and the next frame's header, so the next payload goes straight into its slot.
inline ssize_t receive_some(Socket &socket, size_t &wanted) {
  std::byte *const staging = socket.staging.data() + socket.staged_end;
  wanted = staging_bytes - socket.staged_end;
  if (socket.payload_bytes == 0) return ::recv(socket.ends.socket.get(), staging, wanted, MSG_DONTWAIT);
  const size_t behind = sizeof(FrameHeader) + (socket.tagger ? wire::tag_bytes : 0);
  std::array<iovec, 2> parts{iovec{socket.payload, socket.payload_bytes}, iovec{staging, behind}};
  wanted = parts[0].iov_len + parts[1].iov_len;
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  return ::recvmsg(socket.ends.socket.get(), &message, MSG_DONTWAIT);
}

}  // namespace rondo::tcp
