// SPDX-License-Identifier: Apache-2.0
#include "transports/net/transport.h"

#include <errno.h>
#include <sys/mman.h>

#include <algorithm>

#include "src/base/checked.h"
#include "src/base/clock.h"
#include "transports/net/sentinel.h"

namespace rondo::net {
namespace {

constexpr uint64_t flush_patience_ns = 200'000;             // then the sentinel goes on
constexpr uint64_t farewell_patience_ns = 2'000'000'000;    // of what is left to be sent when the group is left
constexpr size_t page_bytes = 4096;

/// The executing thread's view of the other ranks, wherever they are.
class GroupPeers final : public PeerAccess {
 public:
  GroupPeers(PeerAccess &local, const std::vector<uint32_t> &local_index) : local_(local), local_index_(local_index) {}
  void set_sentinel(Sentinel *sentinel) { sentinel_ = sentinel; }

  const std::byte *borrow(uint32_t peer, const SlotHeader &header, std::byte *scratch) override {
    // What other hosts send is in the slot: a pointer that one of them named is never followed.
    return local_index_[peer] == no_local ? nullptr : local_.borrow(local_index_[peer], header, scratch);
  }
  void wake(uint32_t peer) override {
    if (local_index_[peer] != no_local) local_.wake(local_index_[peer]);
  }
  uint32_t prepare_sleep() override {
    const uint32_t ticket = local_.prepare_sleep();
    sentinel_->set_away(true);
    sentinel_->kick();
    return ticket;
  }
  void sleep(uint32_t ticket, uint64_t timeout_ns) override { local_.sleep(ticket, timeout_ns); }
  void cancel_sleep() override {
    sentinel_->set_away(false);
    local_.cancel_sleep();
  }
  bool progress() override { return sentinel_->step(); }

 private:
  PeerAccess &local_;
  const std::vector<uint32_t> &local_index_;
  Sentinel *sentinel_ = nullptr;
};

class GroupTransport final : public Transport {
 public:
  GroupTransport(GroupParts parts, NearMemory memory)
      : parts_(std::move(parts)),
        memory_(std::move(memory)),
        own_(parts_.local_index[parts_.rank]),
        peers_(parts_.local->peers(), parts_.local_index) {}
  ~GroupTransport() override { set_state(RankState::left); }

  Result<void> start(std::unique_ptr<Network> network) {
    name_ = std::string("shm+") + network->name();
    progress_ = std::make_unique<Progress>(memory_.links(), std::move(network));
    Control::Owner owner;
    owner.status = [this] {
      return RankStatus{local().state(own_), local().latest_operation(own_), local().completed_operation(own_)};
    };
    owner.entered = [this](uint64_t operation) { return local().entered(own_, operation); };
    owner.failed = [this](const Error &error) { parts_.local->raise(error); };
    const auto rank_count = static_cast<uint32_t>(parts_.local_index.size());
    RONDO_TRY_ASSIGN(control_, Control::make(rank_count, std::move(parts_.control), std::move(owner)));
    Sentinel::Hooks hooks;
    hooks.failure = [this]() -> std::optional<Error> {
      if (!local().failed()) return std::nullopt;
      return local().failure();
    };
    hooks.ring = [this] { parts_.local->peers().wake(own_); };
    hooks.gone = [this](uint32_t peer) { return control_->gone(peer); };
    hooks.raise = [this](const Error &error) { parts_.local->raise(error); };
    RONDO_TRY_ASSIGN(sentinel_, Sentinel::start(*control_, *progress_, std::move(hooks)));
    peers_.set_sentinel(sentinel_.get());
    return {};
  }

  const char *name() const override { return name_.c_str(); }
  ConnectionGeometry geometry() const override {
    ConnectionGeometry geometry = local().geometry();
    geometry.ll_slot_bytes = 0;  // a network moves whole slots: lines with flags of their own gain nothing
    return geometry;
  }
  uint32_t channel_count() const override { return local().channel_count(); }
  ConnectionView outgoing(uint32_t channel, uint32_t peer) const override {
    if (is_local(peer)) return local().outgoing(channel, parts_.local_index[peer]);
    return link(channel, peer).outgoing;
  }
  ConnectionView incoming(uint32_t channel, uint32_t peer) const override {
    if (is_local(peer)) return local().incoming(channel, parts_.local_index[peer]);
    return link(channel, peer).incoming;
  }
  ExchangeView exchange() const override { return {}; }  // which all ranks would have to map
  uint32_t accepted_kinds(uint32_t peer) const override {
    return is_local(peer) ? local().accepted_kinds(parts_.local_index[peer]) : 0;
  }
  PeerAccess &peers() override { return peers_; }
  bool needs_progress() const override { return true; }

  void enter(uint64_t operation, const Entered &what) override { parts_.local->enter(operation, what); }
  void complete(uint64_t operation) override {
    parts_.local->complete(operation);
    // Done includes flushed: the peers must not need another call of this rank. What the network does not take at once
    // is the sentinel's.
    if (!sentinel_->flush(flush_patience_ns)) leave_links();
  }
  void fail(uint64_t operation) override { parts_.local->fail(operation); }
  void set_running(bool running) override {
    parts_.local->set_running(running);
    sentinel_->set_away(!running);
  }
  void wait_for_borrowers() const override { local().wait_for_borrowers(); }
  void set_state(RankState state) override {
    if (state == RankState::left && sentinel_ != nullptr && !local().failed()) sentinel_->flush(farewell_patience_ns);
    parts_.local->set_state(state);
    if (control_ != nullptr) control_->tell_status();
  }
  std::optional<Entered> entered(uint32_t peer, uint64_t operation) const override {
    if (is_local(peer)) return local().entered(parts_.local_index[peer], operation);
    return control_->entered(peer, operation);
  }
  uint64_t latest_operation(uint32_t peer) const override {
    return is_local(peer) ? local().latest_operation(parts_.local_index[peer]) : control_->status(peer).entered;
  }
  uint64_t completed_operation(uint32_t peer) const override {
    return is_local(peer) ? local().completed_operation(parts_.local_index[peer]) : control_->status(peer).completed;
  }
  RankState state(uint32_t peer) const override {
    return is_local(peer) ? local().state(parts_.local_index[peer]) : control_->status(peer).state;
  }

  void raise(const Error &error) override {
    parts_.local->raise(error);
    sentinel_->tell_failure();  // before this rank can leave
  }
  bool failed() const override { return local().failed(); }
  Error failure() const override { return local().failure(); }
  std::vector<uint32_t> find_dead() const override {
    std::vector<uint32_t> dead;
    for (const uint32_t index : local().find_dead()) dead.push_back(rank_of(index));
    control_->add_dead(dead);
    return dead;
  }
  std::string how_dead(uint32_t peer) const override {
    return is_local(peer) ? Transport::how_dead(peer) : control_->why_dead(peer);
  }
  std::string describe_rank(uint32_t peer) const override { return parts_.names[peer]; }

  std::unique_ptr<Recording> recording() const override { return local().recording(); }
  bool claim_dump() override { return parts_.local->claim_dump(); }
  void end_dump(bool finished) override { parts_.local->end_dump(finished); }
  uint64_t shared_bytes() const override { return local().shared_bytes(); }
  Result<uint64_t> used_bytes() const override { return local().used_bytes(); }

 private:
  [[nodiscard]] const Transport &local() const { return *parts_.local; }
  [[nodiscard]] bool is_local(uint32_t peer) const { return parts_.local_index[peer] != no_local; }
  [[nodiscard]] uint32_t rank_of(uint32_t index) const {
    const auto found = std::find(parts_.local_index.begin(), parts_.local_index.end(), index);
    return static_cast<uint32_t>(found - parts_.local_index.begin());
  }
  [[nodiscard]] const NearLink &link(uint32_t channel, uint32_t peer) const {
    return *std::find_if(memory_.links().begin(), memory_.links().end(),
                         [&](const NearLink &link) { return link.channel == channel && link.peer == peer; });
  }
  void leave_links() {
    sentinel_->set_away(true);
    sentinel_->kick();
  }

  GroupParts parts_;
  NearMemory memory_;
  uint32_t own_;  ///< this rank's number in parts_.local
  std::string name_;
  GroupPeers peers_;
  std::unique_ptr<Progress> progress_;
  std::unique_ptr<Control> control_;
  std::unique_ptr<Sentinel> sentinel_;  ///< last: its thread uses the others
};

}  // namespace

Result<NearMemory> NearMemory::make(const std::vector<uint32_t> &local_index, uint32_t channel_count,
                                    const ConnectionGeometry &geometry) {
  NearMemory memory;
  const size_t stride = round_up<size_t>(geometry.bytes(), page_bytes);
  const auto remote_count = static_cast<size_t>(std::count(local_index.begin(), local_index.end(), no_local));
  const size_t bytes = 2 * remote_count * channel_count * stride;
  // Pages are used only where they are touched: a link that no schedule has costs nothing.
  void *const address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return system_error("mmap of " + std::to_string(bytes) + " bytes for network links", errno);
  memory.mapping_.reset({static_cast<std::byte *>(address), bytes});
  std::byte *next = memory.mapping_.get().address;
  for (uint32_t channel = 0; channel < channel_count; ++channel) {
    for (uint32_t peer = 0; peer < local_index.size(); ++peer) {
      if (local_index[peer] != no_local) continue;
      memory.links_.push_back({peer, channel, {next, geometry}, {next + stride, geometry}});
      next += 2 * stride;
    }
  }
  return memory;
}

Result<std::unique_ptr<Transport>> make_group_transport(GroupParts parts, NearMemory memory,
                                                        std::unique_ptr<Network> network) {
  auto transport = std::make_unique<GroupTransport>(std::move(parts), std::move(memory));
  RONDO_TRY(transport->start(std::move(network)));
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace rondo::net
