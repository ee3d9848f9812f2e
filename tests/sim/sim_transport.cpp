// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/sim_transport.h"

#include <cstring>

namespace rondo::sim {
namespace {

constexpr uint32_t always = 100;
constexpr uint32_t often = 30;  // percent of calls at which others may run
constexpr uint32_t seldom = 4;

class SimPeers final : public PeerAccess {
 public:
  SimPeers(PeerAccess &real, SimHost &host, uint32_t rank) : real_(real), host_(host), rank_(rank) {}

  const std::byte *import_payload(uint32_t peer, const SlotHeader &header, std::byte *scratch) override {
    // The memory of a process ends with it, before others notice the end.
    if (host_.scheduler.killed(peer)) return nullptr;
    if (static_cast<PayloadKind>(header.kind) == PayloadKind::process) {  // reading may be forbidden on this machine
      std::memcpy(scratch, reinterpret_cast<const void *>(header.address), header.bytes);
      return scratch;
    }
    return real_.import_payload(peer, header, scratch);
  }
  void wake(uint32_t peer) override {
    host_.point(rank_, seldom);
    if (host_.wire == nullptr) real_.wake(peer);  // otherwise the arrival wakes it
  }
  uint32_t prepare_sleep() override {
    const uint32_t ticket = real_.prepare_sleep();
    host_.point(rank_, often);
    return ticket;
  }
  void sleep(uint32_t ticket, uint64_t timeout_ns) override {
    host_.point(rank_, 0);
    real_.sleep(ticket, timeout_ns);
  }
  void cancel_sleep() override { real_.cancel_sleep(); }
  bool progress() override { return real_.progress(); }

 private:
  PeerAccess &real_;
  SimHost &host_;
  uint32_t rank_;
};

class SimLinks final : public Links {
 public:
  SimLinks(Links &real, SimHost &host, uint32_t rank)
      : real_(real), host_(host), rank_(rank), peers_(real.peers(), host, rank) {}

  ConnectionGeometry geometry() const override { return real_.geometry(); }
  uint32_t channel_count() const override { return real_.channel_count(); }
  ConnectionView outgoing(uint32_t channel, uint32_t peer) const override {
    const ConnectionView shared = real_.outgoing(channel, peer);
    return host_.wire == nullptr || peer == rank_ ? shared : host_.wire->sender_end(channel, rank_, peer, shared);
  }
  ConnectionView incoming(uint32_t channel, uint32_t peer) const override { return real_.incoming(channel, peer); }
  ExchangeView exchange() const override {
    const ExchangeView shared = real_.exchange();
    if (host_.wire == nullptr || shared.geometry.rank_count == 0) return shared;
    return host_.wire->exchange_end(rank_, shared.geometry);
  }
  uint32_t readable_kinds(uint32_t) const override { return host_.plan.readable_kinds; }
  PeerAccess &peers() override { return peers_; }
  bool needs_progress() const override { return real_.needs_progress(); }
  NetworkMemory network_memory() const override { return real_.network_memory(); }

  void set_running(bool running) override {
    real_.set_running(running);
    host_.point(rank_, often);
  }
  void wait_for_readers() const override {
    if ((host_.plan.readable_kinds & kind_bit(PayloadKind::address)) != 0) real_.wait_for_readers();
  }
  uint64_t shared_bytes() const override { return real_.shared_bytes(); }
  Result<uint64_t> used_bytes() const override { return real_.used_bytes(); }

 private:
  Links &real_;
  SimHost &host_;
  uint32_t rank_;
  SimPeers peers_;
};

class SimRanks final : public Ranks {
 public:
  SimRanks(Ranks &real, SimHost &host, uint32_t rank) : real_(real), host_(host), rank_(rank) {}

  void enter(uint64_t operation, const OperationInfo &what) override {
    host_.point(rank_, often);
    host_.entered(rank_, operation);
    if (host_.wire != nullptr) host_.wire->enter(rank_, what);
    real_.enter(operation, what);
    if (host_.plan.defect == Defect::early_completion) real_.complete(operation, {});
    host_.point(rank_, often);
  }
  void complete(uint64_t operation, const OperationCost &cost) override {
    host_.point(rank_, often);
    host_.completed(rank_, operation);
    real_.complete(operation, cost);
    host_.point(rank_, often);
  }
  void fail(uint64_t operation) override { real_.fail(operation); }
  void set_state(RankState state) override {
    host_.point(rank_, often);
    host_.state_changed(rank_, state);
    real_.set_state(state);
    host_.point(rank_, often);
  }
  std::optional<OperationInfo> entered(uint32_t peer, uint64_t operation) const override {
    host_.point(rank_, seldom);
    if (host_.plan.defect == Defect::hidden_disagreement) return std::nullopt;
    return real_.entered(peer, operation);
  }
  uint64_t latest_operation(uint32_t peer) const override { return real_.latest_operation(peer); }
  uint64_t completed_operation(uint32_t peer) const override {
    host_.point(rank_, seldom);
    return real_.completed_operation(peer);
  }
  RankState state(uint32_t peer) const override {
    host_.point(rank_, seldom);
    return real_.state(peer);
  }

  void raise(const Error &error) override {
    host_.point(rank_, often);
    if (!real_.failed()) host_.raised(rank_, error);
    real_.raise(error);
    noticed_ = true;
    host_.point(rank_, often);
  }
  bool failed() const override {
    host_.point(rank_, always);  // a spin loop calls this at times
    if (host_.plan.defect == Defect::lost_failure && !noticed_) return false;
    return real_.failed();
  }
  Error failure() const override { return real_.failure(); }
  std::vector<uint32_t> find_dead() const override {
    host_.point(rank_, seldom);
    std::vector<uint32_t> dead;
    if (host_.plan.defect == Defect::deaf_to_death) return dead;
    for (uint32_t peer = 0; peer < host_.plan.rank_count; ++peer)
      if (peer != rank_ && host_.died_ns[peer] != never_ns &&
          host_.scheduler.now_ns() >= host_.died_ns[peer] + host_.plan.death_notice_ns)
        dead.push_back(peer);
    return dead;
  }
  std::vector<int> process_handles() const override { return real_.process_handles(); }
  std::string describe_rank(uint32_t peer) const override { return real_.describe_rank(peer); }

 private:
  Ranks &real_;
  SimHost &host_;
  uint32_t rank_;
  bool noticed_ = false;
};

class SimTransport final : public Transport {
 public:
  SimTransport(std::unique_ptr<Transport> real, SimHost &host, uint32_t rank)
      : real_(std::move(real)),
        host_(host),
        rank_(rank),
        links_(real_->links(), host, rank),
        ranks_(real_->ranks(), host, rank) {
    host_.transports[rank_] = real_.get();
  }
  ~SimTransport() override {
    host_.transports[rank_] = nullptr;
    host_.state_changed(rank_, RankState::left);
  }

  Links &links() override { return links_; }
  Ranks &ranks() override { return ranks_; }
  FlightRecorder &recorder() override { return real_->recorder(); }

 private:
  std::unique_ptr<Transport> real_;
  SimHost &host_;
  uint32_t rank_;
  SimLinks links_;
  SimRanks ranks_;
};

}  // namespace

void SimHost::point(uint32_t rank, uint32_t percent) {
  if (!scheduler.in_fiber()) return;
  if (wire != nullptr) wire->carry(rank);
  if (random.chance(percent)) scheduler.pause(0);
}

std::unique_ptr<Transport> make_sim_transport(std::unique_ptr<Transport> real, SimHost &host, uint32_t rank) {
  return std::make_unique<SimTransport>(std::move(real), host, rank);
}

}  // namespace rondo::sim
