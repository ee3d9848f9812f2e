// SPDX-License-Identifier: Apache-2.0
// These tests need no device. They cover the choice of a port, the content of an offer, and the meaning of an
// immediate.
#include <algorithm>
#include <optional>
#include <thread>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/net/memory_store.h"
#include "transports/verbs/peer_info.h"
#include "transports/verbs/wire.h"

using namespace rondo;
using namespace rondo::verbs;

namespace {

Gid v4(uint32_t index, uint8_t last, GidKind kind = GidKind::roce_v2) {
  return {index, kind, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, last}};
}
Gid link_local(uint32_t index) {
  return {index, GidKind::roce_v2, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}};
}
Gid v6(uint32_t index) {
  return {index, GidKind::roce_v2, {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
}

/// Returns "device:port gid", or the error.
std::string chosen(const std::vector<Port> &ports, const PortWish &wish = {}) {
  const auto choice = choose_port(ports, wish);
  if (!choice.ok()) return choice.error().message;
  const Port &port = ports[choice.value().port];
  return port.device + ":" + std::to_string(port.number) + " " + std::to_string(choice.value().gid.index);
}

/// Returns "device:port gid" for each rail, or the error.
std::string chosen(const std::vector<Port> &ports, const RailsWish &wish) {
  const auto choices = choose_ports(ports, wish);
  if (!choices.ok()) return choices.error().message;
  std::string text;
  for (const PortChoice &choice : choices.value())
    text += (text.empty() ? "" : ", ") + ports[choice.port].device + ":" + std::to_string(ports[choice.port].number) +
            " " + std::to_string(choice.gid.index);
  return text;
}

HostInfo some_offer() {
  HostInfo offer;
  offer.rails.push_back({GidKind::roce_v2, 1024, 7, v4(0, 9).bytes, "rxe0 port 1 (GID 1, RoCE v2, 192.0.2.9)"});
  offer.rails.push_back({GidKind::infiniband, 4096, 8, v6(0).bytes, "mlx5_0 port 2 (GID 0, InfiniBand, 2001:db8::1)"});
  for (const uint32_t rank : {1u, 3u})
    offer.pairs.push_back({rank, 100 + rank, 0xabcdef, {{0x1000 + rank, 1, 0x2000, 2}, {0x3000, 3, 0x4000, 4}}});
  return offer;
}

}  // namespace

TEST_CASE("verbs: the port and address on the route to the other hosts come first, then IPv4, IPv6, RoCE v1", "[net]") {
  const std::vector<Port> ports{{"a", 1, true, 1024, {link_local(0), v4(1, 1, GidKind::roce_v1), v6(2), v4(3, 1)}},
                                {"b", 1, true, 4096, {v4(0, 2), v4(1, 3)}},
                                {"b", 2, false, 4096, {v4(0, 4)}}};
  CHECK(chosen(ports) == "a:1 3");
  CHECK(chosen(ports, {"", -1, "192.0.2.3"}) == "b:1 1");
  CHECK(chosen(ports, {"", -1, "192.0.2.4"}) == "a:1 3");  // its port is down
  CHECK(chosen(ports, {"", -1, "127.0.0.1"}) == "a:1 3");
  CHECK(chosen(ports, {"", -1, "2001:db8::1"}) == "a:1 2");
  CHECK(chosen({{"a", 1, true, 1024, {link_local(0), v4(1, 1, GidKind::roce_v1), v6(2)}}}) == "a:1 2");
  CHECK(chosen({{"a", 1, true, 1024, {v4(1, 1, GidKind::roce_v1), link_local(0)}}}) == "a:1 0");
  CHECK(chosen({{"a", 1, true, 1024, {v4(1, 1, GidKind::roce_v1)}}}) == "a:1 1");
}

TEST_CASE("verbs: of InfiniBand ports in one subnet, one near the rank's cores is taken; of other networks the first",
          "[net]") {
  const Gid fabric{0, GidKind::infiniband, {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}};
  const Gid other_fabric{0, GidKind::infiniband, {0xfe, 0x80, 0, 0, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 9}};
  const std::vector<Port> ports{{"mlx5_0", 1, true, 4096, {fabric}}, {"mlx5_1", 1, true, 4096, {other_fabric}},
                                {"mlx5_2", 1, false, 4096, {fabric}}, {"mlx5_3", 1, true, 4096, {fabric}},
                                {"rxe0", 1, true, 1024, {v6(0), v4(1, 1)}}};
  CHECK(chosen(ports, {"", -1, "", {"mlx5_2", "mlx5_3"}}) == "mlx5_3:1 0");
  CHECK(chosen(ports, {"", -1, "", {"mlx5_1", "mlx5_2", "rxe0"}}) == "mlx5_0:1 0");
  CHECK(chosen(ports, {"mlx5_0", -1, "", {"mlx5_3"}}) == "mlx5_0:1 0");
  CHECK(chosen(ports, {"", -1, "192.0.2.1", {"mlx5_3"}}) == "rxe0:1 1");  // the route to the other hosts counts more
  CHECK(chosen(ports, RailsWish{"", -1, {}, {"mlx5_3"}}) == "mlx5_3:1 0");
  const std::vector<Port> roce{{"mlx5_0", 1, true, 1024, {v4(1, 1)}}, {"mlx5_1", 1, true, 1024, {v4(1, 2)}}};
  CHECK(chosen(roce, {"", -1, "", {"mlx5_1"}}) == "mlx5_0:1 1");
}

TEST_CASE("verbs: what the user asks for is taken or refused, with a list of what there is", "[net]") {
  const std::vector<Port> ports{{"a", 1, true, 1024, {v4(0, 1), v4(1, 2)}}, {"a", 2, true, 1024, {v4(5, 3)}},
                                {"b", 1, false, 1024, {}}};
  CHECK(chosen(ports, {"a:2", -1, "192.0.2.1"}) == "a:2 5");
  CHECK(chosen(ports, {"a", 1, "192.0.2.1"}) == "a:1 1");
  CHECK(chosen(ports, {"", 5, ""}) == "a:2 5");
  CHECK(chosen(ports, {"c", -1, ""})
            .find("RONDO_IB_HCA is c, and no port has that name; ports: a port 1 (active, GID 0, RoCE v2, 192.0.2.1") !=
        std::string::npos);
  CHECK(chosen(ports, {"b", -1, ""}).find("no port is active") != std::string::npos);
  CHECK(chosen(ports, {"a:1", 5, ""}).find("RONDO_IB_GID_INDEX is 5, which no active port has") != std::string::npos);
  CHECK(chosen({{"a", 1, true, 1024, {}}}).find("has an address (GID)") != std::string::npos);
  CHECK(chosen({}).find("no RDMA device") != std::string::npos);
}

TEST_CASE("verbs: a rail for each device of the list, else for each address; no port twice", "[net]") {
  const std::vector<Port> ports{{"a", 1, true, 1024, {v4(0, 1)}}, {"a", 2, true, 1024, {v4(1, 2), v6(2)}},
                                {"b", 1, true, 1024, {v4(0, 3)}}};
  using Wish = RailsWish;
  CHECK(chosen(ports, Wish{"", -1, {}}) == "a:1 0");
  CHECK(chosen(ports, Wish{"", -1, {"192.0.2.3"}}) == "b:1 0");
  CHECK(chosen(ports, Wish{"", -1, {"192.0.2.3", "192.0.2.2"}}) == "b:1 0, a:2 1");
  CHECK(chosen(ports, Wish{"b,a:2", -1, {"192.0.2.1"}}) == "b:1 0, a:2 1");
  CHECK(chosen(ports, Wish{"b,a", -1, {"192.0.2.1", "192.0.2.2"}}) == "b:1 0, a:2 1");  // each rail by its own address
  CHECK(chosen(ports, Wish{"b,a", -1, {"192.0.2.1"}}) == "b:1 0, a:1 0");
  CHECK(chosen(ports, Wish{"b,a:2", 2, {}}).find("RONDO_IB_GID_INDEX is 2, which no active port has") !=
        std::string::npos);
  CHECK(chosen(ports, Wish{"a,a:1", -1, {}}).find("two rails would both go by a port 1") != std::string::npos);
  CHECK(chosen(ports, Wish{"", -1, {"198.51.100.1", "198.51.100.2"}}).find("two rails would both go by a port 1") !=
        std::string::npos);
  for (const char *const list : {",b", "b,", "a:1,,b"}) {
    CAPTURE(list);
    CHECK(chosen(ports, Wish{list, -1, {}}).find("with an empty entry") != std::string::npos);
  }
  CHECK(chosen(ports, Wish{"b,b,b,b,b,b,b,b,b", -1, {}}).find("more than 8") != std::string::npos);
}

TEST_CASE("verbs: an offer comes over whole, and no part of one is taken", "[net]") {
  const HostInfo offer = some_offer();
  const Bytes bytes = encode(offer);
  const auto decoded = decode(ByteReader(bytes));
  REQUIRE(decoded.has_value());
  CHECK(*decoded == offer);
  for (size_t length = 0; length < bytes.size(); ++length)
    if (decode(ByteReader(ByteView(bytes).first(length)))) FAIL("taken: the first " << length << " bytes");
  Bytes longer = bytes;
  longer.push_back(std::byte{0});
  CHECK_FALSE(decode(ByteReader(longer)).has_value());
  Bytes strange = bytes;
  strange[1] = std::byte{9};  // not a kind of GID
  CHECK_FALSE(decode(ByteReader(strange)).has_value());
}

TEST_CASE("verbs: ranks with other numbers of rails are told so, all of them, with the devices of both", "[net]") {
  net_test::MemoryStore store;
  std::optional<Error> errors[3];
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      const Settings settings;
      const GroupInfo group;
      JoinRequest request{{rank, 3, settings, group, {}, "test", now_ns() + 60'000'000'000}};
      request.linked = {rank != 0, rank == 0, rank == 0};
      request.names = {"rank 0 (host a)", "rank 1 (host b)", "rank 2 (host b)"};
      HostInfo offer = some_offer();
      if (rank == 2) offer.rails.pop_back();
      const auto exchanged = exchange_offers(request, offer, store);
      if (!exchanged.ok()) errors[rank] = exchanged.error();
    });
  for (std::thread &thread : threads) thread.join();
  for (const auto &error : errors) {
    REQUIRE(error.has_value());
    CHECK(error->status == RONDO_ERROR_MISMATCH);
    CHECK(error->peer == 2);
    CHECK(error->message.find("rank 0 (host a) has 2 (rxe0 port 1 (GID 1, RoCE v2, 192.0.2.9), mlx5_0 port 2") !=
          std::string::npos);
    CHECK(error->message.find("rank 2 (host b) has 1 (rxe0 port 1") != std::string::npos);
  }
}

TEST_CASE("verbs: an immediate tells its kind, channel and counter, across the wrap of the counter's bits", "[net]") {
  for (const MessageKind kind : {MessageKind::slot, MessageKind::credit, MessageKind::hello, MessageKind::bye}) {
    const Immediate word = unpack(pack(kind, channel_count_max - 1, uint64_t{counter_mask} + 5));
    CHECK(word.kind == kind);
    CHECK(word.channel == channel_count_max - 1);
    CHECK(word.counter == 4);
  }
  constexpr uint64_t away_max = 64;  // slots of a link in flight
  for (const uint64_t turns : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 10, uint64_t{1} << 40})
    for (uint64_t known = turns << counter_bits, end = known + 3; known <= end; ++known)
      for (uint64_t meant = known - std::min(known, away_max); meant <= known + away_max; ++meant)
        if (nearest(known, unpack(pack(MessageKind::credit, 0, meant)).counter) != meant)
          FAIL("known " << known << ", meant " << meant);
}
