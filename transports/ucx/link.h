// SPDX-License-Identifier: Apache-2.0
// This file declares the state of the links over UCX, with the operations in flight by slot. It is allocated before the
// first message and never moves, because UCX and parts of the state point to other parts.
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

/// One operation of UCX, with memory for its request. The message's header is here, too, because UCX 1.13 does not copy
/// the header.
struct Operation {
  Peer *peer = nullptr;
  void *request = nullptr;  ///< end of the request's memory, as UCX wants it
  bool busy = false;
  Header header;
};

/// A slot that is arriving.
struct Arrival {
  enum class State : uint8_t { none, under_way, whole } state = State::none;
  uint32_t signature = 0;
  uint32_t bytes = 0;
  bool in_device = false;  ///< as in net::Event
  Operation fetch;  ///< fetches the payload of a rendezvous
};

struct Link {
  net::NearLink ends;
  ucs_memory_type_t device_type = UCS_MEMORY_TYPE_CUDA;  ///< type of the memory that has the device's slots
  Peer *peer = nullptr;
  std::vector<Operation> sends;  ///< by slot
  Operation credit;
  uint64_t credit_wanted = 0;     ///< the latest `consumed` that is to be sent
  uint64_t credit_sent = 0;
  std::vector<Arrival> arrivals;  ///< by slot
  uint64_t arrived = 0;           ///< counter of the next slot to report
  uint64_t consumed = 0;          ///< the highest `consumed` that the peer has sent
  uint64_t consumed_told = 0;
  uint64_t sent = 0;              ///< number of slots sent

  [[nodiscard]] ucs_memory_type_t outgoing_type() const {
    return ends.device_outgoing != nullptr ? device_type : UCS_MEMORY_TYPE_HOST;
  }
};

struct Peer {
  Introduction known;
  std::string name;
  std::vector<Link *> links;  ///< by channel
  ucp_ep_h endpoint = nullptr;
  void *closing = nullptr;  ///< UCX's request to close the endpoint
  PeerProof hello;
  Operation greeting;        ///< the greeting to this peer
  Operation greeting_fetch;  ///< fetches the peer's greeting, if its payload arrives by rendezvous
  Operation flush;
  bool greeted = false;      ///< the greeting's header has arrived
  bool proved = false;       ///< its payload has arrived, too
  uint64_t sent = 0;         ///< messages that were handed to UCX
  uint64_t outstanding = 0;  ///< operations of UCX that have not ended
  uint64_t flushed = 0;      ///< number of messages, from the first one on, that have left
  uint64_t flushing = 0;     ///< the value that `flushed` gets when the flush ends
  uint64_t uncredited_bytes = 0;
  bool lost = false;
  bool told = false;
  Error why;
};

/// The memory of requests. UCX also uses memory in front of a request, so there is room to spare.
struct alignas(64) RequestBlock {
  std::byte bytes[64];
};

/// Connects links[i] with its near ends, near[i], and with its peer among `peers`.
void join_links(std::span<Link> links, std::span<const net::NearLink> near,
                std::span<const std::unique_ptr<Peer>> peers);

/// Returns memory of `request_bytes` for the request of each operation. Without it, UCX would allocate each request.
[[nodiscard]] std::vector<RequestBlock> lend_requests(std::span<Link> links,
                                                      std::span<const std::unique_ptr<Peer>> peers,
                                                      size_t request_bytes);

/// Writes the events since the last call to `events`, and returns their number. Sets `more` if some events did not
/// fit.
[[nodiscard]] uint32_t tell(std::span<Link> links, std::span<const std::unique_ptr<Peer>> peers,
                            std::span<net::Event> events, bool &more);

/// Returns the link whose first slots send and receive the greetings. Returns null if the peer has no links.
inline Link *first_link(const Peer &peer) {
  const auto found = std::ranges::find_if(peer.links, [](const Link *link) { return link != nullptr; });
  return found != peer.links.end() ? *found : nullptr;
}

/// Returns how many bytes a slot adds to Peer::uncredited_bytes until its credit arrives.
inline uint64_t wire_bytes(const Header &header) { return sizeof header + header.bytes; }

/// Marks the peer as lost. Only the first reason is kept.
inline void lose(Peer &peer, const std::string &what) {
  if (peer.lost) return;
  peer.lost = true;
  peer.why = {RONDO_ERROR_REMOTE, peer.name + ": " + what};
  peer.why.peer = static_cast<int32_t>(peer.known.rank);
}

/// Returns the parameters for an operation that ends with a callback.
inline ucp_request_param_t request_of(const Operation &operation, void *argument) {
  ucp_request_param_t how{};
  how.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  how.request = operation.request;
  how.user_data = argument;
  return how;
}

}  // namespace rondo::ucx
