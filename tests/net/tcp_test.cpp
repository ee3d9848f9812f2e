// SPDX-License-Identifier: Apache-2.0
// These tests send frames over TCP. They have one end of a network, and act as its peer.
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tests/catch.h"
#include "tests/net/pair.h"
#include "transports/tcp/frames.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

constexpr auto slot_kind = static_cast<uint16_t>(tcp::FrameKind::slot);
constexpr auto credit_kind = static_cast<uint16_t>(tcp::FrameKind::credit);

/// One end of a network over TCP, whose peer is the test itself.
struct Listener {
  explicit Listener(uint32_t socket_count, const std::optional<net::FrameKeys> &keys = {}, int receive_bytes = 0)
      : side(0) {
    std::vector<tcp::PeerSocket> sockets;
    for (uint32_t index = 0; index < socket_count; ++index) {
      auto [theirs, own] = connected_sockets(receive_bytes);
      peer.push_back(std::move(theirs));
      sockets.push_back({1, std::move(own), "the test", index});
      sockets.back().frame_keys = keys;
    }
    auto made = tcp::make_network(side.memory.links, std::move(sockets));
    REQUIRE(made.ok());
    network = std::move(made).value();
  }
  void send(uint32_t socket, const tcp::FrameHeader &frame, std::string_view payload = {}) {
    REQUIRE(::send(peer[socket].get(), &frame, sizeof frame, 0) == sizeof frame);
    REQUIRE(::send(peer[socket].get(), payload.data(), payload.size(), 0) == static_cast<ssize_t>(payload.size()));
  }
  /// Sends an empty slot, over the socket that it belongs to.
  void send_slot(uint64_t counter) {
    const auto signature = static_cast<uint32_t>(10 + counter);
    send(static_cast<uint32_t>(counter % peer.size()), {slot_kind, 0, signature, 0, 0, counter, 0});
  }
  /// Returns `count` events, or fewer if none has arrived for many rounds. Each poll has room for `room` events.
  std::vector<net::Event> hear(size_t count, size_t room = 8) {
    std::vector<net::Event> heard;
    std::array<net::Event, 8> events;
    for (uint64_t round = 0; round < rounds_max && heard.size() < count; ++round) {
      const uint32_t told = network->poll(std::span(events).first(room));
      heard.insert(heard.end(), events.begin(), events.begin() + told);
    }
    return heard;
  }

  Side side;
  std::vector<FileDescriptor> peer;
  std::unique_ptr<net::Network> network;
};

}  // namespace

TEST_CASE("tcp: what was sent is delivered once the peer's host has it, and not when this host's kernel has", "[net]") {
  Listener listener(1, {}, 1);  // the peer's kernel buffers as little as possible
  net::Network &network = *listener.network;
  const uint32_t slots = small_geometry().slot_count, bytes = small_geometry().slot_bytes;
  for (uint32_t link = 0; link < channel_count; ++link)
    for (uint32_t counter = 0; counter < slots; ++counter)
      REQUIRE(network.put(link, {counter, 7, bytes, listener.side.memory.links[link].outgoing_payload(counter), 0}));
  for (Rounds rounds(long_patience_ns); rounds.next() && !network.flushed();) {
    std::array<net::Event, 8> events;
    CHECK(network.poll(events) == 0);
  }
  CHECK(network.flushed());
  CHECK_FALSE(network.delivered());
  std::array<std::byte, 512> read;
  for (Rounds rounds(long_patience_ns); rounds.next() && !network.delivered();)
    static_cast<void>(::recv(listener.peer[0].get(), read.data(), read.size(), MSG_DONTWAIT));
  CHECK(network.delivered());
}

TEST_CASE("tcp: bytes that are no frame end the connection and are written nowhere", "[net]") {
  const auto hears_loss = [](Listener &listener) {
    const auto events = listener.hear(1);
    REQUIRE(events.size() == 1);
    CHECK(events[0].kind == net::Event::Kind::lost);
    CHECK(listener.network->why_lost(1).message.find("a frame that this version of Rondo does not understand") !=
          std::string::npos);
    CHECK_FALSE(listener.side.receivers[0].can_receive());
  };
  // The faults are a counter out of order, more bytes than a slot, an unknown channel, and an unknown kind.
  const tcp::FrameHeader bad[] = {{slot_kind, 0, 1, 8, 0, 5, 0},
                                  {slot_kind, 0, 1, 4096, 0, 0, 0},
                                  {slot_kind, 9, 1, 8, 0, 0, 0},
                                  {0x1234, 0, 1, 8, 0, 0, 0}};
  for (const tcp::FrameHeader &frame : bad)
    for (const uint32_t socket_count : {1u, 2u}) {
      CAPTURE(frame.kind, frame.counter, socket_count);
      Listener listener(socket_count);
      listener.send(0, frame, "12345678");
      hears_loss(listener);
    }
  // This slot belongs to the other socket.
  Listener crossed(2);
  crossed.send(0, {slot_kind, 0, 1, 8, 0, 1, 0}, "12345678");
  hears_loss(crossed);
  // The position of this slot holds an earlier slot, which no rank has read.
  Listener full(1);
  const uint64_t slots = small_geometry().slot_count;
  for (uint64_t counter = 0; counter < slots; ++counter) full.send_slot(counter);
  CHECK(full.hear(slots).size() == slots);
  full.send_slot(slots);
  hears_loss(full);
  // This credit is lower than an earlier one.
  Listener taken_back(2);
  taken_back.send(0, {credit_kind, 0, 0, 0, 0, 0, 1});
  CHECK(taken_back.hear(1).size() == 1);
  taken_back.send(0, {credit_kind, 0, 0, 0, 0, 0, 0});
  hears_loss(taken_back);
}

TEST_CASE("tcp: credits of several sockets may overtake each other, and the greatest counts", "[net]") {
  Listener listener(2);
  listener.send(0, {credit_kind, 0, 0, 0, 0, 0, 2});
  REQUIRE(listener.hear(1).size() == 1);
  listener.send(1, {credit_kind, 0, 0, 0, 0, 0, 1});  // sent before credit 2, over another socket
  listener.send(1, {credit_kind, 0, 0, 0, 0, 0, 3});
  const auto events = listener.hear(1);
  REQUIRE(events.size() == 1);
  CHECK(events[0].kind == net::Event::Kind::credit);
  CHECK(events[0].counter == 3);
}

TEST_CASE("tcp: a slot that overtakes earlier ones is told behind them, also where there is no room for all", "[net]") {
  for (const size_t room : {size_t{8}, size_t{2}}) {
    CAPTURE(room);
    Listener listener(3);
    listener.send_slot(1);
    listener.send_slot(2);
    std::array<net::Event, 8> events;
    for (int round = 0; round < 1000; ++round) REQUIRE(listener.network->poll(events) == 0);
    listener.send_slot(0);
    const auto heard = listener.hear(3, room);
    REQUIRE(heard.size() == 3);
    for (uint32_t index = 0; index < 3; ++index) {
      CHECK(heard[index].kind == net::Event::Kind::arrived);
      CHECK(heard[index].counter == index);
      CHECK(heard[index].signature == 10 + index);
    }
  }
}

TEST_CASE("tcp: what has come is told, though nothing can be sent to the peer any more", "[net]") {
  Listener listener(1);
  listener.send_slot(0);
  listener.peer.clear();  // the peer has left, so the credit below meets a closed connection
  REQUIRE(listener.network->credit(0, 1));
  const auto events = listener.hear(2);
  REQUIRE(events.size() == 2);
  CHECK(events[0].kind == net::Event::Kind::arrived);
  CHECK(events[1].kind == net::Event::Kind::lost);
}

TEST_CASE("tcp: of frames with tags, one that was changed, repeated or left out ends the connection", "[net]") {
  constexpr std::string_view payload = "12345678";
  const auto slot = [&](uint64_t counter) { return tcp::FrameHeader{slot_kind, 0, 7, 8, 0, counter, 0}; };
  /// Returns a frame as the peer sends it: its n-th frame has the n-th tag of its key.
  const auto frame = [&](wire::FrameTagger &tagger, const tcp::FrameHeader &header) {
    const std::string_view data = payload.substr(0, header.bytes);
    const wire::FrameTag tag = tagger.next(tcp::bytes_of_header(header), bytes_of(data));
    std::string bytes(text_of(tcp::bytes_of_header(header)));
    return bytes.append(data).append(text_of(tag));
  };
  struct Row {
    const char *what;
    std::function<std::string(wire::FrameTagger &)> bytes;
    size_t arrived;  ///< before the connection ends
  };
  const auto changed = [&](size_t at) {
    return [&, at](wire::FrameTagger &tagger) {
      std::string bytes = frame(tagger, slot(0));
      bytes[at] = static_cast<char>(bytes[at] ^ 1);
      return bytes;
    };
  };
  constexpr size_t header_bytes = sizeof(tcp::FrameHeader);
  const Row rows[] = {
      {"signature", changed(offsetof(tcp::FrameHeader, signature)), 0},
      {"credit of a slot", changed(offsetof(tcp::FrameHeader, consumed)), 0},
      {"first byte", changed(header_bytes), 0},
      {"last byte", changed(header_bytes + payload.size() - 1), 0},
      {"tag", changed(header_bytes + payload.size()), 0},
      {"another key",
       [&](wire::FrameTagger &) {
         wire::FrameTagger other(test_key(3));
         return frame(other, slot(0));
       },
       0},
      {"credit that nobody gave",
       [&](wire::FrameTagger &tagger) {
         std::string bytes = frame(tagger, {credit_kind, 0, 0, 0, 0, 0, 1});
         bytes[offsetof(tcp::FrameHeader, consumed)] = 2;
         return bytes;
       },
       0},
      {"a frame left out",
       [&](wire::FrameTagger &tagger) {
         static_cast<void>(frame(tagger, {credit_kind, 0, 0, 0, 0, 0, 1}));
         return frame(tagger, slot(0));
       },
       0},
      {"a credit repeated",
       [&](wire::FrameTagger &tagger) {
         const std::string first = frame(tagger, slot(0));
         const std::string credit = frame(tagger, {credit_kind, 0, 0, 0, 0, 0, 0});
         return first + credit + credit;
       },
       1},
  };
  for (const Row &row : rows) {
    CAPTURE(row.what);
    const std::optional<net::FrameKeys> keys{{test_key(1), test_key(2)}};
    Listener listener(1, keys);
    wire::FrameTagger tagger(keys->receive);
    const std::string bytes = row.bytes(tagger);
    REQUIRE(::send(listener.peer[0].get(), bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    const auto events = listener.hear(row.arrived + 1);
    REQUIRE(events.size() == row.arrived + 1);
    CHECK(events.back().kind == net::Event::Kind::lost);
    CHECK(listener.network->why_lost(1).message.find("wrong tag") != std::string::npos);
  }
}
