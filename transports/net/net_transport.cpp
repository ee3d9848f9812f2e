// SPDX-License-Identifier: Apache-2.0
#include "transports/net/net_transport.h"

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>

#include "src/base/clock.h"
#include "src/plan/split_call.h"
#include "transports/net/far_windows.h"
#include "transports/net/group_messages.h"
#include "transports/net/sentinel.h"

namespace rondo::net {
namespace {

constexpr uint64_t flush_patience_ns = 200'000;             // after this the sentinel continues
constexpr uint64_t farewell_patience_ns = 2'000'000'000;    // a leaving rank waits this long for acknowledgements

/// The objects that the links and ranks of a group share. Rank numbers are numbers in the whole group; only `local`
/// uses the numbers on this host.
struct Group {
  Group(GroupParts group_parts, NearMemory near)
      : parts(std::move(group_parts)),
        memory(std::move(near)),
        own(parts.local_index[parts.rank]),
        local_links(parts.local->links()),
        local_ranks(parts.local->ranks()),
        windows(parts.names.size(), [this](uint32_t peer, rondo_status_t status, const std::string &message) {
          Error error{status, parts.names[peer] + " " + message};
          error.rank = static_cast<int32_t>(parts.rank);
          error.peer = static_cast<int32_t>(peer);
          local_ranks.raise(error);
        }) {}

  [[nodiscard]] bool is_local(uint32_t peer) const { return parts.local_index[peer] != no_local; }
  [[nodiscard]] uint32_t index_of(uint32_t peer) const { return parts.local_index[peer]; }
  [[nodiscard]] uint32_t rank_of(uint32_t index) const {
    const auto found = std::find(parts.local_index.begin(), parts.local_index.end(), index);
    return static_cast<uint32_t>(found - parts.local_index.begin());
  }

  GroupParts parts;
  NearMemory memory;
  const uint32_t own;  ///< this rank's number in parts.local
  Links &local_links;
  Ranks &local_ranks;
  FarWindows windows;
  std::unique_ptr<Progress> progress;
  std::unique_ptr<Control> control;
  std::unique_ptr<Sentinel> sentinel;  ///< last: its thread uses the others
};

/// The executing thread's view of all other ranks, on this host and on others.
class GroupPeers final : public PeerAccess {
 public:
  explicit GroupPeers(Group &group) : group_(group), local_(group.local_links.peers()) {}

  const std::byte *import_payload(uint32_t peer, const SlotHeader &header, std::byte *scratch) override {
    // A payload from another host is in the slot itself. Never follow a pointer that another host sent.
    return group_.is_local(peer) ? local_.import_payload(group_.index_of(peer), header, scratch) : nullptr;
  }
  int own_shortage() const override { return local_.own_shortage(); }
  void wake(uint32_t peer) override {
    if (group_.is_local(peer)) local_.wake(group_.index_of(peer));
  }
  uint32_t prepare_sleep() override {
    const uint32_t ticket = local_.prepare_sleep();
    group_.sentinel->set_away(true);
    group_.sentinel->kick();
    return ticket;
  }
  void sleep(uint32_t ticket, uint64_t timeout_ns) override { local_.sleep(ticket, timeout_ns); }
  void cancel_sleep() override {
    group_.sentinel->set_away(false);
    local_.cancel_sleep();
  }
  bool shares_processor() override { return local_.shares_processor(); }
  bool progress() override { return group_.sentinel->step(); }

 private:
  Group &group_;
  PeerAccess &local_;
};

class GroupLinks final : public Links {
 public:
  explicit GroupLinks(Group &group) : group_(group), local_(group.local_links), peers_(group) {}

  ConnectionGeometry geometry() const override {
    ConnectionGeometry geometry = local_.geometry();
    geometry.ll_slot_bytes = 0;  // a network moves whole slots, so ll would gain nothing
    return geometry;
  }
  uint32_t channel_count() const override { return local_.channel_count(); }
  ConnectionView outgoing(uint32_t channel, uint32_t peer) const override {
    if (group_.is_local(peer)) return local_.outgoing(channel, group_.index_of(peer));
    const NearLink *const link = group_.memory.find(channel, peer);
    return link != nullptr ? link->outgoing : ConnectionView{};
  }
  ConnectionView incoming(uint32_t channel, uint32_t peer) const override {
    if (group_.is_local(peer)) return local_.incoming(channel, group_.index_of(peer));
    const NearLink *const link = group_.memory.find(channel, peer);
    return link != nullptr ? link->incoming : ConnectionView{};
  }
  bool carries_plans(uint32_t peer) const override {
    if (group_.is_local(peer)) return true;
    const NearLink *const link = group_.memory.find(0, peer);
    return link != nullptr && link->use == LinkUse::collectives;
  }
  void open_blocks() override { group_.sentinel->open_blocks(); }
  bool carries_messages() const override { return group_.parts.messages && local_.carries_messages(); }
  Result<void> open_messages() override {
    RONDO_TRY(local_.open_messages());
    group_.sentinel->open_messages();
    return {};
  }
  ConnectionView outgoing_messages(uint32_t peer) const override {
    if (group_.is_local(peer)) return local_.outgoing_messages(group_.index_of(peer));
    const NearLink *const link = group_.memory.find_messages(peer);
    return link != nullptr ? link->outgoing : ConnectionView{};
  }
  ConnectionView incoming_messages(uint32_t peer) const override {
    if (group_.is_local(peer)) return local_.incoming_messages(group_.index_of(peer));
    const NearLink *const link = group_.memory.find_messages(peer);
    return link != nullptr ? link->incoming : ConnectionView{};
  }
  bool has_signals() const override {
    return carries_messages() && group_.memory.links().back().use == LinkUse::puts;
  }
  Result<void> open_one_sided() override {
    if (one_sided_.load(std::memory_order_acquire)) return {};  // pairs with the store below
    RONDO_TRY(open_messages());
    group_.sentinel->open_puts();
    group_.control->want_puts();  // a rank that has not called yet takes puts and signals, too
    one_sided_.store(true, std::memory_order_release);
    return {};
  }
  ConnectionView outgoing_puts(uint32_t peer) const override {
    const NearLink *const link = group_.memory.find_puts(peer);
    return link != nullptr ? link->outgoing : ConnectionView{};
  }
  uint64_t *signals(uint32_t from, uint32_t to) const override {
    if (!group_.is_local(from)) return group_.windows.signals(from);
    return group_.is_local(to) ? local_.signals(group_.index_of(from), group_.index_of(to)) : nullptr;
  }
  Result<std::shared_ptr<const RemoteMemory>> open_memory(uint32_t peer, const MemoryPlace &place) const override {
    if (!group_.is_local(peer)) return std::shared_ptr<const RemoteMemory>();  // outgoing_puts() reaches it
    return local_.open_memory(group_.index_of(peer), place);
  }
  void expose_window(uint64_t number, std::span<std::byte> buffer) override { group_.windows.expose(number, buffer); }
  void withdraw_window(uint64_t number) override { group_.windows.withdraw(number); }
  std::byte *device_slots(uint32_t channel, uint32_t peer) const override {
    const NearLink *const link = group_.memory.find(channel, peer);
    return link != nullptr ? link->device_outgoing : nullptr;
  }
  std::byte *device_message_slots(uint32_t peer) const override {
    const NearLink *const link = group_.memory.find_messages(peer);
    return link != nullptr ? link->device_outgoing : nullptr;
  }
  ExchangeView exchange() const override { return {}; }  // none: all ranks would have to map it
  uint32_t readable_kinds(uint32_t peer) const override {
    return group_.is_local(peer) ? local_.readable_kinds(group_.index_of(peer)) : 0;
  }
  uint32_t reachable_kinds(uint32_t peer) const override {
    return group_.is_local(peer) ? local_.reachable_kinds(group_.index_of(peer)) : 0;
  }
  PeerAccess &peers() override { return peers_; }
  bool needs_progress() const override { return true; }
  NetworkMemory network_memory() const override { return group_.memory.memory(); }

  void set_running(bool running) override {
    local_.set_running(running);
    group_.sentinel->set_away(!running);
    // Without this kick, a put to this rank might wait until the sentinel polls again.
    if (!running && one_sided_.load(std::memory_order_relaxed)) group_.sentinel->kick();
  }
  void wait_for_readers() const override { local_.wait_for_readers(); }
  uint64_t shared_bytes() const override { return local_.shared_bytes(); }
  Result<uint64_t> used_bytes() const override { return local_.used_bytes(); }

 private:
  Group &group_;
  Links &local_;
  GroupPeers peers_;
  std::atomic<bool> one_sided_ = false;  ///< stored by open_one_sided()
};

class GroupRanks final : public Ranks {
 public:
  explicit GroupRanks(Group &group) : group_(group), local_(group.local_ranks) {
    if (!group.parts.messages || local_.messages() == nullptr) return;
    messages_.emplace(GroupMessages::Parts{
        local_.messages(), group.parts.local_index,
        [&group] {
          if (!group.parts.rings) group.sentinel->expect_posts();
        },
        [this] {
          if (group_.parts.rings) settle();  // otherwise the sentinel is always in charge
        },
        [&group](uint32_t of, bool sends, uint64_t message, uint64_t since_ns) {
          return group.control->pair(of, sends, message, since_ns);
        },
        [&group](uint32_t of, uint64_t since_ns, WaitReport &report) {
          return group.control->waits(of, since_ns, report);
        }});
  }

  void enter(uint64_t operation, const OperationInfo &what) override {
    local_.enter(operation, what);
    if (split_call_of(what.signature)) group_.control->tell_entered(operation, what);
    if (operation % entered_step == 0) group_.control->tell_status();
    if (!group_.parts.rings) group_.sentinel->expect_posts();
  }
  void complete(uint64_t operation, const OperationCost &cost) override {
    local_.complete(operation, cost);
    if (group_.parts.rings) settle();  // otherwise the sentinel is always in charge of the links
  }
  void fail(uint64_t operation) override { local_.fail(operation); }
  void set_state(RankState state) override {
    if (state == RankState::left && std::exchange(left_, true)) return;  // close() did this before the destructor
    if (state == RankState::left) group_.windows.close();  // the program may free its buffers
    const bool leaves = state == RankState::left || state == RankState::exited;
    const bool delivers = leaves || state == RankState::aborted;
    if (delivers && group_.sentinel != nullptr && !local_.failed()) group_.sentinel->deliver(farewell_patience_ns);
    // If another rank of this host raised a failure, the other hosts must learn of it before this rank leaves.
    if (group_.sentinel != nullptr) group_.sentinel->report_failure();
    local_.set_state(state);
    if (group_.control == nullptr) return;
    leaves ? group_.control->tell_leaving() : group_.control->tell_status();
  }

  std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation) const override {
    if (group_.is_local(peer)) return local_.entered(group_.index_of(peer), operation);
    return group_.control->entered(peer, operation);
  }
  uint64_t latest_operation(uint32_t peer) const override {
    if (group_.is_local(peer)) return local_.latest_operation(group_.index_of(peer));
    return group_.control->status(peer).entered;
  }
  uint64_t completed_operation(uint32_t peer) const override {
    if (group_.is_local(peer)) return local_.completed_operation(group_.index_of(peer));
    return group_.control->status(peer).completed;
  }
  void post(const Note &note) override {
    local_.post(note);
    group_.control->tell_note(note);
  }
  std::vector<Note> notes(uint32_t peer) const override {
    if (group_.is_local(peer)) return local_.notes(group_.index_of(peer));
    return group_.control->notes(peer);
  }
  bool is_near(uint32_t peer) const override { return group_.is_local(peer); }
  MessageBoards *messages() override { return messages_ ? &*messages_ : nullptr; }
  RankState state(uint32_t peer) const override {
    return group_.is_local(peer) ? local_.state(group_.index_of(peer)) : group_.control->status(peer).state;
  }

  void raise(const Error &error) override {
    local_.raise(error);
    group_.sentinel->report_failure();  // before this rank can leave
  }
  bool failed() const override { return local_.failed(); }
  Error failure() const override { return local_.failure(); }

  std::vector<uint32_t> find_dead() const override {
    std::vector<uint32_t> dead;
    for (const uint32_t index : local_.find_dead()) dead.push_back(group_.rank_of(index));
    group_.control->add_dead(dead);
    return dead;
  }
  bool may_deliver(uint32_t peer) const override { return !group_.is_local(peer) && !group_.sentinel->has_lost(peer); }
  std::string how_dead(uint32_t peer) const override {
    return group_.is_local(peer) ? Ranks::how_dead(peer) : group_.control->why_dead(peer);
  }
  std::string describe_rank(uint32_t peer) const override { return group_.parts.names[peer]; }

 private:
  /// Flushes the data of an operation before the operation counts as done. Without the flush, peers might wait for this
  /// data until this rank's next call. If the network does not take everything at once, the sentinel sends the rest.
  void settle() {
    if (group_.sentinel->flush(flush_patience_ns)) return;
    group_.sentinel->set_away(true);
    group_.sentinel->kick();
  }

  Group &group_;
  Ranks &local_;
  std::optional<GroupMessages> messages_;
  bool left_ = false;
};

class GroupTransport final : public Transport {
 public:
  GroupTransport(GroupParts parts, NearMemory memory)
      : group_(std::move(parts), std::move(memory)), links_(group_), ranks_(group_) {}
  ~GroupTransport() override { ranks_.set_state(RankState::left); }

  Result<void> start(std::unique_ptr<Network> network) {
    group_.progress =
        std::make_unique<Progress>(group_.memory.links(), std::move(network), group_.memory.memory().device,
                                   &group_.windows);
    Ranks &local = group_.local_ranks;
    const uint32_t own = group_.own;
    FlightRecorder &recorder = group_.parts.local->recorder();
    if (own == 0) recorder.set_communicator(group_.parts.communicator);
    recorder.set_group_rank(own, group_.parts.rank);
    if (group_.parts.rank == 0) recorder.set_clock_offset({});
    Control::Parts control{group_.parts.rank, std::move(group_.parts.host_of), &local, std::move(group_.parts.control)};
    control.settings = group_.parts.settings;
    if (!group_.is_local(0))
      control.clock_measured = [&recorder](const ClockOffset &offset) { recorder.set_clock_offset(offset); };
    RONDO_TRY_ASSIGN(group_.control, Control::make(std::move(control)));
    Sentinel::Hooks hooks;
    hooks.failed = [&local] { return local.failed(); };
    hooks.ring = [&peers = group_.local_links.peers(), own] { peers.wake(own); };
    hooks.raise = [&local](const Error &error) { local.raise(error); };
    hooks.raise_own = [&local, &parts = group_.parts](Error error) {
      error.rank = error.peer = static_cast<int32_t>(parts.rank);
      error.message = parts.names[parts.rank] + ": " + error.message;
      local.raise(error);
    };
    hooks.raise_reset = [&local, &parts = group_.parts](uint32_t peer) {
      Error error{RONDO_ERROR_REMOTE, "the control connection between " + parts.names[parts.rank] + " and " +
                                          parts.names[peer] +
                                          " was reset, but the data connections between them still work; does a "
                                          "firewall, or a tool such as `ss -K`, reset connections?"};
      error.rank = static_cast<int32_t>(parts.rank);
      error.peer = static_cast<int32_t>(peer);
      local.raise(error);
    };
    if (!group_.parts.rings)
      hooks.in_flight = [&local, own] {
        if (local.latest_operation(own) > local.completed_operation(own)) return true;
        if (local.messages() == nullptr) return false;
        const BatchCounts batches = local.messages()->batches(own);
        return batches.entered > batches.completed;
      };
    RONDO_TRY_ASSIGN(group_.sentinel, Sentinel::start(*group_.control, *group_.progress, std::move(hooks)));
    return {};
  }

  Links &links() override { return links_; }
  Ranks &ranks() override { return ranks_; }
  FlightRecorder &recorder() override { return group_.parts.local->recorder(); }

 private:
  Group group_;
  GroupLinks links_;
  GroupRanks ranks_;
};

}  // namespace

Result<std::unique_ptr<Transport>> make_group_transport(GroupParts parts, NearMemory memory,
                                                        std::unique_ptr<Network> network) {
  auto transport = std::make_unique<GroupTransport>(std::move(parts), std::move(memory));
  RONDO_TRY(transport->start(std::move(network)));
  return std::unique_ptr<Transport>(std::move(transport));
}

}  // namespace rondo::net
