// SPDX-License-Identifier: Apache-2.0
// These tests check which payloads networks deliver to slots in device memory, and the flush before headers appear.
#include <sys/mman.h>

#include <atomic>

#include "tests/catch.h"
#include "tests/net/pair.h"
#include "tests/net/scripted_network.h"
#include "transports/net/sentinel.h"
#include "transports/verbs/wire.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

net::Event arrival(uint32_t link, uint64_t counter, bool in_device) {
  return {net::Event::Kind::arrived, link, counter, 0, 0, in_device};
}

/// Returns a side that has device memory, after its network has reported `events`.
Side told(std::vector<net::Event> events, std::function<Result<void>(Side &)> on_flush = {}) {
  Side side(0);
  side.use_device_memory();
  side.progress = std::make_unique<net::Progress>(side.memory.links,
                                                  std::make_unique<ScriptedNetwork>(std::move(events)), side.device);
  if (on_flush) side.device->on_flush = [&] { return on_flush(side); };
  side.progress->step();
  side.device->on_flush = nullptr;
  return side;
}

uint32_t published(const Side &side) {
  uint32_t count = 0;
  for (const SimpleReceiver &receiver : side.receivers) count += receiver.can_receive() ? 1 : 0;
  return count;
}

}  // namespace

TEST_CASE("device slots: writes are flushed once for all that came, before a header is published", "[net]") {
  uint32_t published_before = 1;
  const Side side = told({arrival(0, 0, true), arrival(1, 0, true)}, [&](const Side &now) {
    published_before = published(now);
    return Result<void>();
  });
  CHECK(published_before == 0);
  CHECK(side.device->flushes == 1);
  REQUIRE(published(side) == 2);
  for (uint32_t link = 0; link < channel_count; ++link) {
    const SlotHeader &header = side.receivers[link].header();
    CHECK(static_cast<PayloadKind>(header.kind) == PayloadKind::address);
    CHECK(header.address == reinterpret_cast<uint64_t>(side.memory.links[link].device_slot(0)));
  }
}

TEST_CASE("device slots: nothing is flushed for payloads that came into memory of the host", "[net]") {
  const Side side = told({arrival(0, 0, false)});
  CHECK(side.device->flushes == 0);
  REQUIRE(published(side) == 1);
  CHECK(static_cast<PayloadKind>(side.receivers[0].header().kind) == PayloadKind::in_slot);
}

TEST_CASE("device slots: where the flush fails the rank has failed, and nothing behind it is published", "[net]") {
  const auto fails = [](const Side &) { return Result<void>(Error{RONDO_ERROR_SYSTEM, "no flush"}); };
  const net::Event lost{net::Event::Kind::lost, 0};
  const Side side = told({arrival(0, 0, true), arrival(0, 1, false), arrival(1, 0, false), lost}, fails);
  CHECK_FALSE(side.receivers[0].can_receive());
  CHECK(side.receivers[1].can_receive());
  REQUIRE(side.progress->failure().has_value());
  CHECK(side.progress->failure()->message == "no flush");
  // The peer, however, is lost.
  CHECK(side.progress->lost() == std::vector<uint32_t>{1});
  CHECK(side.progress->why_lost(1).message == "scripted");
}

TEST_CASE("device slots: a flush that fails is raised by its rank although the peer has left", "[net]") {
  const auto fails = [](const Side &) { return Result<void>(Error{RONDO_ERROR_SYSTEM, "no flush"}); };
  const Side side = told({arrival(0, 0, true), {net::Event::Kind::lost, 0}}, fails);
  SceneRanks ranks(1);
  const auto control = net::Control::make(alone(ranks)).value();
  const uint64_t deadline_ns = now_ns() + long_patience_ns;
  while (!control->gone(1) && now_ns() < deadline_ns) control->step(now_ns());
  REQUIRE(control->gone(1));
  std::atomic<bool> raised = false;
  net::Sentinel::Hooks hooks;
  hooks.failed = [&] { return raised.load(); };
  hooks.ring = [] {};
  hooks.raise_own = [&](const Error &error) {
    ranks.raise(error);
    raised = true;
  };
  auto sentinel = net::Sentinel::start(*control, *side.progress, std::move(hooks));
  REQUIRE(sentinel.ok());
  while (!raised && now_ns() < deadline_ns) yield_core();
  sentinel.value().reset();
  REQUIRE(raised);
  CHECK(ranks.failure().message == "no flush");
}

TEST_CASE("device slots: each call of a network has the context of the device, its end included", "[net]") {
  Pair pair;
  pair.sides[0].use_device_memory();
  Pair::connect_tcp(pair, 1);
  REQUIRE(exchange(pair, 20, 5) == Outcome::right);
  const uint64_t before = pair.told[0].calls;
  net::Progress &progress = *pair.sides[0].progress;
  std::vector<pollfd> descriptors;
  progress.watch(descriptors);
  CHECK_FALSE(descriptors.empty());
  for (Rounds rounds(pair); rounds.next() && !progress.flushed();) progress.step();
  static_cast<void>(progress.why_lost(1));
  CHECK(pair.told[0].calls >= before + 3);
  pair.sides[0].progress.reset();
  CHECK(pair.told[0].calls >= before + 4);
  CHECK(pair.told[0].calls_out_of_context == 0);
}

TEST_CASE("device slots: over UCX long payloads are fetched into the device, short ones come with their header",
          "[net]") {
  if (!ucx_is_there()) return;
  Pair pair;
  pair.sides[0].use_device_memory();
  Pair::connect_ucx(pair, "300");
  REQUIRE(exchange(pair, 100, 3) == Outcome::right);
  Side &side = pair.sides[0];
  uint64_t long_payloads = 0;
  for (uint64_t counter = 0; counter < 100; ++counter) long_payloads += bytes_of_slot(counter) >= 400 ? 1 : 0;
  CHECK(side.received_in_device >= channel_count * long_payloads);
  CHECK(side.received_in_device < channel_count * 100);
  CHECK(side.device->flushes > 0);
  CHECK(pair.sides[1].received_in_device == 0);  // each side chooses its slots itself
}

TEST_CASE("device slots: over UCX a whole slot goes from device to device before the links are used", "[net]") {
  if (!ucx_is_there()) return;
  Pair pair;
  for (Side &side : pair.sides) {
    side.use_device_memory();
    const int mark = 0x41 + static_cast<int>(side.number);
    std::memset(side.memory.links[0].device_outgoing, mark, small_geometry().slot_bytes);
  }
  Pair::connect_ucx(pair, "300");
  for (const Side &side : pair.sides) {
    const std::vector<std::byte> other(small_geometry().slot_bytes, static_cast<std::byte>(0x42 - side.number));
    CHECK(std::memcmp(side.memory.links[0].device_slot(0), other.data(), other.size()) == 0);
    CHECK(std::memcmp(side.memory.links[0].incoming.payload(0), other.data(), other.size()) != 0);
  }
}

TEST_CASE("device slots: over verbs payloads longer than a cell's are written into the device, others into the host",
          "[net]") {
  if (!verbs_is_there()) return;
  Pair pair;
  pair.sides[0].use_device_memory();
  Pair::connect_verbs(pair, 1);
  REQUIRE(exchange(pair, 100, 3) == Outcome::right);
  uint64_t long_payloads = 0;
  for (uint64_t counter = 0; counter < 100; ++counter)
    long_payloads += bytes_of_slot(counter) > verbs::cell_payload_bytes ? 1 : 0;
  CHECK(pair.sides[0].received_in_device == channel_count * long_payloads);
  CHECK(pair.sides[1].received_in_device == 0);
}

TEST_CASE("device slots: over verbs all links have those of the host where one cannot be registered in the device",
          "[net]") {
  if (!verbs_is_there()) return;
  Pair pair;
  Side &side = pair.sides[0];
  side.use_device_memory();
  // Only the last link has pages without access, so the registrations before it must be undone.
  const size_t bytes = net::slot_area_bytes(small_geometry());
  void *const address = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(address != MAP_FAILED);
  const Mapping untouchable(MappedRange{static_cast<std::byte *>(address), bytes});
  side.memory.links.back().device_incoming = untouchable.get().address;
  NetworkPair made = connect_verbs_pair(pair.ends(), 2);
  const auto taken = made.networks[0]->takes_device_memory();
  REQUIRE_FALSE(taken.ok());
  CHECK(taken.error().message.find("cannot reach the memory of the CUDA device") != std::string::npos);
  side.forget_device_memory();
  Pair::take(pair, std::move(made));
  CHECK(exchange(pair, 100, 3) == Outcome::right);
  CHECK(side.received_in_device == 0);
}

TEST_CASE("device slots: a UCX without CUDA refuses memory that the host does not reach", "[net]") {
  if (!ucx_is_there()) return;
  if (ucx::look_for_ucx().takes_cuda_memory) {
    std::printf("skipped: a UCX without CUDA: this one has it\n");
    return;
  }
  std::array sides{Side(0), Side(1)};
  sides[0].use_device_memory();
  sides[0].device->in_reach_of_host = false;
  NetworkPair pair = connect_ucx_pair(
      {NetworkEnd{sides[0].memory.links, sides[0].device.get()}, NetworkEnd{sides[1].memory.links}}, "300");
  const auto taken = pair.networks[0]->takes_device_memory();
  REQUIRE_FALSE(taken.ok());
  CHECK(taken.error().message.find("takes no memory of CUDA devices") != std::string::npos);
}

TEST_CASE("device slots: TCP says that it copies by the host", "[net]") {
  const Side side(0);
  auto ends = connected_sockets();
  std::vector<tcp::PeerSocket> sockets;
  sockets.push_back({1, std::move(ends[0]), "the other side", 0});
  const auto network = tcp::make_network(side.memory.links, std::move(sockets));
  REQUIRE(network.ok());
  const auto taken = network.value()->takes_device_memory();
  REQUIRE_FALSE(taken.ok());
  CHECK(taken.error().message.find("tcp copies payloads by the host") == 0);
}
