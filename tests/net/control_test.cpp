// SPDX-License-Identifier: Apache-2.0
// The control plane between hosts, with the test as the other host.
#include <initializer_list>
#include <vector>

#include "src/base/clock.h"
#include "src/bootstrap/bytes.h"
#include "tests/catch.h"
#include "tests/net/connected_sockets.h"
#include "transports/net/control.h"

using namespace rondo;
using rondo::net_test::connected_sockets;

namespace {

constexpr uint64_t patience_ns = 20'000'000'000;

}  // namespace

TEST_CASE("control plane: what a peer said last is read whole, though answers to it cannot be sent", "[net]") {
  auto [theirs, own] = connected_sockets();
  std::vector<net::ControlSocket> sockets;
  sockets.push_back({1, std::move(own)});
  net::Control::Owner owner;
  owner.status = [] { return net::RankStatus{RankState::alive, 0, 0}; };
  owner.entered = [](uint64_t) { return OperationInfo{}; };
  owner.failed = [](const Error &) {};
  auto made = net::Control::make(2, std::move(sockets), std::move(owner));
  REQUIRE(made.ok());
  net::Control &control = *made.value();
  Bytes said;  // a thousand questions, more than one reading takes, and that it has left
  const auto say = [&](uint8_t kind, std::initializer_list<uint64_t> words) {
    append_number(said, static_cast<uint32_t>(words.size() * sizeof(uint64_t)));
    append_number(said, kind);
    for (const uint64_t word : words) append_number(said, word);
  };
  constexpr uint8_t status_kind = 1, ask_kind = 2;
  for (uint64_t operation = 1; operation <= 1'000; ++operation) say(ask_kind, {operation});
  say(status_kind, {static_cast<uint64_t>(RankState::left), 7, 7});
  REQUIRE(::send(theirs.get(), said.data(), said.size(), 0) == static_cast<ssize_t>(said.size()));
  theirs.reset();
  for (const uint64_t until_ns = now_ns() + patience_ns;
       now_ns() < until_ns && control.status(1).state != RankState::left;)
    control.step(now_ns());
  CHECK(control.status(1).state == RankState::left);
  CHECK(control.status(1).completed == 7);
  std::vector<uint32_t> dead;
  control.add_dead(dead);
  CHECK(dead.empty());
}
