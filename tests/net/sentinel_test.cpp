// SPDX-License-Identifier: Apache-2.0
// These tests check how long a leaving rank waits for the delivery of its data.
#include <memory>

#include "tests/catch.h"
#include "tests/net/scripted_network.h"
#include "transports/net/sentinel.h"

using namespace rondo;
using namespace rondo::net_test;

namespace {

constexpr uint64_t ms = 1'000'000;
constexpr uint64_t hour_ns = 3'600'000 * ms;  // no test runs this long

/// A rank whose network reports whether the peers' hosts have received the data that it sent.
struct Leaving {
  explicit Leaving(bool delivers, bool failed = false)
      : side(0), ranks(1), control(net::Control::make(alone(ranks)).value()) {
    if (failed) ranks.raise({RONDO_ERROR_ABORTED, "before the sentinel starts, which tells of it"});
    auto network = std::make_unique<ScriptedNetwork>(std::vector<net::Event>());
    network->delivers = delivers;
    side.progress = std::make_unique<net::Progress>(side.memory.links, std::move(network));
    net::Sentinel::Hooks hooks;
    hooks.failed = [failed] { return failed; };
    hooks.ring = [] {};
    hooks.raise_own = [](const Error &) {};
    auto started = net::Sentinel::start(*control, *side.progress, std::move(hooks));
    REQUIRE(started.ok());
    sentinel = std::move(started).value();
  }
  /// Waits for the delivery. Returns how long it has waited.
  uint64_t deliver(uint64_t patience_ns) {
    const uint64_t begun_ns = now_ns();
    sentinel->deliver(patience_ns);
    return now_ns() - begun_ns;
  }

  Side side;
  SceneRanks ranks;
  std::unique_ptr<net::Control> control;
  std::unique_ptr<net::Sentinel> sentinel;
};

}  // namespace

TEST_CASE("sentinel: a rank that leaves waits until its peers' hosts have what it sent, for as long as it was told",
          "[net]") {
  Leaving all_there(true), never(false);
  static_cast<void>(all_there.deliver(hour_ns));
  CHECK(never.deliver(100 * ms) >= 100 * ms);
}

TEST_CASE("sentinel: a rank whose communicator has failed waits for nothing", "[net]") {
  Leaving never(false, true);
  static_cast<void>(never.deliver(hour_ns));
}
