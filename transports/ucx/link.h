// SPDX-License-Identifier: Apache-2.0
// The state of the links over UCX: operations in flight, by slot. All of it is allocated before the first message and
// never moves, because UCX and the parts themselves point to each other.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "transports/net.h"
#include "transports/ucx/api.h"
#include "transports/ucx/handshake.h"

namespace rondo::ucx {

struct Peer;

/// One operation of UCX, with the memory for its request and, since UCX 1.13 does not copy it, for the header.
struct Operation {
  Peer *peer = nullptr;
  void *request = nullptr;  ///< as UCX wants it: the end of its memory
  bool busy = false;
  Header header;
};

/// A slot that arrives.
struct Arrival {
  enum class State : uint8_t { none, under_way, whole } state = State::none;
  uint32_t signature = 0;
  uint32_t bytes = 0;
  bool in_device = false;  ///< as in net::Event
  Operation fetch;  ///< of a rendezvous
};

struct Link {
  net::NearLink ends;
  ucs_memory_type_t device_type = UCS_MEMORY_TYPE_CUDA;  ///< of the device's slots
  Peer *peer = nullptr;
  std::vector<Operation> sends;  ///< by slot
  Operation credit;
  uint64_t credit_wanted = 0;     ///< the value of `consumed` to send
  uint64_t credit_sent = 0;
  std::vector<Arrival> arrivals;  ///< by slot
  uint64_t arrived = 0;           ///< counter of the next slot to report
  uint64_t consumed = 0;          ///< as the peer said last
  uint64_t consumed_told = 0;
  uint64_t sent = 0;              ///< slots

  [[nodiscard]] ucs_memory_type_t outgoing_type() const {
    return ends.device_outgoing != nullptr ? device_type : UCS_MEMORY_TYPE_HOST;
  }
};

struct Peer {
  Introduction known;
  std::string name;
  std::vector<Link *> links;  ///< by channel
  ucp_ep_h endpoint = nullptr;
  void *closing = nullptr;  ///< request of the close
  PeerProof hello;
  Operation greeting;        ///< to it
  Operation greeting_fetch;  ///< of its payload, if that arrives by rendezvous
  Operation flush;
  bool greeted = false;      ///< its greeting has arrived
  bool proved = false;       ///< with its payload
  uint64_t sent = 0;         ///< messages that were handed to UCX
  uint64_t outstanding = 0;  ///< of them, messages that have not ended
  uint64_t flushed = 0;      ///< the number of them that have left
  uint64_t flushing = 0;     ///< `flushed`, once the flush has ended
  uint64_t uncredited_bytes = 0;
  bool lost = false;
  bool told = false;
  Error why;
};

/// Memory of requests, with room to spare for what UCX keeps in front of them.
struct alignas(64) RequestBlock {
  std::byte bytes[64];
};

/// Joins links[i] with its ends, near[i], and with the one of `peers` that these name.
void join_links(std::span<Link> links, std::span<const net::NearLink> near,
                std::span<const std::unique_ptr<Peer>> peers);

/// Returns the memory of every operation's request, `request_bytes` each: UCX would allocate one for each operation.
[[nodiscard]] std::vector<RequestBlock> lend_requests(std::span<Link> links,
                                                      std::span<const std::unique_ptr<Peer>> peers,
                                                      size_t request_bytes);

/// Writes what has arrived since the last call to `events`, and returns how many there are. `more`: some did not fit.
[[nodiscard]] uint32_t tell(std::span<Link> links, std::span<const std::unique_ptr<Peer>> peers,
                            std::span<net::Event> events, bool &more);

/// Returns the link whose first slots send and receive greetings. Null: the peer has no links.
inline Link *first_link(const Peer &peer) {
  const auto found = std::ranges::find_if(peer.links, [](const Link *link) { return link != nullptr; });
  return found != peer.links.end() ? *found : nullptr;
}

/// Returns the bytes that are counted of a slot that has been sent and not been credited.
inline uint64_t wire_bytes(const Header &header) { return sizeof header + header.bytes; }

/// Marks the peer as lost. The first reason counts.
inline void lose(Peer &peer, const std::string &what) {
  if (peer.lost) return;
  peer.lost = true;
  peer.why = {RONDO_ERROR_REMOTE, peer.name + ": " + what};
  peer.why.peer = static_cast<int32_t>(peer.known.rank);
}

/// Returns the request parameters of operations that call back.
inline ucp_request_param_t request_of(const Operation &operation, void *argument) {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.request = operation.request;
  how.user_data = argument;
  return how;
}

}  // namespace rondo::ucx
