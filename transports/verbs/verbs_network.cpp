// SPDX-License-Identifier: Apache-2.0
#include "transports/verbs/verbs_network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <utility>

#include "src/base/clock.h"
#include "src/proto/memory.h"
#include "transports/verbs/peer.h"
#include "transports/verbs/rail.h"

namespace rondo::verbs {
namespace {

constexpr size_t events_alone = 32;
constexpr uint32_t events_per_completion = 2;  // besides events of slots that waited for this one
constexpr uint32_t idle_polls_per_look = 1024;            // between reads of device events, which need a system call
constexpr uint64_t farewell_patience_ns = 2'000'000'000;  // how long closing waits for what has not reached the peers
constexpr const char *advice =
    "; check RONDO_IB_HCA, RONDO_IB_GID_INDEX, the firewalls (RoCE v2 is UDP to port 4791) and the MTU between the "
    "hosts, or set RONDO_NETWORK=tcp";

class VerbsNetwork final : public net::Network {
 public:
  VerbsNetwork() = default;
  ~VerbsNetwork() override;
  Result<void> prepare(const std::vector<net::NearLink> &links, const JoinRequest &request);
  [[nodiscard]] HostInfo offer() const;
  Result<void> connect(const std::vector<Introduction> &introductions);
  /// Sends and receives a whole slot on every path.
  Result<void> greet(const JoinRequest &request, Store &store);

  const char *name() const override { return "verbs"; }
  bool put(uint32_t link, const net::Message &message) override;
  bool credit(uint32_t link, uint64_t consumed) override;
  uint32_t poll(std::span<net::Event> events) override;
  /// Returns true. The device owns all posted work, and sends and resends without further calls.
  bool flushed() const override { return true; }
  void watch(std::vector<pollfd> &descriptors) const override;
  Error why_lost(uint32_t peer) const override;
  Result<void> takes_device_memory() const override { return takes_device_memory_; }

 private:
  struct Ends {
    Peer *peer;
    Link *link;
  };
  void register_device_slots(const RdmaMemory &memory);
  [[nodiscard]] static const char *advice_of_slots(const Peer &peer);
  Result<void> add_paths(Peer &peer, const std::vector<net::NearLink> &links, uint32_t path_count);
  [[nodiscard]] Rail &rail_of(uint32_t path_number) const { return *rails_[path_number % rails_.size()]; }
  void take(const ibv_wc &completion, net::EventList &events);
  void take_failure(Path &path, const ibv_wc &completion);
  void take_word(Peer &peer, Path &path, const Immediate &word, net::EventList &events);
  /// Returns what is wrong with a slot that the peer sent, or null if nothing is.
  const char *take_slot(Peer &peer, Link &link, PathLink &ends, const Immediate &word, net::EventList &events);
  static const char *take_credit(Link &link, uint64_t consumed, net::EventList &events);
  void tell_arrivals(Link &link, net::EventList &events);
  void step_alone();

  std::vector<std::unique_ptr<Rail>> rails_;
  FileDescriptor ready_;  ///< always readable, for a caller that must not sleep
  std::vector<std::unique_ptr<Peer>> peers_;
  struct PathOfPeer {
    Peer *peer;
    Path *path;
  };
  std::vector<PathOfPeer> paths_;  ///< by PathPlace::index
  std::vector<Ends> links_;
  Result<void> takes_device_memory_;
  bool untold_ = false;  ///< `events` had no room for some arrived slots
  uint32_t idle_polls_ = 0;
};

Result<void> VerbsNetwork::prepare(const std::vector<net::NearLink> &links, const JoinRequest &request) {
  ready_.reset(::eventfd(1, EFD_CLOEXEC));
  if (!ready_.valid()) return system_error("eventfd", errno);
  RONDO_TRY_ASSIGN(auto devices, open_devices({request.settings.ib_devices, request.settings.ib_gid_index,
                                               request.addresses, request.near_ib_devices}));
  for (auto &device : devices) rails_.push_back(std::make_unique<Rail>(std::move(device)));
  std::vector<std::vector<net::NearLink>> of_rank(request.rank_count);
  for (const net::NearLink &link : links) of_rank[link.peer].push_back(link);
  const auto path_count = static_cast<uint32_t>(rails_.size()) * request.settings.sockets;
  std::vector<uint32_t> entries(rails_.size());
  for (const auto &of_peer : of_rank)
    for (uint32_t number = 0; number < path_count; ++number)
      entries[number % rails_.size()] += Path::completions_for({0, number, path_count}, of_peer);
  for (size_t rail = 0; rail < rails_.size(); ++rail)
    RONDO_TRY(rails_[rail]->make_completion_queue(std::max(entries[rail], 1u)));  // an empty queue is refused
  for (uint32_t rank = 0; rank < request.rank_count; ++rank) {
    if (!request.linked[rank]) continue;
    peers_.push_back(std::make_unique<Peer>(rank, request.names[rank], of_rank[rank]));
    RONDO_TRY(add_paths(*peers_.back(), of_rank[rank], path_count));
  }
  for (const net::NearLink &link : links) {
    const auto found =
        std::find_if(peers_.begin(), peers_.end(), [&](const auto &peer) { return peer->rank() == link.peer; });
    assert(found != peers_.end() && link.channel < channel_count_max);
    Link &of_peer = (*found)->links()[link.channel];
    of_peer.index = static_cast<uint32_t>(links_.size());
    links_.push_back({found->get(), &of_peer});
  }
  if (request.rdma_memory != nullptr) register_device_slots(*request.rdma_memory);
  return {};
}

/// Registers the device slots on all paths, or on none.
void VerbsNetwork::register_device_slots(const RdmaMemory &memory) {
  for (const PathOfPeer &each : paths_) {
    takes_device_memory_ = each.path->register_device_slots(memory);
    if (!takes_device_memory_.ok()) break;
  }
  if (takes_device_memory_.ok()) return;
  for (const PathOfPeer &each : paths_) each.path->forget_device_slots();
  for (const Ends &each : links_) each.link->ends.device_incoming = each.link->ends.device_outgoing = nullptr;
}

const char *VerbsNetwork::advice_of_slots(const Peer &peer) {
  const auto in_device = [](const auto &path) { return path->has_device_slots(); };
  return std::ranges::any_of(peer.paths(), in_device) ? net::device_slots_advice : "";
}

Result<void> VerbsNetwork::add_paths(Peer &peer, const std::vector<net::NearLink> &links, uint32_t path_count) {
  for (uint32_t number = 0; number < path_count; ++number) {
    Rail &rail = rail_of(number);
    const PathPlace place{static_cast<uint32_t>(paths_.size()), number, path_count};
    RONDO_TRY_ASSIGN(auto path, Path::make(rail.device(), rail.completions(), place, peer.loss(), links));
    rail.add(*path);
    paths_.push_back({&peer, path.get()});
    peer.add(std::move(path));
  }
  return {};
}

HostInfo VerbsNetwork::offer() const {
  HostInfo offer;
  for (const auto &rail : rails_) offer.rails.push_back(rail->offer());
  for (const auto &peer : peers_)
    for (const auto &path : peer->paths()) offer.pairs.push_back(path->offer());
  return offer;
}

Result<void> VerbsNetwork::connect(const std::vector<Introduction> &introductions) {
  for (const Introduction &introduction : introductions)
    for (const auto &peer : peers_)
      if (peer->rank() == introduction.rank)
        for (const auto &path : peer->paths()) RONDO_TRY(path->connect(introduction.offer));
  return {};
}

void VerbsNetwork::step_alone() {
  std::array<net::Event, events_alone> events;
  static_cast<void>(poll(events));  // without slots, only losses are events, and Peer stores those
}

Result<void> VerbsNetwork::greet(const JoinRequest &request, Store &store) {
  for (const PathOfPeer &each : paths_)
    if (!each.path->send_hello()) return Error{RONDO_ERROR_INTERNAL, "a fresh queue pair has no room"};
  const auto refused = [&](const Peer &peer, const Path &path, rondo_status_t status, const std::string &what) {
    Error error{status, request.names[request.rank] + " cannot reach " + peer.name() + " over verbs, " +
                            path.describe() + ": " + what + advice + advice_of_slots(peer)};
    error.peer = static_cast<int32_t>(peer.rank());
    return error;
  };
  StoreWatch watch(store);
  for (;;) {
    step_alone();
    const PathOfPeer *missing = nullptr;
    for (const PathOfPeer &each : paths_) {
      const Loss &loss = each.peer->loss();
      if (each.peer->lost())
        return refused(*each.peer, *each.peer->paths()[loss.path], RONDO_ERROR_REMOTE, loss.why);
      if (!each.path->greeted || !each.path->all_left()) missing = &each;
    }
    if (missing == nullptr) return {};
    RONDO_TRY(watch.look());
    if (now_ns() >= request.deadline_ns)
      return refused(*missing->peer, *missing->path, RONDO_ERROR_TIMEOUT, "no answer arrived in time");
    yield_core();
  }
}

/// Waits until everything has arrived, because a device sends only while its queue pairs exist. A peer that has sent
/// bye needs nothing more.
VerbsNetwork::~VerbsNetwork() {
  for (const PathOfPeer &each : paths_)
    if (each.path->connected() && !each.peer->has_left()) static_cast<void>(each.path->send_bye());
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

uint32_t VerbsNetwork::poll(std::span<net::Event> events) {
  net::EventList list(events);
  if (std::exchange(untold_, false))
    for (const Ends &each : links_) tell_arrivals(*each.link, list);
  bool idle = true;
  for (const auto &rail : rails_) {  // each queue once: a second poll would usually find nothing
    for (bool some = rail->fetch(); some && list.has_room(events_per_completion); some = rail->has_fetched()) {
      take(rail->take(), list);
      idle = false;
    }
  }
  const bool look = idle && ++idle_polls_ % idle_polls_per_look == 0;
  for (const auto &rail : rails_)
    if (look || rail->look_is_due()) rail->look();
  for (const auto &peer : peers_) {
    if (!peer->lost() || peer->told || peer->links().empty() || !list.has_room(events_per_completion)) continue;
    peer->told = true;
    list.add({net::Event::Kind::lost, peer->links().front().index});
  }
  return list.count();
}

void VerbsNetwork::take(const ibv_wc &completion, net::EventList &events) {
  const PathOfPeer &of = paths_[completion.wr_id >> 1];
  if (of.peer->lost()) return;
  if (completion.status != IBV_WC_SUCCESS) return take_failure(*of.path, completion);
  if ((completion.wr_id & 1) != 0) {
    of.path->receive_again();
    return take_word(*of.peer, *of.path, unpack(ntohl(completion.imm_data)), events);
  }
  of.path->sent();
}

void VerbsNetwork::take_failure(Path &path, const ibv_wc &completion) {
  rail_of(path.number()).look();  // the rail's events explain more
  const std::string what = path.device().api().wc_status_str(completion.status);
  if (completion.status == IBV_WC_RETRY_EXC_ERR)
    path.lose("its device does not acknowledge any more (" + what + "); is the network between the hosts cut?");
  path.lose(what);
}

void VerbsNetwork::take_word(Peer &peer, Path &path, const Immediate &word, net::EventList &events) {
  const char *wrong = "there is no such channel";
  if (word.channel < peer.links().size()) {
    Link &link = peer.links()[word.channel];
    wrong = nullptr;
    switch (word.kind) {
      case MessageKind::slot: wrong = take_slot(peer, link, path.ends(word.channel), word, events); break;
      case MessageKind::credit: wrong = take_credit(link, nearest(link.consumed, word.counter), events); break;
      case MessageKind::hello: path.greeted = true; break;
      case MessageKind::bye:
        path.closed = true;
        if (peer.has_left()) path.lose("it closed the connection");
        break;
    }
  }
  if (wrong != nullptr) path.lose(std::string("it sent an invalid message: ") + wrong);
}

const char *VerbsNetwork::take_slot(Peer &peer, Link &link, PathLink &ends, const Immediate &word,
                                    net::EventList &events) {
  const ConnectionView &incoming = link.ends.incoming;
  if (word.counter != (ends.next & counter_mask)) return "its slots are out of order";
  const Cell &cell = ends.landed[incoming.slot(ends.next)];
  Frame frame;  // a copy: the peer could change the cell while it is read
  std::memcpy(&frame, &cell.frame, sizeof frame);
  // This pairs with S6 in SimpleReceiver::release: the slot's old content was read.
  const uint64_t free_from = memory::load_sync(incoming.simple_head()) + incoming.geometry.slot_count;
  if (frame.counter != ends.next || frame.counter >= free_from) return "its slot is not free";
  if (frame.bytes > incoming.geometry.slot_bytes) return "it is longer than a slot";
  if (const char *const wrong = take_credit(link, frame.consumed, events)) return wrong;
  if (frame.bytes != 0 && frame.bytes <= cell_payload_bytes)
    std::memcpy(incoming.payload(frame.counter), cell.payload, frame.bytes);
  ends.next += peer.paths().size();
  link.arrivals[incoming.slot(frame.counter)] = {true, frame};
  tell_arrivals(link, events);
  return nullptr;
}

/// Adds the events of arrived slots in order, up to the first slot that is missing.
void VerbsNetwork::tell_arrivals(Link &link, net::EventList &events) {
  for (;;) {  // at most the slots of a link
    Arrival &arrival = link.arrivals[link.ends.incoming.slot(link.arrived)];
    if (!arrival.here) return;
    if (!events.has_room(1)) break;
    arrival.here = false;
    const bool in_device = link.ends.device_incoming != nullptr && arrival.frame.bytes > cell_payload_bytes;
    events.add({net::Event::Kind::arrived, link.index, link.arrived++, arrival.frame.signature, arrival.frame.bytes,
                in_device});
  }
  untold_ = true;
}

/// Takes a credit, and returns what is wrong with it, or null. A credit that arrived over another path may be newer, so
/// the highest one counts. A credit may arrive before the peer's device has acknowledged the slot. Until that
/// acknowledgement, this device may resend the slot, which may hold other bytes by now. That is harmless, because the
/// peer's device drops packets that it already has (InfiniBand Architecture Specification, C9-105).
const char *VerbsNetwork::take_credit(Link &link, uint64_t consumed, net::EventList &events) {
  if (consumed > link.sent) return "it gives credit for what was not sent";
  if (consumed <= link.consumed) return nullptr;
  link.consumed = consumed;
  events.add({net::Event::Kind::credit, link.index, consumed});
  return nullptr;
}

void VerbsNetwork::watch(std::vector<pollfd> &descriptors) const {
  for (const auto &rail : rails_) rail->watch(descriptors, ready_.get());
  if (untold_) descriptors.push_back({ready_.get(), POLLIN, 0});
}

Error VerbsNetwork::why_lost(uint32_t rank) const {
  for (const auto &peer : peers_) {
    if (peer->rank() != rank || !peer->lost()) continue;
    const Loss &loss = peer->loss();
    const Path &path = *peer->paths()[loss.path];
    std::string what = loss.why;
    if (rail_of(loss.path).fell_around(loss.ns)) {
      const Port &port = path.device().port();
      what = "port " + std::to_string(port.number) + " of the network device " + port.device +
             " of this host has gone down (" + what +
             "); look at its cable, at its switch, and at its network interface (ip link)";
    }
    Error error{RONDO_ERROR_REMOTE, peer->name() + ": " + what + " [" + path.describe() + "]" + advice_of_slots(*peer)};
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
