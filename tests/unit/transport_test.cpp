// SPDX-License-Identifier: Apache-2.0
// One suite tests every transport: in each of the worlds of tests/unit/transport_world.h, the promises of Links, Ranks
// and FlightRecorder must hold.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "src/base/clock.h"
#include "src/proto/simple.h"
#include "tests/catch.h"
#include "tests/unit/transport_world.h"

using namespace rondo;
using namespace rondo_test;

namespace {

/// Waits until `is_so()`, since a state may lag. Returns false if it does not become true.
bool eventually(const std::function<bool()> &is_so) {
  const uint64_t deadline_ns = now_ns() + patience_ns;
  while (!is_so()) {
    if (now_ns() >= deadline_ns) return false;
    sleep_for_ns(1'000'000);
  }
  return true;
}

OperationInfo operation_info(uint64_t number) {
  OperationInfo info;
  info.signature = {RONDO_ALL_REDUCE, RONDO_FLOAT32, RONDO_SUM, 0, 100 + number, 0};
  info.choice.algorithm = RONDO_ALGORITHM_RING;
  info.choice.protocol = RONDO_PROTOCOL_SIMPLE;
  info.choice.channels = 1;
  info.choice.chunk_bytes = 4096;
  info.history = static_cast<uint32_t>(7 * number);
  return info;
}

Error failure_of(uint32_t rank, const std::string &message) {
  Error error{RONDO_ERROR_TIMEOUT, message};
  error.rank = static_cast<int32_t>(rank);
  error.operation = 3;
  return error;
}

/// The slots of one connection. As many slots are posted and received as possible, and each received slot is checked.
class Flow {
 public:
  Flow(World &world, uint32_t channel, uint32_t from, uint32_t to)
      : world_(world),
        channel_(channel),
        from_(from),
        to_(to),
        sender_(world.links(from).outgoing(channel, to), world.first_counter()),
        receiver_(world.links(to).incoming(channel, from), world.first_counter()) {}

  bool post() {
    if (!sender_.can_send()) return false;
    const uint64_t value = content(posted_++);
    std::memcpy(sender_.payload(), &value, sizeof value);
    SlotHeader header;
    header.signature = 5;
    header.bytes = sizeof value;
    sender_.post(header, true);
    world_.links(from_).peers().wake(to_);
    return true;
  }
  /// Receives a slot. `wakes` says whether this wakes the sender, which must then be alive.
  bool receive(bool wakes = true) {
    if (!receiver_.can_receive()) return false;
    uint64_t value = 0;
    std::memcpy(&value, receiver_.payload(), sizeof value);
    wrong_ += value != content(received_++) || receiver_.header().bytes != sizeof value;
    receiver_.release(true);
    if (wakes) world_.links(to_).peers().wake(from_);
    return true;
  }
  /// Returns the head that the receiver has published.
  [[nodiscard]] uint64_t head() const { return world_.links(to_).incoming(channel_, from_).simple_head(); }
  [[nodiscard]] uint64_t posted() const { return posted_; }
  [[nodiscard]] uint64_t received() const { return received_; }
  void check_received(uint64_t count) const {
    CAPTURE(channel_, from_, to_);
    CHECK(received_ == count);
    CHECK(wrong_ == 0);
  }

 private:
  [[nodiscard]] uint64_t content(uint64_t counter) const {
    return 1'000'000 * from_ + 100'000 * to_ + 10'000 * channel_ + counter;
  }

  World &world_;
  uint32_t channel_, from_, to_;
  SimpleSender sender_;
  SimpleReceiver receiver_;
  uint64_t posted_ = 0, received_ = 0, wrong_ = 0;
};

/// Moves `count` slots over each of `flows` at once. `count` is more than the slots that exist, so credit must return.
void move_slots(World &world, std::vector<Flow> flows, uint64_t count) {
  const uint64_t deadline_ns = now_ns() + patience_ns;
  const auto done = [&] {
    return std::ranges::all_of(flows, [&](const Flow &flow) { return flow.received() == count; });
  };
  while (!done() && now_ns() < deadline_ns) {
    for (Flow &flow : flows) {
      while (flow.posted() < count && flow.post()) {
      }
    }
    world.progress();
    for (Flow &flow : flows) flow.receive();
  }
  for (const Flow &flow : flows) flow.check_received(count);
}

std::vector<Flow> all_flows(World &world) {
  std::vector<Flow> flows;
  for (uint32_t from = 0; from < world.size(); ++from)
    for (uint32_t to = 0; to < world.size(); ++to)
      for (uint32_t channel = 0; channel < channel_count; ++channel) flows.emplace_back(world, channel, from, to);
  return flows;
}

}  // namespace

TEST_CASE("transports: every link moves slots in order, and gives them back") {
  for (const WorldKind &kind : world_kinds()) {
    INFO(kind.name);
    World world(kind);
    for (uint32_t from = 0; from < world.size(); ++from)
      for (uint32_t to = 0; to < world.size(); ++to)
        for (uint32_t channel = 0; channel < channel_count; ++channel)
          move_slots(world, {{world, channel, from, to}}, 11);
  }
}

TEST_CASE("transports: links that are full in all directions at once move every slot, once and in order") {
  for (const WorldKind &kind : world_kinds()) {
    INFO(kind.name);
    World world(kind);
    move_slots(world, all_flows(world), 200);
  }
}

TEST_CASE("transports: counters of every link pass the end of 32 bits") {
  for (const WorldKind &kind : world_kinds()) {
    INFO(kind.name);
    World world(kind, {}, Counters::before_wrap);
    const std::vector<Flow> flows = all_flows(world);
    for (const Flow &flow : flows) REQUIRE(flow.head() == world.first_counter());
    move_slots(world, flows, 11);
    for (const Flow &flow : flows) CHECK(flow.head() == world.first_counter() + 11);
  }
}

TEST_CASE("transports: a rank that has returned and makes no other call holds up none of its peers") {
  for (const WorldKind &kind : world_kinds()) {
    INFO(kind.name);
    World world(kind);
    constexpr uint32_t actor = 1;
    std::vector<Flow> sent, received;  // by the actor, and by its peers to the actor
    for (const uint32_t peer : {0u, 2u})
      for (uint32_t channel = 0; channel < channel_count; ++channel) {
        sent.emplace_back(world, channel, actor, peer);
        received.emplace_back(world, channel, peer, actor);
      }
    for (Flow &flow : received)
      while (flow.post()) {
      }
    world.act(actor, [&] {
      world.ranks(actor).enter(1, operation_info(1));
      world.links(actor).set_running(true);
    });
    CHECK(eventually([&] {
      world.progress();
      world.act(actor, [&] {
        for (Flow &flow : received) flow.receive();
      });
      return std::ranges::all_of(received, [](const Flow &flow) { return flow.received() == flow.posted(); });
    }));
    world.act(actor, [&] {
      for (Flow &flow : sent)
        while (flow.post()) {
        }
      world.links(actor).set_running(false);
      world.ranks(actor).complete(1, {});
    });
    CHECK(eventually([&] {  // the peers receive its slots, and have room to send again
      world.progress(actor);
      for (Flow &flow : sent) flow.receive();
      return std::ranges::all_of(sent, [](const Flow &flow) { return flow.received() == flow.posted(); });
    }));
    for (const Flow &flow : sent) flow.check_received(world.links(0).geometry().slot_count);
    for (Flow &flow : received)
      CHECK(eventually([&] {
        world.progress(actor);
        return flow.post();
      }));
  }
}

TEST_CASE("transports: what a rank had posted when it left still arrives, whole and once") {
  for (const WorldKind &kind : world_kinds()) {
    INFO(kind.name);
    World world(kind);
    std::vector<Flow> flows;
    for (const uint32_t to : {0u, 2u})
      for (uint32_t channel = 0; channel < channel_count; ++channel) flows.emplace_back(world, channel, 1, to);
    for (Flow &flow : flows)
      while (flow.post()) {
      }
    world.leave(1);
    CHECK(eventually([&] {
      world.progress();
      for (Flow &flow : flows) flow.receive(false);
      return std::ranges::all_of(flows, [](const Flow &flow) { return flow.received() == flow.posted(); });
    }));
    for (const Flow &flow : flows) flow.check_received(world.links(0).geometry().slot_count);
  }
}

TEST_CASE("transports: all ranks see the same geometry, and nobody is exported what it cannot read") {
  for (const WorldKind &kind : world_kinds()) {
    INFO(kind.name);
    World world(kind);
    const bool one_node = std::ranges::count(kind.node_of, kind.node_of[0]) == std::ptrdiff_t(world.size());
    for (uint32_t rank = 0; rank < world.size(); ++rank) {
      Links &links = world.links(rank);
      CHECK(links.geometry() == world.links(0).geometry());
      CHECK(links.channel_count() == channel_count);
      CHECK(links.exchange().geometry.rank_count == (one_node ? world.size() : 0));
      CHECK(links.needs_progress() != one_node);
      CHECK(links.used_bytes().value() <= links.shared_bytes());
      for (uint32_t peer = 0; peer < world.size(); ++peer)
        if (peer != rank) CHECK((links.readable_kinds(peer) != 0) == (world.node_of(peer) == world.node_of(rank)));
    }
  }
}

TEST_CASE("transports: what a rank enters and completes is seen by all, never before") {
  for (const WorldKind &kind : world_kinds()) {
    INFO(kind.name);
    World world(kind);
    constexpr uint32_t actor = 1;
    for (uint32_t rank = 0; rank < world.size(); ++rank) {
      CHECK(eventually([&] { return world.ranks(rank).state(actor) == RankState::alive; }));
      CHECK(world.ranks(rank).latest_operation(actor) == 0);
      CHECK_FALSE(world.ranks(rank).entered(actor, 1).has_value());
    }
    for (uint64_t number = 1; number <= 3; ++number) {
      world.ranks(actor).enter(number, operation_info(number));
      if (number < 3) world.ranks(actor).complete(number, {});
    }
    for (uint32_t rank = 0; rank < world.size(); ++rank) {
      Ranks &ranks = world.ranks(rank);
      CHECK(eventually([&] { return ranks.latest_operation(actor) == 3 && ranks.completed_operation(actor) == 2; }));
      for (uint64_t number = 1; number <= 3; ++number)
        CHECK(eventually([&] { return ranks.entered(actor, number) == operation_info(number); }));
      CHECK_FALSE(ranks.entered(actor, 4).has_value());
      CHECK(ranks.completed_operation(actor) == 2);  // the third has not ended
      for (uint32_t peer = 0; peer < world.size(); ++peer)
        if (peer != actor) CHECK(ranks.latest_operation(peer) == 0);
    }
    world.ranks(actor).fail(3);  // it ends without completion
    for (uint32_t rank = 0; rank < world.size(); ++rank) CHECK(world.ranks(rank).completed_operation(actor) == 2);
  }
}

TEST_CASE("transports: the first failure reaches every rank, and stays") {
  for (const WorldKind &kind : world_kinds()) {
    INFO(kind.name);
    World world(kind);
    for (uint32_t rank = 0; rank < world.size(); ++rank) CHECK_FALSE(world.ranks(rank).failed());
    world.ranks(1).raise(failure_of(1, "the first"));
    for (uint32_t rank = 0; rank < world.size(); ++rank) CHECK(eventually([&] { return world.ranks(rank).failed(); }));
    for (uint32_t rank = 0; rank < world.size(); ++rank) world.ranks(rank).raise(failure_of(rank, "a later one"));
    for (uint32_t rank = 0; rank < world.size(); ++rank) {
      const Error failure = world.ranks(rank).failure();
      CHECK(failure.status == RONDO_ERROR_TIMEOUT);
      CHECK(failure.message == "the first");
      CHECK(failure.rank == 1);
      CHECK(failure.operation == 3);
    }
  }
}

TEST_CASE("transports: a rank that leaves is seen to have left, and is not taken for dead") {
  for (const WorldKind &kind : world_kinds()) {
    INFO(kind.name);
    World world(kind);
    for (uint32_t rank = 0; rank < world.size(); ++rank)
      CHECK(eventually([&] { return world.ranks(rank).state(1) == RankState::alive; }));
    world.leave(1);
    for (const uint32_t rank : {0u, 2u}) {
      CHECK(eventually([&] { return world.ranks(rank).state(1) == RankState::left; }));
      CHECK(world.ranks(rank).state(2 - rank) == RankState::alive);
      CHECK(world.ranks(rank).find_dead().empty());
      CHECK_FALSE(world.ranks(rank).failed());
      CHECK(world.ranks(rank).describe_rank(1).find("rank 1 (host n" + std::to_string(world.node_of(1))) == 0);
    }
  }
}

TEST_CASE("transports: a rank that dies is told once, however often the others ask, and nobody else is") {
  for (const WorldKind &kind : world_kinds()) {
    INFO(kind.name);
    World world(kind, /*mortal=*/1);
    const std::vector<uint32_t> survivors{0, 2};
    for (const uint32_t rank : survivors) {
      CHECK(eventually([&] { return world.ranks(rank).state(1) == RankState::alive; }));
      CHECK(world.ranks(rank).find_dead().empty());
    }
    world.kill(1);
    for (const uint32_t rank : survivors) {
      Ranks &ranks = world.ranks(rank);
      CHECK(eventually([&] {
        world.progress();
        return !ranks.find_dead().empty();
      }));
      for (int again = 0; again < 100; ++again) {
        world.progress();
        REQUIRE(ranks.find_dead() == std::vector<uint32_t>{1});
      }
      CHECK(ranks.state(1) == RankState::alive);  // the state that it reported last
      CHECK(ranks.state(2 - rank) == RankState::alive);
      CHECK_FALSE(ranks.how_dead(1).empty());
    }
  }
}

TEST_CASE("transports: one rank of those that share a recording claims it, and all see it written") {
  for (const WorldKind &kind : world_kinds()) {
    INFO(kind.name);
    World world(kind);
    for (const uint32_t node : {0u, 1u}) {
      std::vector<uint32_t> sharing;
      for (uint32_t rank = 0; rank < world.size(); ++rank)
        if (world.node_of(rank) == node) sharing.push_back(rank);
      if (sharing.empty()) continue;
      const auto claims = [&] {
        return std::count_if(sharing.begin(), sharing.end(),
                             [&](uint32_t rank) { return world.recorder(rank).claim_dump(); });
      };
      CHECK(claims() == 1);
      CHECK(claims() == 0);
      world.recorder(sharing[0]).end_dump(false);  // as if its writer had died
      CHECK(claims() == 1);
      CHECK_FALSE(world.recorder(sharing[0]).recording()->dumped());
      world.recorder(sharing[0]).end_dump(true);
      for (const uint32_t rank : sharing) CHECK(world.recorder(rank).recording()->dumped());
      CHECK(claims() == 0);
    }
  }
}
