// SPDX-License-Identifier: Apache-2.0
// These tests check that broken and hostile peers do no harm over verbs. They need a device, which
// tests/net/soft_roce_test.py has.
#include <cstdio>
#include <cstring>
#include <optional>
#include <thread>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/net/memory_store.h"
#include "tests/net/side.h"
#include "tests/net/verbs_pair.h"
#include "transports/verbs/path.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

constexpr uint64_t patience_ns = 60'000'000'000;
constexpr int completions_max = 256;

/// A rank that follows the protocol until all ranks have met. Then it sends to rank 0 whatever the test wants.
class Hostile {
 public:
  Hostile(uint32_t rank, uint32_t rank_count, MemoryStore &store)
      : store_(store), request_(verbs_request(rank, rank_count)), memory_(0) {
    // This rank has no links to ranks other than 0.
    for (uint32_t peer = 1; peer < rank_count; ++peer) request_.linked[peer] = false;
  }

  /// Connects, on a thread other than rank 0's. After a failure, `why` has its message.
  void join() {
    if (const auto joined = try_to_connect(); !joined.ok()) why = joined.error().message;
  }

  bool send_slot(const net::Message &of) { return path_->send_slot(0, of); }
  verbs::PathLink &link() { return path_->ends(0); }
  /// Returns a correct message of 8 bytes.
  net::Message message(uint64_t counter = 0) {
    std::byte *const payload = memory_.links[0].outgoing.payload(counter);
    std::memcpy(payload, "12345678", 8);
    return {counter, 7, 8, payload, 0};
  }
  /// Takes completions of this rank's sends, and of receives, such as rank 0's credits.
  void take_completions() {
    for (ibv_wc completion; ibv_poll_cq(completions_.get(), 1, &completion) > 0;) {
      REQUIRE(completion.status == IBV_WC_SUCCESS);
      if ((completion.wr_id & 1) != 0) {
        path_->receive_again();
        ++receives_completed;
      } else {
        path_->sent();
        ++sends_completed;
      }
    }
  }

  std::string why;
  uint32_t sends_completed = 0;     ///< its hello included
  uint32_t receives_completed = 0;  ///< rank 0's hello included

 private:
  Result<void> try_to_connect() {
    RONDO_TRY_ASSIGN(auto devices, verbs::open_devices({}));
    device_ = std::move(devices.front());
    completions_.reset(device_->api().create_cq(device_->context(), completions_max, nullptr, nullptr, 0));
    if (!completions_.valid()) return Error{RONDO_ERROR_SYSTEM, "ibv_create_cq"};
    RONDO_TRY_ASSIGN(path_, verbs::Path::make(*device_, completions_.get(), {}, loss_, memory_.links));
    const verbs::RailInfo rail{device_->gid().kind, device_->port().mtu_bytes, device_->lid(), device_->gid().bytes,
                               device_->describe()};
    const verbs::HostInfo offer{{rail}, {path_->offer()}};
    RONDO_TRY_ASSIGN(const auto met, verbs::exchange_offers(request_, offer, store_));
    RONDO_TRY(verbs::agree(request_, "connected", path_->connect(met.at(0).offer), store_));
    if (!path_->send_hello()) return Error{RONDO_ERROR_INTERNAL, "no room"};
    return verbs::agree(request_, "greeted", {}, store_);
  }

  MemoryStore &store_;
  verbs::JoinRequest request_;
  Memory memory_;
  std::unique_ptr<verbs::Device> device_;
  verbs::CompletionQueue completions_;
  verbs::Loss loss_;
  std::unique_ptr<verbs::Path> path_;
};

/// Rank 0, which is honest, and the hostile other ranks.
struct Scene {
  MemoryStore store;
  std::vector<std::unique_ptr<Memory>> memory;  ///< rank 0's memory for each of the others
  std::vector<net::NearLink> links;
  std::vector<std::unique_ptr<Hostile>> others;
  std::unique_ptr<net::Progress> progress;

  explicit Scene(uint32_t rank_count = 2) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 1; rank < rank_count; ++rank) {
      memory.push_back(std::make_unique<Memory>(rank));
      links.insert(links.end(), memory.back()->links.begin(), memory.back()->links.end());
      others.push_back(std::make_unique<Hostile>(rank, rank_count, store));
      threads.emplace_back([other = others.back().get()] { other->join(); });
    }
    auto network = verbs::make_network(links, verbs_request(0, rank_count), store);
    for (std::thread &thread : threads) thread.join();
    for (const auto &other : others) REQUIRE(other->why == "");
    INFO((network.ok() ? "" : network.error().message));
    REQUIRE(network.ok());
    progress = std::make_unique<net::Progress>(links, std::move(network).value());
  }

  void step_until_lost() {
    const uint64_t deadline_ns = now_ns() + patience_ns;
    while (progress->lost().empty() && now_ns() < deadline_ns) progress->step();
  }
  [[nodiscard]] bool received(size_t link) const { return SimpleReceiver(links[link].incoming).can_receive(); }
};

}  // namespace

TEST_CASE("verbs: a well-formed slot of a peer is taken, so that the refusals below mean something", "[net]") {
  if (!verbs_is_there()) return;
  Scene scene;
  REQUIRE(scene.others[0]->send_slot(scene.others[0]->message()));
  const uint64_t deadline_ns = now_ns() + patience_ns;
  while (!scene.received(0) && now_ns() < deadline_ns) scene.progress->step();
  REQUIRE(scene.received(0));
  CHECK(scene.progress->lost().empty());
  CHECK(std::memcmp(scene.links[0].incoming.payload(0), "12345678", 8) == 0);
}

TEST_CASE("verbs: a slot has one completion at its receiver; its sender few, and one for the credit of two", "[net]") {
  if (!verbs_is_there()) return;
  Scene scene;
  Hostile &hostile = *scene.others[0];
  const auto step_until = [&](const auto &reached) {
    const uint64_t deadline_ns = now_ns() + patience_ns;
    while (!reached() && now_ns() < deadline_ns) {
      scene.progress->step();
      hostile.take_completions();
    }
    REQUIRE(reached());
    for (int more = 0; more < 200; ++more) {  // to detect one too many
      scene.progress->step();
      hostile.take_completions();
    }
  };
  step_until([&] { return hostile.sends_completed + hostile.receives_completed == 2; });  // the hellos
  SimpleReceiver receiver(scene.links[0].incoming);
  constexpr uint32_t count = 200;  // many times the room of the queue pair
  uint32_t sent = 0;
  for (const uint32_t bytes : {8u, 1024u}) {
    const uint32_t sends_before = hostile.sends_completed, receives_before = hostile.receives_completed;
    for (uint32_t each = 0; each < count; ++each) {
      net::Message message = hostile.message(sent++);
      message.bytes = bytes;
      REQUIRE(hostile.send_slot(message));
      const uint64_t deadline_ns = now_ns() + patience_ns;
      while (!receiver.can_receive() && now_ns() < deadline_ns) scene.progress->step();
      REQUIRE(receiver.can_receive());
      receiver.release(false);
      scene.progress->step();
      hostile.take_completions();
    }
    const auto credits = [&] { return hostile.receives_completed - receives_before; };
    step_until([&] { return credits() >= count / 2; });
    CHECK(credits() == count / 2);
    CAPTURE(bytes);
    CHECK(hostile.sends_completed - sends_before > 0);
    CHECK(hostile.sends_completed - sends_before <= count / 10);
  }
  SimpleSender sender(scene.links[0].outgoing);
  SlotHeader header;
  header.bytes = 1024;
  uint32_t posted = 0;
  const uint32_t receives_before = hostile.receives_completed;
  for (; sender.can_send(); ++posted) sender.post(header, false);
  CHECK(posted == small_geometry().slot_count);
  step_until([&] { return hostile.receives_completed - receives_before >= posted; });
  CHECK(hostile.receives_completed - receives_before == posted);
  CHECK(scene.progress->lost().empty());
}

TEST_CASE("verbs: a peer's message that does not fit the link's state ends the link and is no slot", "[net]") {
  if (!verbs_is_there()) return;
  using verbs::PathLink;
  using Change = void (*)(net::Message &, PathLink &);
  const Change changes[] = {[](net::Message &message, PathLink &) { message.counter = 1; },
                            [](net::Message &message, PathLink &) { message.counter = small_geometry().slot_count; },
                            [](net::Message &message, PathLink &) { message.bytes = 1025; },
                            [](net::Message &message, PathLink &) { message.consumed = 1; },
                            [](net::Message &, PathLink &link) { link.ends.channel = channel_count; }};
  for (const Change change : changes) {
    Scene scene;
    net::Message message = scene.others[0]->message();
    change(message, scene.others[0]->link());
    REQUIRE(scene.others[0]->send_slot(message));
    scene.step_until_lost();
    REQUIRE(scene.progress->lost() == std::vector<uint32_t>{1});
    CHECK(scene.progress->why_lost(1).message.find("it sent an invalid message: ") != std::string::npos);
    CHECK_FALSE(scene.received(0));
  }
}

TEST_CASE("verbs: a peer can write into the slots of its own links only", "[net]") {
  if (!verbs_is_there()) return;
  // The peer writes 256 bytes at three places: into the headers, after the last slot, and into memory that rank 0 has
  // opened for rank 2. The peer has the key of that memory, because every rank can read it in the store.
  for (const int where : {0, 1, 2}) {
    Scene scene(3);
    Hostile &hostile = *scene.others[0];
    verbs::LinkTarget &target = hostile.link().target;
    if (where == 0) target.slots_address -= 64;
    if (where == 1) target.slots_address += uint64_t{4} * 1024 - 128;
    if (where == 2) {
      const Bytes part = scene.store.said("test/verbs", 0);  // the offer follows the status of gather_outcomes()
      const auto offer = verbs::decode(ByteReader(ByteView(part).subspan(sizeof(uint32_t))));
      REQUIRE(offer.has_value());
      REQUIRE(offer->pairs.at(1).rank == 2);
      target = offer->pairs[1].links[0];
    }
    std::vector<std::byte> before;
    for (const auto &memory : scene.memory)
      before.insert(before.end(), memory->bytes.get(), memory->links.back().incoming.base);
    net::Message message = hostile.message();
    message.bytes = 256;
    REQUIRE(hostile.send_slot(message));
    scene.step_until_lost();
    INFO("where " << where);
    REQUIRE(scene.progress->lost() == std::vector<uint32_t>{1});
    CHECK(scene.progress->why_lost(1).message.find("rank 1 (host b, process 1)") != std::string::npos);
    std::vector<std::byte> after;
    for (const auto &memory : scene.memory)
      after.insert(after.end(), memory->bytes.get(), memory->links.back().incoming.base);
    CHECK(before == after);
  }
}

TEST_CASE("verbs: the first rank that cannot go on is named by all ranks", "[net]") {
  if (!verbs_is_there()) return;
  Side sides[2] = {Side(0), Side(1)};
  MemoryStore store;
  std::optional<Error> errors[2];
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 2; ++rank)
    threads.emplace_back([&, rank] {
      Settings settings;
      if (rank == 1) settings.ib_gid_index = 200;
      const auto made = verbs::make_network(sides[rank].memory.links, verbs_request(rank, 2, &settings), store);
      if (!made.ok()) errors[rank] = made.error();
    });
  for (std::thread &thread : threads) thread.join();
  for (const auto &error : errors) {
    REQUIRE(error.has_value());
    CHECK(error->status == RONDO_ERROR_UNSUPPORTED);
    CHECK(error->peer == 1);
    CHECK(error->message.find("rank 1 (host b, process 1): ") == 0);
    CHECK(error->message.find("RONDO_IB_GID_INDEX is 200") != std::string::npos);
  }
}
