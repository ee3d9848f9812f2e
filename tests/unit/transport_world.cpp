// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/transport_world.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "transports/hosts/connect.h"
#include "transports/net/net_transport.h"
#include "transports/shm/shm_transport.h"
#include "transports/tcp/tcp_network.h"

using namespace rondo;

namespace rondo_test {
namespace {

template <Counters counters>
constexpr net::NetworkKind tcp_network{
    NetworkChoice::tcp, "tcp", true, false,
    [](const auto &links, const net::JoinRequest &, std::vector<net::PeerSocket> sockets, Store &) {
      for (const net::NearLink &link : links)
        link.outgoing.simple_head() = link.incoming.simple_head() = static_cast<uint64_t>(counters);
      return tcp::make_network(links, std::move(sockets));
    }};

}  // namespace

const std::vector<WorldKind> &world_kinds() {
  static const std::vector<WorldKind> kinds{{"one host", {0, 0, 0}},
                                            {"two hosts", {0, 1, 0}},
                                            {"seeded", {0, 0, 0}, Seeded::prompt_stores},
                                            {"seeded, late stores", {0, 0, 0}, Seeded::late_stores}};
  return kinds;
}

World::World(const WorldKind &kind, std::optional<uint32_t> mortal, Counters counters)
    : node_of_(kind.node_of), mortal_(mortal), counters_(counters), transports_(kind.node_of.size()) {
  if (mortal_ && kind.seeded == Seeded::no) fork_mortal();  // before any thread exists
  {
    const auto server = start_store_server({"127.0.0.1", 0}, secret_);
    REQUIRE(server.ok());
    connect_all(server.value()->endpoint());
  }
  if (counters_ != Counters::from_zero) begin_counters();
  if (kind.seeded == Seeded::no) return;
  plan_.rank_count = size();
  plan_.readable_kinds = kind_bit(PayloadKind::address);
  scheduler_ = std::make_unique<sim::Scheduler>(7, size(), stacks_);
  host_ = std::make_unique<sim::SimHost>(sim::SimHost{*scheduler_, plan_, sim::Random(8), {}, {}, {}, {}, {}, {}, {}});
  host_->transports.resize(size());
  host_->died_ns.resize(size(), sim::never_ns);
  host_->entered = host_->completed = [](uint32_t, uint64_t) {};
  host_->state_changed = [](uint32_t, RankState) {};
  host_->raised = [](uint32_t, const Error &) {};
  if (kind.seeded == Seeded::late_stores)
    host_->wire = std::make_unique<sim::Wire>(
        *scheduler_, sim::Random(9), size(), sim::Defect::none,
        sim::Wire::Hooks{[this](uint32_t rank) { return host_->transports[rank] != nullptr; },
                         [this](uint32_t rank) { host_->transports[rank]->links().peers().wake(rank); }});
  for (uint32_t rank = 0; rank < size(); ++rank)
    transports_[rank] = sim::make_sim_transport(std::move(transports_[rank]), *host_, rank);
}

World::~World() {
  transports_.clear();  // while the objects to which they report exist
  if (to_child_ >= 0) ::close(to_child_);
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

/// Forks the mortal rank, a child that reads the store's address from a pipe.
void World::fork_mortal() {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t parent = ::getpid();
  child_ = ::fork();
  REQUIRE(child_ >= 0);
  if (child_ > 0) {
    ::close(ends[0]);
    to_child_ = ends[1];
    return;
  }
  ::close(ends[1]);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  uint16_t port = 0;
  if (::getppid() != parent || ::read(ends[0], &port, sizeof port) != sizeof port) ::_exit(1);
  if (!connect(*mortal_, {"127.0.0.1", port}).ok()) ::_exit(1);
  for (;;) ::pause();  // until it is killed, or its parent ends
}

void World::connect_all(const Endpoint &endpoint) {
  if (child_ > 0) REQUIRE(::write(to_child_, &endpoint.port, sizeof endpoint.port) == sizeof endpoint.port);
  std::vector<Result<void>> outcomes(size());
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < size(); ++rank)
    if (child_ < 0 || rank != mortal_)
      threads.emplace_back([&, rank] { outcomes[rank] = connect(rank, endpoint); });
  for (std::thread &thread : threads) thread.join();
  for (const Result<void> &outcome : outcomes) REQUIRE((outcome.ok() ? "" : outcome.error().message) == "");
}

Result<void> World::connect(uint32_t rank, const Endpoint &endpoint) {
  const uint64_t deadline_ns = now_ns() + patience_ns;
  RONDO_TRY_ASSIGN(const auto store, connect_store(endpoint, secret_, deadline_ns));
  const uint32_t node = node_of_[rank];
  std::vector<uint32_t> local_index(size(), net::no_local);
  shm::ConnectRequest request;
  request.rank_count = 0;
  for (uint32_t peer = 0; peer < size(); ++peer)
    if (node_of_[peer] == node) local_index[peer] = request.rank_count++;
  request.rank = local_index[rank];
  request.channel_count = channel_count;
  request.slot_count = 4;
  request.slot_bytes = 4096;
  request.key_prefix = "w/node" + std::to_string(node);
  request.host_name = "n" + std::to_string(node);
  request.deadline_ns = deadline_ns;
  RONDO_TRY_ASSIGN(auto local, shm::connect(request, *store, segments_));
  if (request.rank_count == size()) {
    transports_[rank] = std::move(local);
    return {};
  }
  const Settings settings;
  GroupInfo info(node_of_);
  for (uint32_t peer = 0; peer < size(); ++peer)
    info.infos[peer] = {info.node_of(peer), static_cast<uint64_t>(::getpid()), "n" + std::to_string(node_of_[peer]), {},
                        {{"lo", "127.0.0.1"}}};
  hosts::GroupRequest group{{rank, size(), settings, info, secret_, "w", deadline_ns}};
  for (const uint32_t other : node_of_) group.linked.push_back(other != node);
  group.network = counters_ == Counters::from_zero ? &tcp_network<Counters::from_zero>
                                                   : &tcp_network<Counters::before_wrap>;
  RONDO_TRY_ASSIGN(transports_[rank], hosts::connect(group, std::move(local), *store));
  return {};
}

/// Begins the counters of links in shared memory. Links of a network begin theirs when they are made.
void World::begin_counters() {
  for (uint32_t to = 0; to < size(); ++to)
    for (uint32_t from = 0; from < size(); ++from)
      for (uint32_t channel = 0; channel < channel_count && node_of_[from] == node_of_[to]; ++channel)
        links(to).incoming(channel, from).simple_head() = first_counter();
}

void World::act(uint32_t rank, const std::function<void()> &body) {
  host_ != nullptr ? in_fiber(rank, body) : body();
}

void World::leave(uint32_t rank) {
  if (host_ != nullptr) in_fiber(rank, [&] { ranks(rank).set_state(RankState::left); });
  transports_[rank].reset();
}

void World::kill(uint32_t rank) {
  if (host_ != nullptr) {
    scheduler_->kill(rank);
    host_->died_ns[rank] = scheduler_->now_ns();
    return;
  }
  REQUIRE(::kill(child_, SIGKILL) == 0);
  REQUIRE(::waitpid(child_, nullptr, 0) == child_);
  child_ = -1;
  REQUIRE(rank == mortal_);
}

void World::progress(std::optional<uint32_t> silent) {
  for (uint32_t rank = 0; rank < size(); ++rank) {
    if (transports_[rank] == nullptr || rank == silent) continue;
    if (links(rank).needs_progress()) static_cast<void>(links(rank).peers().progress());
    if (host_ != nullptr && host_->wire != nullptr) in_fiber(rank, [this, rank] { host_->point(rank, 0); });
  }
}

void World::in_fiber(uint32_t rank, const std::function<void()> &body) {
  if (scheduler_->killed(rank)) return;
  scheduler_->spawn(rank, [&] {
    body();
    scheduler_->pause(sim::ms);
  });
  REQUIRE(scheduler_->run(sim::never_ns - 1, UINT64_MAX) == sim::Scheduler::Outcome::over);
}

}  // namespace rondo_test
