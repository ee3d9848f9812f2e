// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "src/base/clock.h"
#include "src/proto/memory.h"
#include "transports/verbs/peer.h"

namespace rondo::verbs {
namespace {

constexpr size_t completions_per_fetch = 16;
constexpr uint32_t events_per_completion = 2;
constexpr uint32_t idle_polls_per_look = 1024;            // at the device's events: a system call
constexpr uint64_t port_patience_ns = 500'000'000;        // in which a port that went down may come back
constexpr uint64_t port_loss_ns = 2'000'000'000;          // around its end, in which links fail for it
constexpr uint64_t farewell_patience_ns = 2'000'000'000;  // of what has not reached the peers when the links are closed
constexpr const char *advice =
    "; look at RONDO_IB_HCA and RONDO_IB_GID_INDEX, at a firewall (RoCE v2 is UDP to port 4791) and at the MTU between "
    "the hosts, or set RONDO_NETWORK=tcp";

class EventList {
 public:
  explicit EventList(std::span<net::Event> events) : events_(events) {}
  [[nodiscard]] bool has_room() const { return count_ + events_per_completion <= events_.size(); }
  void add(const net::Event &event) { events_[count_++] = event; }
  [[nodiscard]] uint32_t count() const { return count_; }

 private:
  std::span<net::Event> events_;
  uint32_t count_ = 0;
};

class VerbsNetwork final : public net::Network {
 public:
  VerbsNetwork() = default;
  ~VerbsNetwork() override;
  Result<void> prepare(const std::vector<net::NearLink> &links, const JoinRequest &request);
  [[nodiscard]] HostInfo offer() const;
  Result<void> connect(const std::vector<Introduction> &introductions);
  /// A whole slot each way.
  Result<void> greet(const JoinRequest &request, Store &store);

  const char *name() const override { return "verbs"; }
  bool put(uint32_t link, const net::Message &message) override;
  bool credit(uint32_t link, uint64_t consumed) override;
  uint32_t poll(std::span<net::Event> events) override;
  /// What was posted is the device's: it sends, and sends again, without further calls.
  bool flushed() const override { return true; }
  void watch(std::vector<pollfd> &descriptors) const override;
  Error why_lost(uint32_t peer) const override;

 private:
  struct Ends {
    Peer *peer;
    Link *link;
  };
  Result<void> make_completion_queue(uint32_t entries);
  bool fetch() const;
  void take(const ibv_wc &completion, EventList &events);
  void take_failure(Peer &peer, const ibv_wc &completion);
  void take_word(Peer &peer, const Immediate &word, EventList &events);
  /// Null: fine. Else what is wrong with what the peer sent.
  const char *take_slot(Link &link, const Immediate &word, EventList &events);
  const char *take_credit(Link &link, uint64_t consumed, EventList &events);
  static void tell_credit(Link &link, EventList &events);
  void look_at_device();
  void take_device_event(const ibv_async_event &event);
  void lose_all(const std::string &what);
  [[nodiscard]] bool port_fell_with(const Peer &peer) const;
  void step_alone();

  std::unique_ptr<Device> device_;
  CompletionChannel channel_;
  CompletionQueue completions_;
  FileDescriptor ready_;  ///< always is: for a caller that must not sleep
  std::vector<std::unique_ptr<Peer>> peers_;
  std::vector<Ends> links_;
  // Taken from the completion queue and not looked at yet: watch() must look whether there is something.
  mutable std::array<ibv_wc, completions_per_fetch> fetched_;
  mutable size_t fetched_first_ = 0;
  mutable size_t fetched_end_ = 0;
  mutable bool device_look_due_ = true;
  uint32_t idle_polls_ = 0;
  uint64_t port_down_ns_ = 0;  ///< since when; 0: it is up
  uint64_t port_fell_ns_ = 0;  ///< when it went down last; 0: never
};

Result<void> VerbsNetwork::prepare(const std::vector<net::NearLink> &links, const JoinRequest &request) {
  ready_.reset(::eventfd(1, EFD_CLOEXEC));
  if (!ready_.valid()) return system_error("eventfd", errno);
  RONDO_TRY_ASSIGN(device_, Device::open(request.port));
  std::vector<std::vector<net::NearLink>> of_rank(request.rank_count);
  for (const net::NearLink &link : links) of_rank[link.peer].push_back(link);
  uint32_t entries = 0;
  for (const auto &of_peer : of_rank) entries += Peer::completions_for(of_peer);
  RONDO_TRY(make_completion_queue(entries));
  for (uint32_t rank = 0; rank < request.rank_count; ++rank) {
    if (!request.remote[rank]) continue;
    const auto index = static_cast<uint32_t>(peers_.size());
    RONDO_TRY_ASSIGN(auto peer, Peer::make(*device_, completions_.get(), index, rank, request.names[rank],
                                           of_rank[rank]));
    peers_.push_back(std::move(peer));
  }
  for (const net::NearLink &link : links) {
    const auto found =
        std::find_if(peers_.begin(), peers_.end(), [&](const auto &peer) { return peer->rank() == link.peer; });
    assert(found != peers_.end() && link.channel < channel_count_max);
    Link &of_peer = (*found)->links()[link.channel];
    of_peer.index = static_cast<uint32_t>(links_.size());
    links_.push_back({found->get(), &of_peer});
  }
  return {};
}

Result<void> VerbsNetwork::make_completion_queue(uint32_t entries) {
  if (entries > device_->completions_max())
    return Error{RONDO_ERROR_UNSUPPORTED, device_->describe() + " takes " +
                                              std::to_string(device_->completions_max()) +
                                              " completions, and the links need " + std::to_string(entries) +
                                              "; lower RONDO_SLOT_COUNT or RONDO_CHANNELS"};
  channel_.reset(device_->api().create_comp_channel(device_->context()));
  if (!channel_.valid()) return system_error("ibv_create_comp_channel of " + device_->port().device, errno);
  const int flags = ::fcntl(channel_.get()->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel_.get()->fd, F_SETFL, flags | O_NONBLOCK) != 0)
    return system_error("setting up completions of " + device_->port().device, errno);
  completions_.reset(
      device_->api().create_cq(device_->context(), static_cast<int>(entries), nullptr, channel_.get(), 0));
  if (!completions_.valid()) return system_error("ibv_create_cq of " + device_->port().device, errno);
  return {};
}

HostInfo VerbsNetwork::offer() const {
  HostInfo offer{device_->gid().kind, device_->port().mtu_bytes, device_->lid(), device_->gid().bytes,
                  device_->describe(), {}};
  for (const auto &peer : peers_) offer.pairs.push_back(peer->offer());
  return offer;
}

Result<void> VerbsNetwork::connect(const std::vector<Introduction> &introductions) {
  for (const Introduction &introduction : introductions)
    for (const auto &peer : peers_)
      if (peer->rank() == introduction.rank) RONDO_TRY(peer->connect(*device_, introduction.offer));
  return {};
}

void VerbsNetwork::step_alone() {
  std::array<net::Event, events_per_completion * completions_per_fetch> events;
  static_cast<void>(poll(events));  // where no slots come there are no events but losses, which Peer tells as well
}

Result<void> VerbsNetwork::greet(const JoinRequest &request, Store &store) {
  for (const auto &peer : peers_)
    if (!peer->send_hello()) return Error{RONDO_ERROR_INTERNAL, "a fresh queue pair has no room"};
  const auto refused = [&](const Peer &peer, rondo_status_t status, const std::string &what) {
    Error error{status, request.names[request.rank] + " cannot reach " + peer.name() + " over verbs, from " +
                            device_->describe() + " to " + peer.their_port() + ": " + what + advice};
    error.peer = static_cast<int32_t>(peer.rank());
    return error;
  };
  StoreWatch watch(store);
  for (;;) {
    step_alone();
    const Peer *missing = nullptr;
    for (const auto &peer : peers_) {
      if (peer->lost()) return refused(*peer, RONDO_ERROR_REMOTE, peer->why());
      if (!peer->greeted || !peer->all_left()) missing = peer.get();
    }
    if (missing == nullptr) return {};
    RONDO_TRY(watch.look());
    if (now_ns() >= request.deadline_ns) return refused(*missing, RONDO_ERROR_TIMEOUT, "no answer came in time");
    yield_core();
  }
}

/// The device sends only as long as its queue pairs live: they are kept until all has arrived. A peer that has said
/// goodbye wants nothing more.
VerbsNetwork::~VerbsNetwork() {
  for (const auto &peer : peers_)
    if (!peer->their_port().empty() && !peer->left) static_cast<void>(peer->send_bye());
  const uint64_t deadline_ns = now_ns() + farewell_patience_ns;
  const auto waits = [](const auto &peer) { return !peer->lost() && !peer->all_left(); };
  while (std::any_of(peers_.begin(), peers_.end(), waits) && now_ns() < deadline_ns) {
    step_alone();
    yield_core();
  }
}

bool VerbsNetwork::put(uint32_t index, const net::Message &message) {
  return links_[index].peer->send_slot(*links_[index].link, message);
}

bool VerbsNetwork::credit(uint32_t index, uint64_t consumed) {
  return links_[index].peer->send_credit(*links_[index].link, consumed);
}

bool VerbsNetwork::fetch() const {
  if (fetched_first_ != fetched_end_) return true;
  const int count = ibv_poll_cq(completions_.get(), static_cast<int>(fetched_.size()), fetched_.data());
  fetched_first_ = 0;
  fetched_end_ = count > 0 ? static_cast<size_t>(count) : 0;
  return count > 0;
}

uint32_t VerbsNetwork::poll(std::span<net::Event> events) {
  EventList list(events);
  const bool idle = !fetch();
  while (list.has_room() && fetch())  // bounded by what peers may have under way
    take(fetched_[fetched_first_++], list);
  if (device_look_due_ || (idle && ++idle_polls_ % idle_polls_per_look == 0)) look_at_device();
  for (const auto &peer : peers_) {
    if (!peer->lost() || peer->told || peer->links().empty() || !list.has_room()) continue;
    peer->told = true;
    list.add({net::Event::Kind::lost, peer->links().front().index});
  }
  return list.count();
}

void VerbsNetwork::take(const ibv_wc &completion, EventList &events) {
  Peer &peer = *peers_[completion.wr_id >> 1];
  if (peer.lost()) return;
  if (completion.status != IBV_WC_SUCCESS) return take_failure(peer, completion);
  if ((completion.wr_id & 1) != 0) {
    peer.receive_again();
    return take_word(peer, unpack(ntohl(completion.imm_data)), events);
  }
  if (Link *const link = peer.sent()) tell_credit(*link, events);
}

void VerbsNetwork::take_failure(Peer &peer, const ibv_wc &completion) {
  look_at_device();  // whose event says more
  const std::string what = device_->api().wc_status_str(completion.status);
  if (completion.status == IBV_WC_RETRY_EXC_ERR)
    peer.lose("its device does not acknowledge any more (" + what + "); is the network between the hosts cut?");
  peer.lose(what);
}

void VerbsNetwork::take_word(Peer &peer, const Immediate &word, EventList &events) {
  const char *wrong = "there is no such channel";
  if (word.channel < peer.links().size()) {
    Link &link = peer.links()[word.channel];
    wrong = nullptr;
    switch (word.kind) {
      case MessageKind::slot: wrong = take_slot(link, word, events); break;
      case MessageKind::credit: wrong = take_credit(link, extend(link.consumed, word.counter), events); break;
      case MessageKind::hello: peer.greeted = true; break;
      case MessageKind::bye:
        peer.left = true;
        peer.lose("it closed the connection");
        break;
    }
  }
  if (wrong != nullptr) peer.lose(std::string("it sent what is no message of this version of Rondo: ") + wrong);
}

const char *VerbsNetwork::take_slot(Link &link, const Immediate &word, EventList &events) {
  const ConnectionView &incoming = link.ends.incoming;
  if (extend(link.arrived, word.counter) != link.arrived) return "its slots are out of order";
  const Cell &cell = link.landed[incoming.slot(link.arrived)];
  Frame frame;  // a copy: the peer could change the cell while it is looked at
  std::memcpy(&frame, &cell.frame, sizeof frame);
  // Pairs with R3 in SimpleReceiver::release: what the slot held before was read.
  const uint64_t free_from = memory::load_sync(incoming.simple_head()) + incoming.geometry.slot_count;
  if (frame.counter != link.arrived || frame.counter >= free_from) return "its slot is not free";
  if (frame.bytes > incoming.geometry.slot_bytes) return "it is longer than a slot";
  if (const char *const wrong = take_credit(link, frame.consumed, events)) return wrong;
  if (frame.bytes != 0 && frame.bytes <= cell_payload_bytes)
    std::memcpy(incoming.payload(frame.counter), cell.payload, frame.bytes);
  events.add({net::Event::Kind::arrived, link.index, link.arrived++, frame.signature, frame.bytes});
  return nullptr;
}

const char *VerbsNetwork::take_credit(Link &link, uint64_t consumed, EventList &events) {
  if (consumed < link.consumed || consumed > link.sent) return "it gives credit for what was not sent";
  link.consumed = consumed;
  tell_credit(link, events);
  return nullptr;
}

/// The peer's credit can overtake the acknowledgement of its device, until which the device may read the slot again.
void VerbsNetwork::tell_credit(Link &link, EventList &events) {
  const uint64_t free = std::min(link.consumed, link.left);
  if (free == link.credit_told) return;
  link.credit_told = free;
  events.add({net::Event::Kind::credit, link.index, free});
}

void VerbsNetwork::look_at_device() {
  device_look_due_ = false;
  for (ibv_async_event event; device_->next_event(event);) take_device_event(event);  // bounded by what happened
  if (port_down_ns_ == 0 || now_ns() - port_down_ns_ < port_patience_ns) return;
  lose_all("it did not come back within 0.5 s");
}

void VerbsNetwork::take_device_event(const ibv_async_event &event) {
  const std::string what = device_->api().event_type_str(event.event_type);
  const auto is_own_port = [&] { return static_cast<uint32_t>(event.element.port_num) == device_->port().number; };
  switch (event.event_type) {
    case IBV_EVENT_PORT_ERR:
      if (is_own_port()) port_down_ns_ = port_fell_ns_ = now_ns();
      return;
    case IBV_EVENT_PORT_ACTIVE:
      if (is_own_port()) port_down_ns_ = 0;
      return;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
      return lose_all("the network device " + device_->port().device + " of this host has failed (" + what + ")");
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_PATH_MIG_ERR:
      for (const auto &peer : peers_)
        if (peer->queue_pair() == event.element.qp) peer->lose("the queue pair has failed (" + what + ")");
      return;
    default:
      return;  // of other ports, addresses and subnets: where it matters, requests fail
  }
}

void VerbsNetwork::lose_all(const std::string &what) {
  for (const auto &peer : peers_) peer->lose(what);
}

void VerbsNetwork::watch(std::vector<pollfd> &descriptors) const {
  device_look_due_ = true;
  ibv_cq *queue = nullptr;
  void *context = nullptr;
  while (device_->api().get_cq_event(channel_.get(), &queue, &context) == 0)  // bounded: one for each request below
    device_->api().ack_cq_events(queue, 1);
  // What came before the request causes no event: look again behind it.
  const bool busy = ibv_req_notify_cq(completions_.get(), 0) != 0 || fetch();
  descriptors.push_back({busy ? ready_.get() : channel_.get()->fd, POLLIN, 0});
  descriptors.push_back({device_->event_descriptor(), POLLIN, 0});
}

/// The event of a port can come behind the requests that fail for it.
bool VerbsNetwork::port_fell_with(const Peer &peer) const {
  if (port_fell_ns_ == 0) return !device_->port_is_active();
  return peer.lost_ns() + port_loss_ns > port_fell_ns_ && port_fell_ns_ + port_loss_ns > peer.lost_ns();
}

Error VerbsNetwork::why_lost(uint32_t rank) const {
  for (const auto &each : peers_) {
    const Peer &peer = *each;
    if (peer.rank() != rank || !peer.lost()) continue;
    std::string what = peer.why();
    if (port_fell_with(peer))
      what = "port " + std::to_string(device_->port().number) + " of the network device " + device_->port().device +
             " of this host has gone down (" + what +
             "); look at its cable, at its switch, and at its network interface (ip link)";
    Error error{RONDO_ERROR_REMOTE,
                peer.name() + ": " + what + " [from " + device_->describe() + " to " + peer.their_port() + "]"};
    error.peer = static_cast<int32_t>(rank);
    return error;
  }
  return {RONDO_ERROR_INTERNAL, "the connection is not lost"};
}

}  // namespace

Result<std::unique_ptr<net::Network>> make_network(const std::vector<net::NearLink> &links,
                                                   const JoinRequest &request, Store &store) {
  auto network = std::make_unique<VerbsNetwork>();
  const Result<void> prepared = network->prepare(links, request);
  const Result<HostInfo> offer = prepared.ok() ? Result<HostInfo>(network->offer()) : prepared.error();
  RONDO_TRY_ASSIGN(const auto introductions, exchange_offers(request, offer, store));
  RONDO_TRY(agree(request, "connected", network->connect(introductions), store));
  RONDO_TRY(agree(request, "greeted", network->greet(request, store), store));
  return std::unique_ptr<net::Network>(std::move(network));
}

}  // namespace rondo::verbs
