// SPDX-License-Identifier: Apache-2.0
// One suite tests every network. Progress serves the links of two ends, and the test drives the ends' FIFOs.
#include <array>
#include <functional>
#include <string_view>

#include "tests/catch.h"
#include "tests/net/pair.h"
#include "tests/unit/allocation_count.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

using Connect = std::function<void(Pair &)>;
struct Kind {
  const char *name;
  Connect connect;
};

/// Returns whether sent data leaves although its receiver does nothing. Over TCP the kernel sends the data, over verbs
/// the device does. The network in software sends nothing by itself, and in a rendezvous the receiver fetches data.
bool leaves_alone(const Kind &kind) {
  const std::string_view name = kind.name;
  return name.starts_with("tcp") || name == "ucx" || name.starts_with("verbs");
}

const std::vector<Kind> &kinds() {
  static const std::vector<Kind> all = [] {
    std::vector<Kind> made{
        {"tcp", [](Pair &pair) { Pair::connect_tcp(pair, 1); }},
        {"tcp, three sockets", [](Pair &pair) { Pair::connect_tcp(pair, 3); }},
        {"tcp, with tags", [](Pair &pair) { Pair::connect_tcp(pair, 1, Pair::Tags::on); }},
        {"tcp, three sockets with tags", [](Pair &pair) { Pair::connect_tcp(pair, 3, Pair::Tags::on); }},
        {"software", [](Pair &pair) { Pair::connect_soft(pair, {seed_from_environment()}); }},
    };
    if (verbs_is_there())
      made.insert(made.end(), {{"verbs", [](Pair &pair) { Pair::connect_verbs(pair, 1); }},
                               {"verbs, three queue pairs", [](Pair &pair) { Pair::connect_verbs(pair, 3); }},
                               {"verbs, slots of one side in a device",
                                [](Pair &pair) {
                                  pair.sides[0].use_device_memory();
                                  Pair::connect_verbs(pair, 2);
                                }}});
    if (!ucx_is_there()) return made;
    made.push_back({"ucx", [](Pair &pair) { Pair::connect_ucx(pair, "inf"); }});
    // Payloads below and above the threshold alternate, so that some overtake others.
    made.push_back({"ucx, with rendezvous", [](Pair &pair) { Pair::connect_ucx(pair, "300"); }});
    made.push_back({"ucx, with rendezvous, slots in devices", [](Pair &pair) {
                      for (Side &side : pair.sides) side.use_device_memory();
                      Pair::connect_ucx(pair, "300");
                    }});
    made.push_back({"ucx, slots of one side in a device", [](Pair &pair) {
                      pair.sides[0].use_device_memory();
                      Pair::connect_ucx(pair, "300");
                    }});
    return made;
  }();
  return all;
}

}  // namespace

TEST_CASE("network: both directions saturated, every slot comes once, whole and in order", "[net]") {
  for (const Kind &kind : kinds()) {
    INFO(kind.name);
    Pair pair;
    kind.connect(pair);
    CHECK(exchange(pair, 2'000, 7) == Outcome::right);
  }
}

TEST_CASE("network: on the steady path nothing of ours is allocated, and a slot is told once at each end", "[net]") {
  constexpr uint64_t warm_slots = 200, slots = 1'200;  // for each link
  for (const Kind &kind : kinds()) {
    INFO(kind.name);
    Pair pair;
    kind.connect(pair);
    REQUIRE(exchange(pair, warm_slots, 7) == Outcome::right);
    const uint64_t before = rondo_test::allocation_count();
    const Outcome outcome = exchange(pair, slots, 11);
    const uint64_t allocated = rondo_test::allocation_count() - before;
    CHECK(outcome == Outcome::right);
    // This counts operator new. UCX and the libraries of verbs are written in C, so their memory does not count. The
    // network in software belongs to the tests, and allocates because it cuts payloads into pieces.
    if (std::string_view(kind.name) != "software") CHECK(allocated == 0);
    for (const Told &told : pair.told) {
      CHECK(told.arrived == channel_count * slots);
      CHECK(told.credits <= channel_count * slots);
    }
  }
}

TEST_CASE("network: a receiver that does not consume holds the sender at slot_count slots, and nothing is lost",
          "[net]") {
  for (const Kind &kind : kinds()) {
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

TEST_CASE("network: a sender without a free slot is told of the one slot that was consumed", "[net]") {
  for (const Kind &kind : kinds()) {
    INFO(kind.name);
    Pair pair;
    kind.connect(pair);
    Side &sender = pair.sides[0];
    Side &receiver = pair.sides[1];
    const uint64_t slots = small_geometry().slot_count;
    REQUIRE(sender.post(0, 1));
    for (Rounds rounds(pair); rounds.next() && receiver.received[0] < 1;) {
      for (Side &side : pair.sides) side.progress->step();
      receiver.receive(0);
    }
    while (sender.post(0, slots + 1)) {
    }
    for (Rounds rounds(pair); rounds.next() && sender.posted[0] <= slots;) {
      for (Side &side : pair.sides) side.progress->step();
      sender.post(0, slots + 1);
    }
    CHECK(receiver.received[0] == 1);
    CHECK(sender.posted[0] == slots + 1);
  }
}

TEST_CASE("network: a rank that has flushed and never calls again does not strand its peer", "[net]") {
  for (const Kind &kind : kinds()) {
    INFO(kind.name);
    Pair pair;
    kind.connect(pair);
    Side &sender = pair.sides[0];
    Side &receiver = pair.sides[1];
    const uint64_t slots = small_geometry().slot_count;
    while (sender.post(0, slots)) {
    }
    for (Rounds rounds(pair); rounds.next() && !sender.progress->flushed();) {
      sender.progress->step();
      if (!leaves_alone(kind)) receiver.progress->step();
    }
    REQUIRE(sender.progress->flushed());
    for (Rounds rounds(pair); rounds.next() && receiver.received[0] < slots;) {
      receiver.progress->step();
      receiver.receive(0);
    }
    CHECK(receiver.received[0] == slots);
    CHECK_FALSE(receiver.wrong);
  }
}

TEST_CASE("network: the loss of a peer is told once, and what had come before it is whole", "[net]") {
  for (const Kind &kind : kinds()) {
    INFO(kind.name);
    Pair pair;
    kind.connect(pair);
    Side &survivor = pair.sides[1];
    while (pair.sides[0].post(0, 3)) {
    }
    for (Rounds rounds(pair); rounds.next() && !pair.sides[0].progress->flushed();) {
      pair.sides[0].progress->step();
      if (!leaves_alone(kind)) survivor.progress->step();
    }
    pair.sides[0].progress.reset();
    for (Rounds rounds(pair); rounds.next() && survivor.progress->lost().empty();)
      survivor.progress->step();
    REQUIRE(survivor.progress->lost() == std::vector<uint32_t>{0});
    for (int round = 0; round < 100; ++round) survivor.progress->step();
    CHECK(survivor.progress->lost().size() == 1);
    const Error why = survivor.progress->why_lost(0);
    CHECK(why.status == RONDO_ERROR_REMOTE);
    const bool names_slots = why.message.find("RONDO_NETWORK_DEVICE_SLOTS=off") != std::string::npos;
    CHECK(names_slots == (survivor.device != nullptr || pair.sides[0].device != nullptr));
    while (survivor.receive(0)) {
    }
    CHECK(survivor.received[0] == 3);
    CHECK_FALSE(survivor.wrong);
  }
}

TEST_CASE("network: a rank that leaves amid saturated links tears no slot, and its end is told once", "[net]") {
  for (const Kind &kind : kinds()) {
    INFO(kind.name);
    Pair pair;
    kind.connect(pair);
    Side &leaver = pair.sides[0], &survivor = pair.sides[1];
    const auto drive_survivor = [&] {
      for (uint32_t link = 0; link < channel_count; ++link) {
        survivor.post(link, UINT64_MAX);
        survivor.receive(link);
      }
      survivor.progress->step();
    };
    for (Rounds rounds(pair); rounds.next() && survivor.received[0] < 50;) {
      for (uint32_t link = 0; link < channel_count; ++link) {
        leaver.post(link, UINT64_MAX);
        leaver.receive(link);
      }
      leaver.progress->step();
      drive_survivor();
    }
    REQUIRE(survivor.received[0] >= 50);
    while (leaver.post(0, UINT64_MAX)) {
    }
    leaver.progress->step();  // it need not wait for delivery
    leaver.progress.reset();
    for (const net::NearLink &link : leaver.memory.links)
      std::memset(const_cast<std::byte *>(link.outgoing_payload(0)), 0x5a,
                  size_t{link.outgoing.geometry.slot_count} * 1024);
    for (Rounds rounds(pair); rounds.next() && survivor.progress->lost().empty();) drive_survivor();
    for (int round = 0; round < 100; ++round) drive_survivor();
    CHECK(survivor.progress->lost() == std::vector<uint32_t>{0});
    CHECK_FALSE(survivor.wrong);
  }
}

TEST_CASE("network: counters pass the ends of 32 bits and of the 22 bits of a verbs word", "[net]") {
  for (const Kind &kind : kinds())
    for (const uint64_t end : {uint64_t{1} << 32, uint64_t{1} << 22}) {
      CAPTURE(kind.name, end);
      Pair pair(end - 3);
      kind.connect(pair);
      CHECK(exchange(pair, 60, 13) == Outcome::right);
    }
}
