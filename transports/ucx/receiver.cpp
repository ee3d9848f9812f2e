// SPDX-License-Identifier: Apache-2.0
#include "transports/ucx/receiver.h"

#include <cstring>
#include <utility>

#include "src/proto/memory.h"

namespace rondo::ucx {

Result<void> Receiver::listen() {
  RONDO_TRY(worker_.handle_messages(hello_id, on_hello, this));
  return worker_.handle_messages(slot_id, on_message, this);
}

ucs_status_t Receiver::on_hello(void *self, const void *header, size_t header_bytes, void *data, size_t bytes,
                                const ucp_am_recv_param_t *how) {
  PeerProof hello;
  if (header_bytes != sizeof hello) return UCS_OK;
  std::memcpy(&hello, header, sizeof hello);
  auto &receiver = *static_cast<Receiver *>(self);
  for (const auto &peer : receiver.peers_) {
    if (peer->known.rank != hello.rank || !wire::equal_proof(peer->known.proof, hello.proof)) continue;
    if (peer->lost || std::exchange(peer->greeted, true)) return UCS_OK;
    if ((how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return receiver.fetch_greeting(*peer, data, bytes);
    peer->proved = true;
  }
  return UCS_OK;
}

/// Fetches the greeting into the first slot of a link, which no message uses yet. Payloads by rendezvous will go there,
/// too.
ucs_status_t Receiver::fetch_greeting(Peer &peer, void *data, size_t bytes) {
  const Link *const link = first_link(peer);
  if (link == nullptr || bytes > link->ends.incoming.geometry.slot_bytes) {
    lose(peer, "its greeting is longer than a slot");
    return UCS_OK;
  }
  const bool in_device = link->ends.device_incoming != nullptr;
  ucp_request_param_t how = request_of(peer.greeting_fetch, &peer);
  how.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  how.memory_type = in_device ? link->device_type : UCS_MEMORY_TYPE_HOST;
  how.cb.recv_am = on_greeting_fetched;
  std::byte *const slot = in_device ? link->ends.device_slot(0) : link->ends.incoming.payload(0);
  const ucs_status_ptr_t said = worker_.api().ucp_am_recv_data_nbx(worker_.handle(), data, slot, bytes, &how);
  if (said == nullptr) peer.proved = true;
  if (UCS_PTR_IS_ERR(said)) lose(peer, worker_.error("fetching a whole slot", UCS_PTR_STATUS(said)).message);
  return UCS_INPROGRESS;
}

void Receiver::on_greeting_fetched(void *, ucs_status_t status, size_t, void *argument) {
  auto &peer = *static_cast<Peer *>(argument);
  if (status == UCS_OK) peer.proved = true;
  if (status != UCS_OK) lose(peer, "fetching a whole slot failed");
}

ucs_status_t Receiver::on_message(void *self, const void *header, size_t header_bytes, void *data, size_t bytes,
                                  const ucp_am_recv_param_t *how) {
  Incoming incoming{{}, data, bytes, (how->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0};
  if (header_bytes != sizeof incoming.header) return UCS_OK;
  std::memcpy(&incoming.header, header, sizeof incoming.header);
  auto &receiver = *static_cast<Receiver *>(self);
  for (const auto &peer : receiver.peers_)
    if (peer->known.rank == incoming.header.rank && peer->known.tag == incoming.header.tag)
      return peer->lost ? UCS_OK : receiver.take(*peer, incoming);
  return UCS_OK;  // a stranger's message is dropped, and no peer is lost
}

ucs_status_t Receiver::take(Peer &peer, const Incoming &incoming) {
  const Header &header = incoming.header;
  const auto refuse = [&](const char *wrong) {
    lose(peer, std::string("it sent an invalid message: ") + wrong);
    return UCS_OK;
  };
  if (header.channel >= peer.links.size()) return refuse("there is no such channel");
  if (header.bytes != incoming.bytes) return refuse("its size differs from its header");
  Link &link = *peer.links[header.channel];
  if (header.consumed > link.sent) return refuse("it gives credit for what was not sent");
  for (; link.consumed < header.consumed; ++link.consumed)  // an older message may arrive later, with a smaller value
    peer.uncredited_bytes -= wire_bytes(link.sends[link.consumed % link.sends.size()].header);
  if (header.kind == static_cast<uint16_t>(MessageKind::credit)) return UCS_OK;
  if (header.kind != static_cast<uint16_t>(MessageKind::slot)) return refuse("there is no such kind");
  if (const char *const wrong = check_slot(link, header)) return refuse(wrong);
  Arrival &arrival = link.arrivals[header.counter % link.arrivals.size()];
  arrival.signature = header.signature;
  arrival.bytes = header.bytes;
  arrival.in_device = incoming.rendezvous && link.ends.device_incoming != nullptr;
  if (incoming.rendezvous) {
    fetch(link, arrival, incoming);
    return UCS_INPROGRESS;
  }
  if (incoming.bytes != 0) std::memcpy(link.ends.incoming.payload(header.counter), incoming.data, incoming.bytes);
  arrival.state = Arrival::State::whole;
  return UCS_OK;
}

const char *Receiver::check_slot(const Link &link, const Header &header) {
  const ConnectionView &incoming = link.ends.incoming;
  if (header.bytes > incoming.geometry.slot_bytes) return "it is longer than a slot";
  // This pairs with S6 in SimpleReceiver::release: the slot's old content was read.
  const uint64_t free_from = memory::load_sync(incoming.simple_head()) + incoming.geometry.slot_count;
  const bool is_free = header.counter >= link.arrived && header.counter < free_from &&
                       link.arrivals[header.counter % link.arrivals.size()].state == Arrival::State::none;
  return is_free ? nullptr : "its slot is not free";
}

void Receiver::fetch(Link &link, Arrival &arrival, const Incoming &incoming) {
  arrival.state = Arrival::State::under_way;
  ucp_request_param_t how = request_of(arrival.fetch, &arrival);
  how.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  how.memory_type = arrival.in_device ? link.device_type : UCS_MEMORY_TYPE_HOST;
  how.cb.recv_am = on_fetched;
  const uint64_t counter = incoming.header.counter;
  std::byte *const slot = arrival.in_device ? link.ends.device_slot(counter) : link.ends.incoming.payload(counter);
  const ucs_status_ptr_t said =
      worker_.api().ucp_am_recv_data_nbx(worker_.handle(), incoming.data, slot, incoming.bytes, &how);
  if (said == nullptr) arrival.state = Arrival::State::whole;
  if (UCS_PTR_IS_ERR(said)) lose(*link.peer, worker_.error("fetching a payload", UCS_PTR_STATUS(said)).message);
}

void Receiver::on_fetched(void *, ucs_status_t status, size_t, void *argument) {
  auto &arrival = *static_cast<Arrival *>(argument);
  if (status == UCS_OK) arrival.state = Arrival::State::whole;
  if (status != UCS_OK) lose(*arrival.fetch.peer, "fetching a payload failed");
}

}  // namespace rondo::ucx
