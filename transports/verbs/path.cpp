// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/path.h"

#include <arpa/inet.h>
#include <errno.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <random>

#include "src/base/clock.h"
#include "transports/verbs/device.h"

namespace rondo::verbs {
namespace {

constexpr uint8_t hop_limit = 64;
constexpr uint8_t retries_max = 6;             // 7 would mean for ever
constexpr uint8_t receiver_not_ready_max = 6;  // 7 would mean for ever; a correct peer is always ready
constexpr uint8_t receiver_not_ready_timer = 12;  // 0.64 ms
/// The timer is 4.096 us * 2^15 = 134 ms, but a device may wait up to 4 times as long. With all retries, a dead path is
/// detected after 0.9 to 3.8 s.
constexpr uint8_t acknowledge_timer = 15;
constexpr uint32_t first_packet_mask = 0xffffff;
constexpr uint32_t spare_requests = 8;  // for a hello with its slot, and for a bye
constexpr uint32_t spare_receives = 4;
constexpr int written_by_peer = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
constexpr uint32_t bye_requests = 1;  // kept free, so that a bye always has room

uint32_t slots_of(const std::vector<net::NearLink> &links) {
  uint32_t slots = 0;
  for (const net::NearLink &link : links) slots += link.outgoing.geometry.slot_count;
  return slots;
}
/// Returns how many slots of these links this path may have in flight.
uint32_t own_slots_of(const PathPlace &place, const std::vector<net::NearLink> &links) {
  uint32_t slots = 0;
  for (const net::NearLink &link : links)
    slots += (link.outgoing.geometry.slot_count + place.count - 1) / place.count;
  return slots;
}
/// Returns how many slots may be in flight on the links whose credits this path carries.
uint32_t credits_of(const PathPlace &place, const std::vector<net::NearLink> &links) {
  uint32_t credits = 0;
  for (const net::NearLink &link : links)
    if (link.channel % place.count == place.number) credits += link.outgoing.geometry.slot_count;
  return credits;
}
/// Returns the length of the send queue. A slot takes two requests and a credit one. The queue has twice as many
/// entries, because an ended request keeps its entry until a later signalled request completes.
uint32_t requests_for(const PathPlace &place, const std::vector<net::NearLink> &links) {
  return 2 * (2 * own_slots_of(place, links) + credits_of(place, links) + spare_requests);
}
/// Returns the length of the receive queue: the peer's slots and credits, and the requests that are posted in a batch.
/// If credits pile up on a slow path and find no entry, the device sends them again.
uint32_t receives_for(const PathPlace &place, const std::vector<net::NearLink> &links, uint32_t receives_per_post) {
  return own_slots_of(place, links) + credits_of(place, links) + spare_receives + receives_per_post - 1;
}

ibv_mtu mtu_of(uint32_t bytes) {
  return static_cast<ibv_mtu>(std::bit_width(std::clamp<uint32_t>(bytes, 256, 4096)) - 8);
}

}  // namespace

void Loss::tell(uint32_t number, const std::string &what) {
  if (ns != 0) return;
  ns = now_ns();
  why = what;
  path = number;
}

uint32_t Path::completions_for(const PathPlace &place, const std::vector<net::NearLink> &links) {
  return requests_for(place, links) + receives_for(place, links, receives_per_post);
}

Result<std::unique_ptr<Path>> Path::make(const Device &device, ibv_cq *completions, const PathPlace &place, Loss &loss,
                                         const std::vector<net::NearLink> &links) {
  std::unique_ptr<Path> path(new Path(device, place, loss));
  path->requests_max_ = requests_for(place, links);
  path->receives_ = receives_for(place, links, receives_per_post);
  path->signals_.resize(std::bit_ceil(path->requests_max_));
  path->domain_.reset(device.api().alloc_pd(device.context()));
  if (!path->domain_.valid()) return system_error("ibv_alloc_pd of " + device.port().device, errno);
  RONDO_TRY(path->register_memory(links));
  RONDO_TRY(path->make_queue_pair(completions));
  return path;
}

Result<void> Path::register_memory(const std::vector<net::NearLink> &links) {
  const uint32_t slots = slots_of(links);
  cells_.resize(size_t{2} * slots);
  ibv_pd *const domain = domain_.get();
  RONDO_TRY_ASSIGN(landing_, register_host(api_, domain, cells_.data(), slots * sizeof(Cell), written_by_peer));
  RONDO_TRY_ASSIGN(staging_, register_host(api_, domain, cells_.data() + slots, slots * sizeof(Cell), 0));
  links_.resize(links.size());
  Cell *next = cells_.data();
  for (const net::NearLink &ends : links) {
    assert(ends.channel < links_.size());
    PathLink &link = links_[ends.channel];
    link.channel = ends.channel;
    link.ends = ends;
    link.next = net::first_counter_of(net::first_counter(ends.incoming), place_.number, place_.count);
    link.landed = next;
    link.staged = next + slots;
    next += ends.outgoing.geometry.slot_count;
    RONDO_TRY_ASSIGN(link.incoming, register_host(api_, domain, ends.incoming.payload(0),
                                                  net::slot_area_bytes(ends.incoming.geometry), written_by_peer));
    RONDO_TRY_ASSIGN(link.outgoing, register_host(api_, domain, ends.outgoing.payload(0),
                                                  net::slot_area_bytes(ends.outgoing.geometry), 0));
  }
  return {};
}

Result<void> Path::register_device_slots(const RdmaMemory &memory) {
  for (PathLink &link : links_) {
    const auto registered_slots = [&](std::byte *first, const ConnectionView &view, int access) {
      return register_in_device(api_, device_.port().device, domain_.get(), memory, first,
                                net::slot_area_bytes(view.geometry), access);
    };
    RONDO_TRY_ASSIGN(link.device_incoming,
                     registered_slots(link.ends.device_incoming, link.ends.incoming, written_by_peer));
    RONDO_TRY_ASSIGN(link.device_outgoing, registered_slots(link.ends.device_outgoing, link.ends.outgoing, 0));
  }
  return {};
}

void Path::forget_device_slots() {
  for (PathLink &link : links_) {
    link.device_incoming.reset();
    link.device_outgoing.reset();
    link.ends.device_incoming = link.ends.device_outgoing = nullptr;
  }
}

bool Path::has_device_slots() const {
  return std::ranges::any_of(links_, [](const PathLink &link) {
    return link.ends.device_outgoing != nullptr || link.target.device_address != 0;
  });
}

Result<void> Path::make_queue_pair(ibv_cq *completions) {
  if (std::max(requests_max_, receives_) > device_.requests_max())
    return Error{RONDO_ERROR_UNSUPPORTED, device_.describe() + " takes " + std::to_string(device_.requests_max()) +
                                              " requests, and the links to a rank need " +
                                              std::to_string(std::max(requests_max_, receives_)) +
                                              "; lower RONDO_SLOT_COUNT, or RONDO_CHANNELS where it is above 2"};
  const bool gathers = std::any_of(links_.begin(), links_.end(),
                                   [](const PathLink &link) { return link.ends.device_outgoing != nullptr; });
  // Only trying shows how much a device accepts inline.
  for (const uint32_t inline_bytes : std::array<uint32_t, 3>{sizeof(Cell), 64, 0}) {
    ibv_qp_init_attr wanted{};
    wanted.send_cq = wanted.recv_cq = completions;
    wanted.qp_type = IBV_QPT_RC;
    wanted.cap.max_send_wr = requests_max_;
    wanted.cap.max_recv_wr = receives_;
    wanted.cap.max_send_sge = gathers ? 2 : 1;  // two: a frame and a payload in device memory
    wanted.cap.max_recv_sge = 1;
    wanted.cap.max_inline_data = inline_bytes;
    queue_pair_.reset(api_.create_qp(domain_.get(), &wanted));
    if (!queue_pair_.valid()) continue;
    inline_max_ = wanted.cap.max_inline_data;
    break;
  }
  if (!queue_pair_.valid()) return system_error("making a queue pair on " + device_.describe(), errno);
  first_packet_ = std::random_device{}() & first_packet_mask;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = static_cast<uint8_t>(device_.port().number);
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  RONDO_TRY(modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "set up"));
  for (size_t each = 0; each < receive_chain_.size(); ++each) {
    receive_chain_[each].wr_id = uint64_t{place_.index} << 1 | 1;
    if (each != 0) receive_chain_[each - 1].next = &receive_chain_[each];
  }
  for (uint32_t count = 0; count < receives_; ++count) receive_again();
  if (lost()) return Error{RONDO_ERROR_SYSTEM, loss_.why};
  return {};
}

Result<void> Path::modify(ibv_qp_attr &attributes, int mask, const char *what) {
  const int error = api_.modify_qp(queue_pair_.get(), &attributes, mask);
  if (error == 0) return {};
  Error failure = system_error("the queue pair for " + loss_.name + " could not be " + what, error);
  failure.peer = static_cast<int32_t>(loss_.rank);
  return failure;
}

QueuePairInfo Path::offer() const {
  QueuePairInfo offer{loss_.rank, queue_pair_.get()->qp_num, first_packet_, {}};
  for (const PathLink &link : links_)
    offer.links.push_back({address_of(link.ends.incoming.payload(0)), link.incoming.get()->rkey,
                           address_of(link.landed), landing_.get()->rkey, address_of(link.ends.device_incoming),
                           link.device_incoming.valid() ? link.device_incoming.get()->rkey : 0});
  return offer;
}

Result<void> Path::connect(const HostInfo &theirs) {
  const QueuePairInfo &pair = theirs.pairs[place_.number];
  const RailInfo &rail = theirs.rails[place_.number % theirs.rails.size()];
  their_port_ = rail.description;
  const auto refused = [&](const std::string &what, rondo_status_t status = RONDO_ERROR_UNSUPPORTED) {
    Error error{status, loss_.name + " has " + rail.description + ", this rank " + device_.describe() + ": " + what +
                            "; choose by RONDO_IB_HCA and RONDO_IB_GID_INDEX"};
    error.peer = static_cast<int32_t>(loss_.rank);
    return error;
  };
  if (rail.kind != device_.gid().kind) return refused("they do not speak the same protocol");
  if (pair.links.size() != links_.size()) return refused("they differ in the number of links");
  for (size_t channel = 0; channel < links_.size(); ++channel) links_[channel].target = pair.links[channel];
  const bool is_infiniband = rail.kind == GidKind::infiniband;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = mtu_of(std::min(rail.mtu_bytes, device_.port().mtu_bytes));
  attributes.dest_qp_num = pair.queue_pair;
  attributes.rq_psn = pair.first_packet;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = receiver_not_ready_timer;
  attributes.ah_attr.port_num = static_cast<uint8_t>(device_.port().number);
  attributes.ah_attr.dlid = rail.lid;
  // InfiniBand routes by LID within a subnet. The subnet is the first half of a GID.
  attributes.ah_attr.is_global = !is_infiniband || !std::equal(rail.gid.begin(), rail.gid.begin() + 8,
                                                               device_.gid().bytes.begin());
  std::copy(rail.gid.begin(), rail.gid.end(), attributes.ah_attr.grh.dgid.raw);
  attributes.ah_attr.grh.sgid_index = static_cast<uint8_t>(device_.gid().index);
  attributes.ah_attr.grh.hop_limit = hop_limit;
  const auto connected = modify(attributes,
                                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                                "connected");
  // The device refuses a GID to which it has no route, such as an address of the other IP family.
  if (!connected.ok()) return refused(connected.error().message, connected.error().status);
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

void Path::receive_again() {
  if (++receives_used_ < receives_per_post) return;
  receives_used_ = 0;
  ibv_recv_wr *bad = nullptr;
  const int error = ibv_post_recv(queue_pair_.get(), receive_chain_.data(), &bad);
  if (error != 0) lose(std::string("the device takes no request to receive: ") + std::strerror(error));
}

ibv_send_wr Path::write_of(const ibv_sge &part, uint64_t address, uint32_t key) const {
  ibv_send_wr request{};
  request.wr_id = uint64_t{place_.index} << 1;
  request.sg_list = const_cast<ibv_sge *>(&part);
  request.num_sge = part.length == 0 ? 0 : 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = part.length != 0 && part.length <= inline_max_ ? IBV_SEND_INLINE : 0;
  request.wr.rdma.remote_addr = address;
  request.wr.rdma.rkey = key;
  return request;
}

bool Path::post(ibv_send_wr &first, ibv_send_wr &last, uint32_t count, bool signalled) {
  if (signalled) last.send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr *bad = nullptr;
  if (const int error = ibv_post_send(queue_pair_.get(), &first, &bad); error != 0) {
    lose(std::string("the device takes no request to send: ") + std::strerror(error));
    return true;
  }
  posted_ += count;
  if (!signalled) return true;
  signalled_ = posted_;
  signals_[signals_end_++ & (signals_.size() - 1)] = posted_;
  return true;
}

bool Path::send_slot(uint32_t channel, const net::Message &message) {
  if (lost()) return true;
  PathLink &link = links_[channel];
  if (!has_room(2 + bye_requests)) return false;
  const uint64_t slot = link.ends.outgoing.slot(message.counter);
  Cell &cell = link.staged[slot];
  cell.frame = {message.counter, message.consumed, message.signature, message.bytes};
  const bool in_cell = message.bytes <= cell_payload_bytes;
  const bool gathers = in_cell && message.bytes != 0 && link.ends.device_outgoing != nullptr;
  if (in_cell && message.bytes != 0 && !gathers) std::memcpy(cell.payload, message.payload, message.bytes);
  const auto cell_bytes = static_cast<uint32_t>(sizeof(Frame) + (in_cell && !gathers ? message.bytes : 0));
  const std::array parts{ibv_sge{address_of(&cell), cell_bytes, staging_.get()->lkey},
                         part_of(link, message.payload, message.bytes)};
  ibv_send_wr telling = write_of(parts[0], link.target.cells_address + slot * sizeof(Cell), link.target.cells_key);
  if (gathers) {  // the device gathers, because the host cannot read the payload
    telling.num_sge = 2;
    telling.send_flags = 0;
  }
  telling.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  telling.imm_data = htonl(pack(MessageKind::slot, link.ends.channel, message.counter));
  if (in_cell) return post(telling, telling, 1, signal_is_due());
  ibv_send_wr payload =
      write_of(parts[1], link.target.payload_address() + slot * link.ends.outgoing.geometry.slot_bytes,
               link.target.payload_key());
  if (link.ends.device_outgoing != nullptr) payload.send_flags = 0;
  payload.next = &telling;
  return post(payload, telling, 2, signal_is_due());
}

ibv_sge Path::part_of(const PathLink &link, const std::byte *payload, uint32_t bytes) const {
  const MemoryRegion &region = link.ends.device_outgoing != nullptr ? link.device_outgoing : link.outgoing;
  return {address_of(payload), bytes, region.get()->lkey};
}

bool Path::send_word(MessageKind kind, const PathLink &link, uint64_t counter, bool signalled) {
  const ibv_sge nothing{};
  ibv_send_wr word = write_of(nothing, link.target.cells_address, link.target.cells_key);
  word.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  word.imm_data = htonl(pack(kind, link.ends.channel, counter));
  return post(word, word, 1, signalled);
}

bool Path::send_credit(uint32_t channel, uint64_t consumed) {
  if (lost()) return true;
  if (!has_room(1 + bye_requests)) return false;
  return send_word(MessageKind::credit, links_[channel], consumed, signal_is_due());
}

bool Path::send_hello() {
  if (lost() || links_.empty()) return true;
  if (!has_room(2)) return false;
  const PathLink &link = links_.front();
  const ibv_sge part = part_of(link, link.ends.outgoing_payload(0), link.ends.outgoing.geometry.slot_bytes);
  ibv_send_wr slot = write_of(part, link.target.payload_address(), link.target.payload_key());
  if (link.ends.device_outgoing != nullptr) slot.send_flags = 0;
  return post(slot, slot, 1, false) && send_word(MessageKind::hello, link, 0, true);
}

bool Path::send_bye() {
  if (lost() || links_.empty()) return true;
  return has_room(1) && send_word(MessageKind::bye, links_.front(), 0, true);
}

void Path::sent() {
  if (!all_left()) ended_ = signals_[signals_first_++ & (signals_.size() - 1)];
}

}  // namespace rondo::verbs
