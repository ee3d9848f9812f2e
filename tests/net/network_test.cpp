// SPDX-License-Identifier: Apache-2.0
// One suite over every network: two ends, each with its links served by Progress and driven through the FIFOs' own ends.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string_view>

#include "tests/catch.h"
#include "tests/net/soft_network.h"
#include "transports/net/progress.h"
#include "transports/tcp/network.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

constexpr uint32_t channel_count = 2;
constexpr uint64_t rounds_max = 200'000;

uint64_t seed_from_environment() {
  const char *text = std::getenv("RONDO_SEED");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : std::random_device{}();
}

uint64_t seed_count() {
  const char *text = std::getenv("RONDO_NETWORK_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 0) : 1'000;
}

ConnectionGeometry small_geometry() {
  ConnectionGeometry geometry;
  geometry.slot_count = 4;
  geometry.slot_bytes = 1024;
  geometry.ll_slot_bytes = 64;
  return geometry;
}

struct Memory {
  std::unique_ptr<std::byte, decltype(&std::free)> bytes{nullptr, &std::free};
  std::vector<net::NearLink> links;

  explicit Memory(uint32_t peer) {
    const ConnectionGeometry geometry = small_geometry();
    const size_t stride = (geometry.bytes() + 4095) / 4096 * 4096;
    bytes.reset(static_cast<std::byte *>(std::aligned_alloc(4096, 2 * channel_count * stride)));
    std::memset(bytes.get(), 0, 2 * channel_count * stride);
    std::byte *next = bytes.get();
    for (uint32_t channel = 0; channel < channel_count; ++channel, next += 2 * stride)
      links.push_back({peer, channel, {next, geometry}, {next + stride, geometry}});
  }
};

/// Byte `at` of slot `counter` of a link in a direction.
std::byte content(uint32_t from, uint32_t link, uint64_t counter, size_t at) {
  return static_cast<std::byte>(from * 101 + link * 53 + counter * 7 + at * 3);
}
uint32_t bytes_of_slot(uint64_t counter) {
  return counter % 5 == 4 ? 0 : 1 + static_cast<uint32_t>(counter * 397 % 1024);
}
uint32_t signature_of(uint32_t from, uint64_t counter) { return from * 1'000'003 + static_cast<uint32_t>(counter); }

/// One rank: what an interpreter does at its ends of the links, and Progress.
struct Side {
  uint32_t number;
  Memory memory;
  std::vector<SimpleSender> senders;
  std::vector<SimpleReceiver> receivers;
  std::vector<uint64_t> posted = std::vector<uint64_t>(channel_count);
  std::vector<uint64_t> received = std::vector<uint64_t>(channel_count);
  std::unique_ptr<net::Progress> progress;
  bool wrong = false;

  explicit Side(uint32_t which) : number(which), memory(1 - which) {
    for (const net::NearLink &link : memory.links) {
      senders.emplace_back(link.outgoing);
      receivers.emplace_back(link.incoming);
    }
  }

  bool post(uint32_t link, uint64_t limit) {
    if (posted[link] == limit || !senders[link].can_send()) return false;
    SlotHeader header;
    header.signature = signature_of(number, posted[link]);
    header.bytes = bytes_of_slot(posted[link]);
    for (size_t at = 0; at < header.bytes; ++at)
      senders[link].payload()[at] = content(number, link, posted[link], at);
    senders[link].post(header, true);
    ++posted[link];
    return true;
  }

  bool receive(uint32_t link) {
    SimpleReceiver &receiver = receivers[link];
    if (!receiver.can_receive()) return false;
    const uint64_t counter = received[link]++;
    const SlotHeader &header = receiver.header();
    wrong |= header.signature != signature_of(1 - number, counter) || header.bytes != bytes_of_slot(counter) ||
             static_cast<PayloadKind>(header.kind) != PayloadKind::in_slot;
    for (size_t at = 0; !wrong && at < header.bytes; ++at)
      wrong |= receiver.payload()[at] != content(1 - number, link, counter, at);
    receiver.release(true);
    return true;
  }
};

/// Two ends of a connection over loopback.
std::array<FileDescriptor, 2> connected_sockets() {
  FileDescriptor listener(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto *const plain = reinterpret_cast<sockaddr *>(&address);
  REQUIRE(::bind(listener.get(), plain, bytes) == 0);
  REQUIRE(::listen(listener.get(), 1) == 0);
  REQUIRE(::getsockname(listener.get(), plain, &bytes) == 0);
  FileDescriptor connector(::socket(AF_INET, SOCK_STREAM, 0));
  REQUIRE(::connect(connector.get(), plain, bytes) == 0);
  FileDescriptor acceptor(::accept(listener.get(), nullptr, nullptr));
  REQUIRE(acceptor.valid());
  return {std::move(connector), std::move(acceptor)};
}

struct Pair {
  Side sides[2] = {Side(0), Side(1)};
  std::unique_ptr<Wire> wire;

  static void connect_soft(Pair &pair, const WirePlan &plan) {
    pair.wire = std::make_unique<Wire>(plan, std::array{pair.sides[0].memory.links, pair.sides[1].memory.links});
    for (Side &side : pair.sides)
      side.progress = std::make_unique<net::Progress>(side.memory.links, pair.wire->end(side.number));
  }

  static void connect_tcp(Pair &pair) {
    auto sockets = connected_sockets();
    for (Side &side : pair.sides) {
      std::vector<tcp::PeerSocket> of_side;
      of_side.push_back({1 - side.number, std::move(sockets[side.number]), "the other side"});
      auto network = tcp::make_network(side.memory.links, std::move(of_side));
      REQUIRE(network.ok());
      side.progress = std::make_unique<net::Progress>(side.memory.links, std::move(network).value());
    }
  }
};

enum class Outcome { right, wrong, stuck };

/// Both sides post `slots` slots on each link and receive as many, in an order from the seed.
Outcome exchange(Pair &pair, uint64_t slots, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (uint64_t round = 0; round < rounds_max; ++round) {
    bool all = true;
    for (Side &side : pair.sides) {
      for (uint32_t link = 0; link < channel_count; ++link) {
        if (random() % 2 == 0) side.post(link, slots);
        if (random() % 2 == 0) side.receive(link);
        all &= side.posted[link] == slots && side.received[link] == slots;
      }
      if (random() % 3 != 0) side.progress->step();
      if (side.wrong) return Outcome::wrong;
    }
    if (all) return Outcome::right;
  }
  return Outcome::stuck;
}

using Connect = std::function<void(Pair &)>;
struct Kind {
  const char *name;
  Connect connect;
};

const Kind kinds[] = {
    {"tcp", [](Pair &pair) { Pair::connect_tcp(pair); }},
    {"software", [](Pair &pair) { Pair::connect_soft(pair, {seed_from_environment()}); }},
};

}  // namespace

TEST_CASE("network: both directions saturated, every slot comes once, whole and in order", "[net]") {
  for (const Kind &kind : kinds) {
    INFO(kind.name);
    Pair pair;
    kind.connect(pair);
    CHECK(exchange(pair, 2'000, 7) == Outcome::right);
  }
}

TEST_CASE("network: a receiver that does not consume holds the sender at slot_count slots, and nothing is lost",
          "[net]") {
  for (const Kind &kind : kinds) {
    INFO(kind.name);
    Pair pair;
    kind.connect(pair);
    for (int round = 0; round < 500; ++round) {
      pair.sides[0].post(0, 1'000);
      for (Side &side : pair.sides) side.progress->step();
    }
    CHECK(pair.sides[0].posted[0] == small_geometry().slot_count);
    CHECK(exchange(pair, 300, 11) == Outcome::right);
  }
}

TEST_CASE("network: a rank that has flushed and never calls again does not strand its peer", "[net]") {
  for (const Kind &kind : kinds) {
    INFO(kind.name);
    Pair pair;
    kind.connect(pair);
    Side &sender = pair.sides[0];
    Side &receiver = pair.sides[1];
    const uint64_t slots = small_geometry().slot_count;
    while (sender.post(0, slots)) {
    }
    for (uint64_t round = 0; round < rounds_max && !sender.progress->flushed(); ++round) {
      sender.progress->step();
      // In software no kernel carries on what was handed over.
      if (std::string_view(kind.name) == "software") receiver.progress->step();
    }
    REQUIRE(sender.progress->flushed());
    for (uint64_t round = 0; round < rounds_max && receiver.received[0] < slots; ++round) {
      receiver.progress->step();
      receiver.receive(0);
    }
    CHECK(receiver.received[0] == slots);
    CHECK_FALSE(receiver.wrong);
  }
}

TEST_CASE("network: the loss of a peer is told once, and what had come before it is whole", "[net]") {
  Pair pair;
  Pair::connect_tcp(pair);
  Side &survivor = pair.sides[1];
  while (pair.sides[0].post(0, 3)) {
  }
  for (uint64_t round = 0; round < rounds_max && !pair.sides[0].progress->flushed(); ++round)
    pair.sides[0].progress->step();
  pair.sides[0].progress.reset();
  for (uint64_t round = 0; round < rounds_max && survivor.progress->lost().empty(); ++round) survivor.progress->step();
  REQUIRE(survivor.progress->lost() == std::vector<uint32_t>{0});
  for (int round = 0; round < 100; ++round) survivor.progress->step();
  CHECK(survivor.progress->lost().size() == 1);
  CHECK(survivor.progress->why_lost(0).status == RONDO_ERROR_REMOTE);
  while (survivor.receive(0)) {
  }
  CHECK(survivor.received[0] == 3);
  CHECK_FALSE(survivor.wrong);
}

TEST_CASE("tcp: bytes that are no frame end the connection and are written nowhere", "[net]") {
  // counter out of order; more bytes than a slot; a channel that is none; a kind that is none; credit that goes back
  struct Frame {
    uint16_t kind, channel;
    uint32_t signature, bytes, reserved;
    uint64_t counter, consumed;
  };
  static_assert(sizeof(Frame) == 32);
  const Frame bad[] = {{0x5253, 0, 1, 8, 0, 5, 0},
                       {0x5253, 0, 1, 4096, 0, 0, 0},
                       {0x5253, 9, 1, 8, 0, 0, 0},
                       {0x1234, 0, 1, 8, 0, 0, 0}};
  for (const Frame &frame : bad) {
    auto [hostile, own] = connected_sockets();
    Side side(0);
    std::vector<tcp::PeerSocket> sockets;
    sockets.push_back({1, std::move(own), "a hostile peer"});
    auto network = tcp::make_network(side.memory.links, std::move(sockets));
    REQUIRE(network.ok());
    net::Progress progress(side.memory.links, std::move(network).value());
    REQUIRE(::send(hostile.get(), &frame, sizeof frame, 0) == sizeof frame);
    REQUIRE(::send(hostile.get(), "12345678", 8, 0) == 8);
    for (uint64_t round = 0; round < rounds_max && progress.lost().empty(); ++round) progress.step();
    REQUIRE(progress.lost().size() == 1);
    CHECK(progress.why_lost(1).message.find("no frame") != std::string::npos);
    CHECK_FALSE(side.receivers[0].can_receive());
  }
}

TEST_CASE("network in software: pieces in any order, late credits, any interleaving: no wrong slot, no deadlock",
          "[net]") {
  const uint64_t first = seed_from_environment();
  for (uint64_t seed = first; seed < first + seed_count(); ++seed) {
    CAPTURE(seed);
    Pair pair;
    Pair::connect_soft(pair, {seed});
    REQUIRE(exchange(pair, 40, seed + 1) == Outcome::right);
  }
}

TEST_CASE("network in software: each defect of a network is caught", "[net]") {
  const uint64_t seed = 20'261'122;
  const auto outcome_with = [&](Defect defect) {
    for (uint64_t offset = 0; offset < 50; ++offset) {
      Pair pair;
      Pair::connect_soft(pair, {seed + offset, defect});
      const Outcome outcome = exchange(pair, 200, seed + offset);
      if (outcome != Outcome::right) return outcome;
    }
    return Outcome::right;
  };
  CHECK(outcome_with(Defect::none) == Outcome::right);
  CHECK(outcome_with(Defect::early_arrival) == Outcome::wrong);
  CHECK(outcome_with(Defect::early_credit) != Outcome::right);
  CHECK(outcome_with(Defect::lost_credit) == Outcome::stuck);
}

TEST_CASE("network in software: a cut is told on both sides; one that is deaf to it is caught", "[net]") {
  for (const Defect defect : {Defect::none, Defect::deaf_to_loss}) {
    Pair pair;
    WirePlan plan{3, defect};
    plan.lost_after_rounds = 200;
    Pair::connect_soft(pair, plan);
    CHECK(exchange(pair, 100'000, 5) == Outcome::stuck);
    const size_t expected = defect == Defect::none ? 1 : 0;
    CHECK(pair.sides[0].progress->lost().size() == expected);
    CHECK(pair.sides[1].progress->lost().size() == expected);
  }
}
