// SPDX-License-Identifier: Apache-2.0
// One suite over every transport: what Links, Ranks and FlightRecorder promise holds among ranks of one host, and among
// ranks of two hosts, which here are threads of one process with a segment for each "host" and TCP between them. (The
// seeded world, which wraps the transport of one host, is tested by its lives.)
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/proto/simple.h"
#include "tests/catch.h"
#include "transports/net/transport.h"
#include "transports/shm/transport.h"
#include "transports/tcp/connect.h"

using namespace rondo;

namespace {

constexpr uint64_t second_ns = 1'000'000'000;
constexpr uint64_t patience_ns = 60 * second_ns;  // the tests end much earlier where nothing is broken
constexpr uint32_t channel_count = 2;

/// A group whose ranks are on the nodes that `node_of` says; rank by rank, a transport.
class World {
 public:
  explicit World(std::vector<uint32_t> node_of) : node_of_(std::move(node_of)), transports_(node_of_.size()) {
    const auto server = start_store_server({"127.0.0.1", 0}, secret_);
    REQUIRE(server.ok());
    std::vector<Result<void>> outcomes(size());
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < size(); ++rank)
      threads.emplace_back([&, rank] { outcomes[rank] = connect(rank, server.value()->endpoint()); });
    for (std::thread &thread : threads) thread.join();
    for (const Result<void> &outcome : outcomes) REQUIRE((outcome.ok() ? "" : outcome.error().message) == "");
  }

  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(node_of_.size()); }
  [[nodiscard]] uint32_t node_of(uint32_t rank) const { return node_of_[rank]; }
  [[nodiscard]] Links &links(uint32_t rank) { return transports_[rank]->links(); }
  [[nodiscard]] Ranks &ranks(uint32_t rank) { return transports_[rank]->ranks(); }
  [[nodiscard]] FlightRecorder &recorder(uint32_t rank) { return transports_[rank]->recorder(); }
  void leave(uint32_t rank) { transports_[rank].reset(); }

  /// Links move only while their ranks make progress.
  void progress() {
    for (uint32_t rank = 0; rank < size(); ++rank)
      if (links(rank).needs_progress()) static_cast<void>(links(rank).peers().progress());
  }

 private:
  Result<void> connect(uint32_t rank, const Endpoint &endpoint) {
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
    tcp::GroupRequest group{rank,        size(),            node_of_, local_index, secret_,
                            "127.0.0.1", request.host_name, "w",      deadline_ns};
    RONDO_TRY_ASSIGN(transports_[rank], tcp::connect(group, std::move(local), *store));
    return {};
  }

  const std::vector<uint32_t> node_of_;
  const Secret secret_ = random_secret();
  shm::SegmentTable segments_;
  std::vector<std::unique_ptr<Transport>> transports_;
};

/// What may lag: true once it is so.
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

/// Moves `count` slots from `from` to `to`, more than there are, so that credit comes back too.
void move_slots(World &world, uint32_t channel, uint32_t from, uint32_t to, uint64_t count) {
  SimpleSender sender(world.links(from).outgoing(channel, to));
  SimpleReceiver receiver(world.links(to).incoming(channel, from));
  const uint64_t deadline_ns = now_ns() + patience_ns;
  uint64_t posted = 0, received = 0, wrong = 0;
  while (received < count && now_ns() < deadline_ns) {
    world.progress();
    if (posted < count && sender.can_send()) {
      const uint64_t value = 1000 * from + 100 * to + 10 * channel + posted;
      std::memcpy(sender.payload(), &value, sizeof value);
      SlotHeader header;
      header.signature = 5;
      header.bytes = sizeof value;
      sender.post(header, true);
      world.links(from).peers().wake(to);
      ++posted;
    }
    if (receiver.can_receive()) {
      uint64_t value = 0;
      std::memcpy(&value, receiver.payload(), sizeof value);
      wrong += value != 1000 * from + 100 * to + 10 * channel + received || receiver.header().bytes != sizeof value;
      receiver.release(true);
      world.links(to).peers().wake(from);
      ++received;
    }
  }
  CAPTURE(channel, from, to);
  CHECK(received == count);
  CHECK(wrong == 0);
}

const std::vector<std::vector<uint32_t>> layouts{{0, 0, 0}, {0, 1, 0}};

}  // namespace

TEST_CASE("transports: every link moves slots in order, and gives them back") {
  for (const auto &layout : layouts) {
    World world(layout);
    for (uint32_t from = 0; from < world.size(); ++from)
      for (uint32_t to = 0; to < world.size(); ++to)
        for (uint32_t channel = 0; channel < channel_count; ++channel) move_slots(world, channel, from, to, 11);
  }
}

TEST_CASE("transports: all ranks see the same geometry, and nobody is exported what it cannot read") {
  for (const auto &layout : layouts) {
    World world(layout);
    const bool one_node = std::count(layout.begin(), layout.end(), layout[0]) == std::ptrdiff_t(layout.size());
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
  for (const auto &layout : layouts) {
    World world(layout);
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
    world.ranks(actor).fail(3);  // ends, but is not complete
    for (uint32_t rank = 0; rank < world.size(); ++rank) CHECK(world.ranks(rank).completed_operation(actor) == 2);
  }
}

TEST_CASE("transports: the first failure reaches every rank, and stays") {
  for (const auto &layout : layouts) {
    World world(layout);
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
  for (const auto &layout : layouts) {
    World world(layout);
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

TEST_CASE("transports: one rank of those that share a recording claims it, and all see it written") {
  for (const auto &layout : layouts) {
    World world(layout);
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
      world.recorder(sharing[0]).end_dump(false);  // its writer has died, say
      CHECK(claims() == 1);
      CHECK_FALSE(world.recorder(sharing[0]).recording()->dumped());
      world.recorder(sharing[0]).end_dump(true);
      for (const uint32_t rank : sharing) CHECK(world.recorder(rank).recording()->dumped());
      CHECK(claims() == 0);
    }
  }
}
