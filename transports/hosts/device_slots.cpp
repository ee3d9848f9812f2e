// SPDX-License-Identifier: Apache-2.0
#include "transports/hosts/connect_steps.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <optional>
#include <utility>

#include "src/base/clock.h"
#include "src/base/log.h"
#include "src/bootstrap/bytes.h"
#include "src/bootstrap/store/forwarding_store.h"
#include "src/bootstrap/store/store.h"

namespace rondo::hosts {
namespace {

using MadeNetwork = Result<std::unique_ptr<net::Network>>;

constexpr uint64_t trial_max_ns = 20'000'000'000;
constexpr uint64_t unasked_ns = 500'000'000;  // no check of the store before this time; most trials end earlier

/// The store that a rank uses while it tries a network. If another rank gives up the trial, check() fails, so that this
/// rank does not wait for that rank.
class TrialStore final : public ForwardingStore {
 public:
  TrialStore(Store &store, std::string key) : ForwardingStore(store), key_(std::move(key)) {}

  /// Reports to the other ranks that this rank gives up. If several ranks give up, all ranks use the first reason.
  void give_up(const Error &why, uint64_t deadline_ns) {
    static_cast<void>(put(key_, bytes_of(why.message), deadline_ns));
  }

  Result<void> check() override {
    RONDO_TRY(ForwardingStore::check());
    if (now_ns() - begun_ns_ < unasked_ns) return {};
    RONDO_TRY_ASSIGN(const auto said, try_get(key_));
    if (!said) return {};
    return Error{RONDO_ERROR_REMOTE, "another rank has given up: " + text_of(*said)};
  }

 private:
  const std::string key_;
  const uint64_t begun_ns_ = now_ns();
};

class Maker {
 public:
  Maker(const GroupRequest &request, const net::JoinRequest &join, net::NearMemory &memory, Store &store)
      : request_(request), join_(join), memory_(memory), store_(store) {}

  /// Puts slots into device memory, if the network may be able to reach device memory. Stores the outcome.
  void take_device_memory() {
    if (!request_.network->reaches_devices || memory_.links().empty()) return;
    auto allocated = request_.allocate_rdma_memory(memory_.device_bytes());
    if (!allocated.ok()) {
      outcome_ = allocated.error();
      return;
    }
    device_ = std::move(allocated).value();
    memory_.set_device_memory(device_);
  }

  MadeNetwork make_where_asked(std::vector<net::PeerSocket> sockets) {
    MadeNetwork made = make(join_, std::move(sockets), store_);
    if (!made.ok()) return made;
    settle(*made.value());
    const auto agreed = check_outcomes(store_, request_.key_prefix + "/device_slots", request_.rank,
                                       request_.rank_count, outcome_, request_.deadline_ns, join_.names);
    if (agreed.ok()) {
      tell_place();
      return made;
    }
    in_context([&] { made.value().reset(); });
    return agreed.error();
  }

  MadeNetwork make_where_possible(std::vector<net::PeerSocket> sockets) {
    RONDO_TRY_ASSIGN(const bool anyone, anyone_has_device_memory());
    if (anyone) {
      RONDO_TRY_ASSIGN(auto tried, try_with_device_memory());
      if (tried != nullptr) return tried;
    }
    net::JoinRequest join = join_;
    if (anyone) join.key_prefix += "/host_slots";
    MadeNetwork made = make(join, std::move(sockets), store_);
    if (!made.ok()) return made;
    settle(*made.value());
    tell_place();
    return made;
  }

 private:
  void in_context(const std::function<void()> &work) const { device_ != nullptr ? device_->run(work) : work(); }

  MadeNetwork make(net::JoinRequest join, std::vector<net::PeerSocket> sockets, Store &store) {
    join.rdma_memory = device_.get();
    std::optional<MadeNetwork> made;
    in_context([&] { made = request_.network->make(memory_.links(), join, std::move(sockets), store); });
    return std::move(*made);
  }

  /// Stores the final outcome, after the network has registered the memory.
  void settle(const net::Network &network) {
    if (outcome_.ok()) outcome_ = network.takes_device_memory();
    if (!outcome_.ok()) memory_.set_device_memory(nullptr);
  }

  Result<bool> anyone_has_device_memory() {
    if (!request_.network->reaches_devices) return false;
    const auto own = static_cast<uint8_t>(device_ != nullptr ? 1 : 0);
    RONDO_TRY_ASSIGN(const auto parts, store_.gather(request_.key_prefix + "/device_memory", request_.rank,
                                                     request_.rank_count, std::as_bytes(std::span(&own, 1)),
                                                     request_.deadline_ns));
    RONDO_TRY_ASSIGN(const auto all, structs_of<uint8_t>(parts));
    return std::ranges::find(all, uint8_t{1}) != all.end();
  }

  /// Makes the network with device slots. If some rank could not make the network, returns null, and this rank has no
  /// device slots any more.
  MadeNetwork try_with_device_memory() {
    assert(!request_.network->needs_sockets);  // the first network would have used the sockets up
    net::JoinRequest join = join_;
    const uint64_t begun_ns = now_ns();
    const uint64_t half_ns = (request_.deadline_ns - std::min(begun_ns, request_.deadline_ns)) / 2;
    join.deadline_ns = begun_ns + std::min(half_ns, trial_max_ns);
    TrialStore store(store_, request_.key_prefix + "/device_slots/given_up");
    MadeNetwork made = make(join, {}, store);
    if (!made.ok()) store.give_up(made.error(), request_.deadline_ns);
    const Result<void> own = made.ok() ? Result<void>() : Result<void>(made.error());
    const auto agreed = check_outcomes(store_, request_.key_prefix + "/device_slots", request_.rank,
                                       request_.rank_count, own, request_.deadline_ns, join_.names);
    if (agreed.ok()) {
      settle(*made.value());
      tell_place();
      return made;
    }
    in_context([&] { made = std::unique_ptr<net::Network>(); });
    RONDO_TRY(store_.check());
    if (now_ns() >= request_.deadline_ns) return agreed.error();
    memory_.set_device_memory(nullptr);
    device_.reset();
    trial_failed_ = true;
    outcome_ = Error{agreed.error().status, "with those in memory of devices, " + agreed.error().message};
    return std::unique_ptr<net::Network>();
  }

  void tell_place() const {
    if (memory_.links().empty()) return;
    log::write(trial_failed_ ? log::Level::warning : log::Level::info,
               {log::Subsystem::transport, request_.rank},
               outcome_.ok() ? "slots of links to other hosts are in memory of the device"
                             : "slots of links to other hosts are in memory of the host: " + outcome_.error().message);
  }

  const GroupRequest &request_;
  const net::JoinRequest &join_;
  net::NearMemory &memory_;
  Store &store_;
  std::shared_ptr<const RdmaMemory> device_;  ///< null if there is none
  Result<void> outcome_;                      ///< whether slots are in device memory, or why not
  bool trial_failed_ = false;                 ///< true if a network with device slots could not be made
};

}  // namespace

MadeNetwork make_network(const GroupRequest &request, const net::JoinRequest &join,
                         std::vector<net::PeerSocket> sockets, net::NearMemory &memory, Store &store) {
  if (!request.on_device() || request.settings.device_slots == DeviceSlots::off)
    return request.network->make(memory.links(), join, std::move(sockets), store);
  Maker maker(request, join, memory, store);
  maker.take_device_memory();
  return request.settings.device_slots == DeviceSlots::on ? maker.make_where_asked(std::move(sockets))
                                                 : maker.make_where_possible(std::move(sockets));
}

}  // namespace rondo::hosts
