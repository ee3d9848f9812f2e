// SPDX-License-Identifier: Apache-2.0
// Slots in device memory may fail to work when the network is made. These tests check in which memory all ranks then
// have their slots. Two ranks are threads that act as two hosts, with networks of the test.
#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "src/base/clock.h"
#include "src/bootstrap/store/forwarding_store.h"
#include "src/bootstrap/store/store.h"
#include "src/memory/segment_table.h"
#include "tests/catch.h"
#include "tests/net/side.h"
#include "tests/seconds.h"
#include "transports/hosts/connect.h"
#include "transports/net/join.h"
#include "transports/net/net_transport.h"
#include "transports/shm/shm_transport.h"

using namespace rondo;
using net_test::TestRdmaMemory;

namespace {

constexpr uint64_t init_ns = 240 * second_ns;  // a trial has half of it

/// A network that carries nothing.
class IdleNetwork final : public net::Network {
 public:
  const char *name() const override { return "idle"; }
  bool put(uint32_t, const net::Message &) override { return true; }
  bool credit(uint32_t, uint64_t) override { return true; }
  uint32_t poll(std::span<net::Event>) override { return 0; }
  bool flushed() const override { return true; }
  void watch(std::vector<pollfd> &) const override {}
  Error why_lost(uint32_t) const override { return {RONDO_ERROR_INTERNAL, "not lost"}; }
  Result<void> takes_device_memory() const override { return {}; }
};

/// The outcome of a rank.
struct Connection {
  std::string error;              ///< empty if the rank has a transport
  bool in_device = false;         ///< whether its link has slots in a device
  int waits = 0;                  ///< number of its waits for keys of the store before the hosts met
  uint64_t first_question_ns = 0;  ///< time of its first query without a wait, or 0
};

/// The store of a rank. It counts the queries.
class CountedStore final : public ForwardingStore {
 public:
  CountedStore(Store &store, Connection &outcome) : ForwardingStore(store), outcome_(outcome) {}
  Result<Bytes> get(std::string_view key, uint64_t deadline_ns) override {
    ++outcome_.waits;
    return ForwardingStore::get(key, deadline_ns);
  }
  Result<std::optional<Bytes>> try_get(std::string_view key) override {
    if (outcome_.first_question_ns == 0) outcome_.first_question_ns = now_ns();
    return ForwardingStore::try_get(key);
  }

 private:
  Connection &outcome_;
};

using Made = Result<std::unique_ptr<net::Network>>;

Made idle() { return std::unique_ptr<net::Network>(new IdleNetwork); }

std::atomic<bool> waited_in_vain = false;

/// Waits as a preflight does for a peer that never answers.
Made wait_for_failure(const net::JoinRequest &request, Store &store) {
  while (now_ns() < request.deadline_ns) {
    RONDO_TRY(store.check());
    sleep_for_ns(1'000'000);
  }
  waited_in_vain = true;
  return Error{RONDO_ERROR_TIMEOUT, "no answer came in time"};
}

/// Makes networks. Rank 1's card cannot read its device, and rank 0 does not notice that.
Made make_where_one_fails(const std::vector<net::NearLink> &, const net::JoinRequest &request,
                          std::vector<net::PeerSocket>, Store &store) {
  if (request.rdma_memory == nullptr) return idle();
  if (request.rank == 0) return wait_for_failure(request, store);
  return Error{RONDO_ERROR_REMOTE, "the card reads nothing there"};
}

/// Does the same as make_where_one_fails(), after more than a second.
Made make_where_one_fails_late(const std::vector<net::NearLink> &links, const net::JoinRequest &request,
                               std::vector<net::PeerSocket> sockets, Store &store) {
  if (request.rank == 1 && request.rdma_memory != nullptr) sleep_for_ns(second_ns + second_ns / 4);
  return make_where_one_fails(links, request, std::move(sockets), store);
}

std::atomic<int> works_done = 0;

/// Makes networks. Rank 1 enters the last exchange only when rank 0, which waits in the exchange, has done other work.
Made make_while_working(const std::vector<net::NearLink> &, const net::JoinRequest &request,
                        std::vector<net::PeerSocket>, Store &store) {
  const uint64_t deadline_ns = now_ns() + init_ns / 6;
  const IdleWork work(store, [] { ++works_done; });
  while (request.rank == 1 && works_done == 0 && now_ns() < deadline_ns) sleep_for_ns(1'000'000);
  RONDO_TRY(store.gather(request.key_prefix + "/last", request.rank, 2, {}, request.deadline_ns));
  if (works_done == 0) return Error{RONDO_ERROR_INTERNAL, "nobody has worked"};
  return idle();
}

Made make_where_none_fails(const std::vector<net::NearLink> &, const net::JoinRequest &, std::vector<net::PeerSocket>,
                           Store &) {
  return idle();
}

/// Fails to make a network, for slots in either memory.
Made make_where_all_fail(const std::vector<net::NearLink> &, const net::JoinRequest &request,
                         std::vector<net::PeerSocket>, Store &) {
  return Error{RONDO_ERROR_REMOTE, "no way, as " + request.key_prefix};
}

/// Connects both ranks with RONDO_NETWORK_DEVICE_SLOTS=auto. `in_devices` says which ranks offer device memory.
std::array<Connection, 2> connect_both(net::NetworkKind::Make make, std::array<bool, 2> in_devices = {true, true}) {
  const net::NetworkKind kind{NetworkChoice::ucx, "idle", false, true, make};
  auto stores = make_local_stores(2);
  const Secret secret = random_secret();
  std::array<SegmentTable, 2> segments;
  std::array<Connection, 2> outcomes;
  const auto life = [&](uint32_t rank) {
    shm::ConnectRequest near;
    near.key_prefix = "world/node" + std::to_string(rank);
    near.deadline_ns = now_ns() + init_ns;
    auto local = shm::connect(near, *stores[rank], segments[rank]);
    if (!local.ok()) {
      outcomes[rank].error = local.error().message;
      return;
    }
    Settings settings;
    settings.device = 0;
    settings.device_slots = DeviceSlots::automatic;
    GroupInfo group(std::array{0u, 1u});
    for (uint32_t each = 0; each < 2; ++each)
      group.infos[each] = {each, 1, each == 0 ? "a" : "b", {}, {{"lo", "127.0.0.1"}}};
    hosts::GroupRequest request{{rank, 2, settings, group, secret, "world", near.deadline_ns}};
    request.linked = {rank != 0, rank != 1};
    request.network = &kind;
    request.allocate_rdma_memory = [&](size_t bytes) -> Result<std::shared_ptr<const RdmaMemory>> {
      if (!in_devices[rank]) return Error{RONDO_ERROR_UNSUPPORTED, "no card reaches it"};
      return std::shared_ptr<const RdmaMemory>(std::make_shared<TestRdmaMemory>(bytes));
    };
    CountedStore store(*stores[rank], outcomes[rank]);
    const auto transport = hosts::connect(request, std::move(local).value(), store);
    if (!transport.ok())
      outcomes[rank].error = transport.error().message;
    else
      outcomes[rank].in_device = transport.value()->links().device_slots(0, 1 - rank) != nullptr;
  };
  std::thread other(life, 1);
  life(0);
  other.join();
  return outcomes;
}

}  // namespace

TEST_CASE("device slots: auto has them where the network can be made with them", "[net]") {
  for (const auto &in_devices : {std::array{true, true}, std::array{false, true}}) {
    const auto outcomes = connect_both(make_where_none_fails, in_devices);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      CHECK(outcomes[rank].error == "");
      CHECK(outcomes[rank].in_device == in_devices[rank]);
    }
  }
}

TEST_CASE("device slots: with auto, where one rank's do not work, all have those of their hosts, soon", "[net]") {
  waited_in_vain = false;
  for (const Connection &each : connect_both(make_where_one_fails)) {
    CHECK(each.error == "");
    CHECK_FALSE(each.in_device);
  }
  CHECK_FALSE(waited_in_vain);  // rank 0 learned of the failure before the trial's deadline
}

TEST_CASE("device slots: a rank that tries them does not wait for the word that another one has given up", "[net]") {
  const uint64_t begun_ns = now_ns();
  const auto outcomes = connect_both(make_where_one_fails_late);
  for (const Connection &each : outcomes) {
    CHECK(each.error == "");
    CHECK_FALSE(each.in_device);
    CHECK(each.waits == 0);
  }
  REQUIRE(outcomes[0].first_question_ns != 0);
  CHECK(outcomes[0].first_question_ns - begun_ns >= second_ns / 2);  // in most trials, the end comes before this query
}

TEST_CASE("device slots: a network that is tried works while it waits in the store", "[net]") {
  for (const Connection &each : connect_both(make_while_working)) {
    CHECK(each.error == "");
    CHECK(each.in_device);
  }
}

TEST_CASE("device slots: auto does not make a network twice that fails without them", "[net]") {
  for (const Connection &each : connect_both(make_where_all_fail, {false, false}))
    CHECK(each.error == "no way, as world");
  for (const Connection &each : connect_both(make_where_all_fail, {false, true}))
    CHECK(each.error == "no way, as world/host_slots");
}
