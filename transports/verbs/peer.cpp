// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/peer.h"

#include <arpa/inet.h>
#include <errno.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <random>

#include "src/base/clock.h"

namespace rondo::verbs {
namespace {

constexpr uint8_t hop_limit = 64;
constexpr uint8_t retries_max = 6;             // 7 would be for ever
constexpr uint8_t receiver_not_ready_max = 6;  // 7 likewise; a peer that keeps to the protocol is always ready
constexpr uint8_t receiver_not_ready_timer = 12;  // 0.64 ms
/// 4.096 us * 2^15 = 134 ms; a device may wait up to 4 times as long: a dead path is known after 0.9 to 3.8 s.
constexpr uint8_t acknowledge_timer = 15;
constexpr uint32_t first_packet_mask = 0xffffff;
constexpr uint32_t spare_requests = 8;  // hello, bye and the slot before them
constexpr uint32_t spare_receives = 4;
constexpr uint32_t bye_requests = 1;  // kept free, so that a goodbye always has room

uint32_t slots_of(const std::vector<net::NearLink> &links) {
  uint32_t slots = 0;
  for (const net::NearLink &link : links) slots += link.outgoing.geometry.slot_count;
  return slots;
}
/// A slot takes two requests, its credit one.
uint32_t requests_for(const std::vector<net::NearLink> &links) { return 3 * slots_of(links) + spare_requests; }
/// The peer's slots, and its credits, of which it can send as many as slots are under way.
uint32_t receives_for(const std::vector<net::NearLink> &links) { return 2 * slots_of(links) + spare_receives; }

ibv_mtu mtu_of(uint32_t bytes) {
  return static_cast<ibv_mtu>(std::bit_width(std::clamp<uint32_t>(bytes, 256, 4096)) - 8);
}

size_t slot_area_bytes(const ConnectionView &view) {
  return size_t{view.geometry.slot_count} * view.geometry.slot_bytes;
}

uint64_t address_of(const void *memory) { return reinterpret_cast<uint64_t>(memory); }

Result<MemoryRegion> registered(const Api &api, ibv_pd *domain, void *memory, size_t bytes, int access) {
  MemoryRegion region(api.reg_mr(domain, memory, bytes, access));
  if (region.valid()) return region;
  return system_error("registering " + std::to_string(bytes) +
                          " bytes for RDMA (is the limit of locked memory, ulimit -l, too low?)",
                      errno);
}

}  // namespace

uint32_t Peer::completions_for(const std::vector<net::NearLink> &links) {
  return requests_for(links) + receives_for(links);
}

Result<std::unique_ptr<Peer>> Peer::make(const Device &device, ibv_cq *completions, uint32_t index, uint32_t rank,
                                         std::string name, const std::vector<net::NearLink> &links) {
  std::unique_ptr<Peer> peer(new Peer(device.api(), index, rank, std::move(name)));
  peer->requests_most_ = requests_for(links);
  peer->receives_ = receives_for(links);
  peer->signals_.resize(std::bit_ceil(peer->requests_most_));
  peer->domain_.reset(device.api().alloc_pd(device.context()));
  if (!peer->domain_.valid()) return system_error("ibv_alloc_pd of " + device.port().device, errno);
  RONDO_TRY(peer->register_memory(links));
  RONDO_TRY(peer->make_queue_pair(device, completions));
  return peer;
}

Result<void> Peer::register_memory(const std::vector<net::NearLink> &links) {
  const uint32_t slots = slots_of(links);
  cells_.resize(size_t{2} * slots);
  ibv_pd *const domain = domain_.get();
  const int written_by_peer = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  RONDO_TRY_ASSIGN(landing_, registered(api_, domain, cells_.data(), slots * sizeof(Cell), written_by_peer));
  RONDO_TRY_ASSIGN(staging_, registered(api_, domain, cells_.data() + slots, slots * sizeof(Cell), 0));
  links_.resize(links.size());
  Cell *next = cells_.data();
  for (const net::NearLink &ends : links) {
    assert(ends.channel < links_.size());
    Link &link = links_[ends.channel];
    link.ends = ends;
    link.landed = next;
    link.staged = next + slots;
    next += ends.outgoing.geometry.slot_count;
    RONDO_TRY_ASSIGN(link.incoming, registered(api_, domain, ends.incoming.payload(0), slot_area_bytes(ends.incoming),
                                               written_by_peer));
    RONDO_TRY_ASSIGN(link.outgoing,
                     registered(api_, domain, ends.outgoing.payload(0), slot_area_bytes(ends.outgoing), 0));
  }
  return {};
}

Result<void> Peer::make_queue_pair(const Device &device, ibv_cq *completions) {
  if (std::max(requests_most_, receives_) > device.requests_max())
    return Error{RONDO_ERROR_UNSUPPORTED, device.describe() + " takes " + std::to_string(device.requests_max()) +
                                              " requests, and the links to a rank need " +
                                              std::to_string(std::max(requests_most_, receives_)) +
                                              "; lower RONDO_SLOT_COUNT or RONDO_CHANNELS"};
  // What a device takes inline is known by trying.
  for (const uint32_t inline_bytes : std::array<uint32_t, 3>{sizeof(Cell), 64, 0}) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = requests_most_;
    wanted.cap.max_recv_wr = receives_;
    wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
    wanted.cap.max_inline_data = inline_bytes;
    queue_pair_.reset(api_.create_qp(domain_.get(), &wanted));
    if (!queue_pair_.valid()) continue;
    inline_most_ = wanted.cap.max_inline_data;
    break;
  }
  if (!queue_pair_.valid()) return system_error("making a queue pair on " + device.describe(), errno);
  first_packet_ = std::random_device{}() & first_packet_mask;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = static_cast<uint8_t>(device.port().number);
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  RONDO_TRY(modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "set up"));
  for (uint32_t count = 0; count < receives_; ++count) receive_again();
  if (lost()) return Error{RONDO_ERROR_SYSTEM, why_};
  return {};
}

Result<void> Peer::modify(ibv_qp_attr &attributes, int mask, const char *what) {
  const int error = api_.modify_qp(queue_pair_.get(), &attributes, mask);
  if (error == 0) return {};
  Error failure = system_error("the queue pair for " + name_ + " could not be " + what, error);
  failure.peer = static_cast<int32_t>(rank_);
  return failure;
}

QueuePairInfo Peer::offer() const {
  QueuePairInfo offer{rank_, queue_pair_.get()->qp_num, first_packet_, {}};
  for (const Link &link : links_)
    offer.links.push_back({address_of(link.ends.incoming.payload(0)), link.incoming.get()->rkey,
                           address_of(link.landed), landing_.get()->rkey});
  return offer;
}

Result<void> Peer::connect(const Device &device, const HostInfo &theirs) {
  const QueuePairInfo &pair = theirs.pairs.front();
  their_port_ = theirs.description;
  const auto refused = [&](const std::string &what) {
    Error error{RONDO_ERROR_UNSUPPORTED, name_ + " has " + theirs.description + ", this rank " + device.describe() +
                                             ": " + what + "; choose by RONDO_IB_HCA and RONDO_IB_GID_INDEX"};
    error.peer = static_cast<int32_t>(rank_);
    return error;
  };
  if (theirs.kind != device.gid().kind) return refused("they do not speak the same protocol");
  if (pair.links.size() != links_.size()) return refused("they differ in the number of links");
  for (size_t channel = 0; channel < links_.size(); ++channel) links_[channel].target = pair.links[channel];
  const bool is_infiniband = theirs.kind == GidKind::infiniband;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_of(std::min(theirs.mtu_bytes, device.port().mtu_bytes));
  attributes.dest_qp_num = pair.queue_pair;
  attributes.rq_psn = pair.first_packet;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = receiver_not_ready_timer;
  attributes.ah_attr.port_num = static_cast<uint8_t>(device.port().number);
  attributes.ah_attr.dlid = theirs.lid;
  // InfiniBand routes by LID inside of a subnet, which is the first half of a GID.
  attributes.ah_attr.is_global = !is_infiniband || !std::equal(theirs.gid.begin(), theirs.gid.begin() + 8,
                                                               device.gid().bytes.begin());
  std::copy(theirs.gid.begin(), theirs.gid.end(), attributes.ah_attr.grh.dgid.raw);
  attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(device.gid().index);
  attributes.ah_attr.grh.hop_limit = hop_limit;
  RONDO_TRY(modify(attributes,
                   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                   "connected"));
  attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.sq_psn = first_packet_;
  attributes.timeout = acknowledge_timer;
  attributes.retry_cnt = retries_max;
  attributes.rnr_retry = receiver_not_ready_max;
  attributes.max_rd_atomic = 1;
  return modify(attributes,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                    IBV_QP_MAX_QP_RD_ATOMIC,
                "started");
}

void Peer::receive_again() {
  ibv_recv_wr wanted{};
  wanted.wr_id = uint64_t{index_} << 1 | 1;
  ibv_recv_wr *bad = nullptr;
  const int error = ibv_post_recv(queue_pair_.get(), &wanted, &bad);
  if (error != 0) lose(std::string("the device takes no request to receive: ") + std::strerror(error));
}

ibv_send_wr Peer::write_of(const ibv_sge &part, uint64_t address, uint32_t key) const {
  ibv_send_wr request{};
  request.wr_id = uint64_t{index_} << 1;
  request.sg_list = const_cast<ibv_sge *>(&part);
  request.num_sge = part.length == 0 ? 0 : 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = part.length != 0 && part.length <= inline_most_ ? IBV_SEND_INLINE : 0;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  return request;
}

bool Peer::post(ibv_send_wr &first, ibv_send_wr &last, uint32_t count, const Signal *signal) {
  if (signal != nullptr) last.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr *bad = nullptr;
  if (const int error = ibv_post_send(queue_pair_.get(), &first, &bad); error != 0) {
    lose(std::string("the device takes no request to send: ") + std::strerror(error));
    return true;
  }
  posted_ += count;
  if (signal == nullptr) return true;
  signalled_ = posted_;
  signals_[signals_end_++ & (signals_.size() - 1)] = {signal->slot, posted_};
  return true;
}

bool Peer::send_slot(Link &link, const net::Message &message) {
  if (lost()) return true;
  if (!has_room(2 + bye_requests)) return false;
  const uint64_t slot = link.ends.outgoing.slot(message.counter);
  Cell &cell = link.staged[slot];
  cell.frame = {message.counter, message.consumed, message.signature, message.bytes};
  const bool in_cell = message.bytes <= cell_payload_bytes;
  if (in_cell && message.bytes != 0) std::memcpy(cell.payload, message.payload, message.bytes);
  link.sent = message.counter + 1;
  const auto cell_bytes = static_cast<uint32_t>(sizeof(Frame) + (in_cell ? message.bytes : 0));
  const ibv_sge cell_part{address_of(&cell), cell_bytes, staging_.get()->lkey};
  ibv_send_wr telling = write_of(cell_part, link.target.cells_address + slot * sizeof(Cell), link.target.cells_key);
  telling.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  telling.imm_data = htonl(pack(MessageKind::slot, link.ends.channel, message.counter));
  const Signal signal{&link, 0};
  if (in_cell) return post(telling, telling, 1, &signal);
  const ibv_sge payload_part{address_of(message.payload), message.bytes, link.outgoing.get()->lkey};
  ibv_send_wr payload = write_of(
      payload_part, link.target.slots_address + slot * link.ends.outgoing.geometry.slot_bytes, link.target.slots_key);
  payload.next = &telling;
  return post(payload, telling, 2, &signal);
}

bool Peer::send_word(MessageKind kind, const Link &link, uint64_t counter, bool signalled) {
  const ibv_sge nothing{};
  ibv_send_wr word = write_of(nothing, link.target.cells_address, link.target.cells_key);
  word.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  word.imm_data = htonl(pack(kind, link.ends.channel, counter));
  const Signal signal;
  return post(word, word, 1, signalled ? &signal : nullptr);
}

bool Peer::send_credit(const Link &link, uint64_t consumed) {
  if (lost()) return true;
  if (!has_room(1 + bye_requests)) return false;
  // Requests without a signal end with the next one that has it.
  return send_word(MessageKind::credit, link, consumed, posted_ - signalled_ >= requests_most_ / 4);
}

bool Peer::send_hello() {
  if (lost() || links_.empty()) return true;
  if (!has_room(2)) return false;
  const Link &link = links_.front();
  const ConnectionView &outgoing = link.ends.outgoing;
  const ibv_sge part{address_of(outgoing.payload(0)), outgoing.geometry.slot_bytes, link.outgoing.get()->lkey};
  ibv_send_wr slot = write_of(part, link.target.slots_address, link.target.slots_key);
  return post(slot, slot, 1, nullptr) && send_word(MessageKind::hello, link, 0, true);
}

bool Peer::send_bye() {
  if (lost() || links_.empty()) return true;
  return has_room(1) && send_word(MessageKind::bye, links_.front(), 0, true);
}

Link *Peer::sent() {
  if (all_left()) return nullptr;
  const Signal &signal = signals_[signals_first_++ & (signals_.size() - 1)];
  ended_ = signal.position;
  if (signal.slot != nullptr) ++signal.slot->left;
  return signal.slot;
}

/// The first reason counts.
void Peer::lose(const std::string &what) {
  if (lost()) return;
  lost_ns_ = now_ns();
  why_ = what;
}

}  // namespace rondo::verbs
