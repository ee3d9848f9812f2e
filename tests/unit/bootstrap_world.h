// SPDX-License-Identifier: Apache-2.0
// This file runs a store server and its clients without sockets or clocks. The test itself carries the bytes, in pieces
// that depend on a seed, and time is a number.
#pragma once

#include <map>
#include <random>

#include "src/bootstrap/store/client_session.h"
#include "src/bootstrap/store/hub.h"
#include "tests/catch.h"
#include "tests/seconds.h"
#include "tests/seeds.h"

namespace rondo::test {

using rondo_test::seed_from_environment;

inline Secret secret_of(uint8_t fill) {
  Secret secret;
  secret.bytes.fill(std::byte{fill});
  return secret;
}

inline wire::Challenge challenge_of(uint64_t number) {
  wire::Challenge challenge{};
  for (size_t at = 0; at < 8; ++at) challenge[at] = std::byte(number >> (8 * at));
  return challenge;
}

inline Bytes copy_of(ByteView bytes) { return {bytes.begin(), bytes.end()}; }

inline Bytes bytes_from(std::string_view text) { return copy_of(bytes_of(text)); }

inline Request make_request(Request::Kind kind, std::string key, std::string_view value = {}) {
  Request request;
  request.kind = kind;
  request.key = std::move(key);
  request.value = bytes_from(value);
  return request;
}

inline Request make_gather(std::string key, uint32_t rank, uint32_t count, std::string_view value) {
  Request request = make_request(Request::Kind::gather, std::move(key), value);
  request.rank = rank;
  request.count = count;
  return request;
}

/// One client session and one server session, directly connected.
struct Pair {
  Secret secret = secret_of(7);
  StoreSession server;
  StoreClientSession client;
  std::vector<Request> requests;
  uint64_t now = second_ns;

  explicit Pair(uint64_t number = 1)
      : server(secret, challenge_of(number), second_ns), client(secret, challenge_of(number + 1000), "test") {}

  Bytes take_client() {
    Bytes bytes = copy_of(client.output());
    client.sent(bytes.size());
    return bytes;
  }
  Bytes take_server() {
    Bytes bytes = copy_of(server.output());
    server.sent(bytes.size(), now);
    return bytes;
  }
  void to_server(ByteView bytes) { server.receive(bytes, now, requests); }
  void shake_hands() {
    to_server(take_client());
    client.receive(take_server());
    to_server(take_client());
    REQUIRE(server.authenticated());
    REQUIRE(client.open());
  }
};

/// A hub with its clients. Each turn carries a random piece of one client's or connection's output.
class World {
 public:
  explicit World(uint64_t seed, const HubLimits &limits = {}) : random(seed), hub(secret, limits) {}

  /// Connects a client. Returns 0 if the hub cannot accept one now.
  uint64_t connect() {
    if (!hub.can_accept()) return 0;
    return hub.accept(challenge_of(random()), now);
  }

  uint64_t between(uint64_t least, uint64_t most) {
    return std::uniform_int_distribution<uint64_t>(least, most)(random);
  }

  /// Carries a piece in both directions between `client` and its connection.
  void carry(uint64_t connection, StoreClientSession &client) {
    if (const ByteView out = client.output(); !out.empty()) {
      const Bytes piece = copy_of(out.first(between(1, out.size())));
      client.sent(piece.size());
      hub.receive(connection, piece, now);
    }
    if (const ByteView out = hub.output(connection); !out.empty()) {
      const Bytes piece = copy_of(out.first(between(1, out.size())));
      hub.sent(connection, piece.size(), now);
      client.receive(piece);
    }
  }

  std::mt19937_64 random;
  Secret secret = secret_of(7);
  StoreHub hub;
  uint64_t now = second_ns;
};

}  // namespace rondo::test
