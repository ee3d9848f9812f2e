// SPDX-License-Identifier: Apache-2.0
// These tests check how the ranks of a host share control connections, and how the connections are set up. The test
// acts as the store.
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include <optional>

#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/net/connected_sockets.h"
#include "tests/test_clock.h"
#include "tests/unit/late_store.h"
#include "transports/hosts/control_share.h"

using namespace rondo;
using rondo_test::LateStore;

namespace {

/// Returns the request of a rank, where ranks 0 and 1 are on one host and rank 2 on another.
hosts::ShareRequest request_of(uint32_t rank) {
  return {rank, {0, 0, 1}, "c", now_ns() + 120'000'000'000};
}

}  // namespace

TEST_CASE("control share: a rank that cannot fetch it waits for the reason of the rank that made it", "[net]") {
  LateStore of_owner(0);
  {
    const auto sockets = net_test::connected_sockets();
    REQUIRE(hosts::share_control(request_of(0), {sockets[0].get()}, of_owner).ok());
  }  // the offers have ended
  LateStore store(3);
  store.will_give(of_owner.what_was_put());
  std::optional<rondo_test::HeldClock> clock(std::in_place);  // no deadline passes before the reason arrives
  const auto taken = hosts::share_control(request_of(1), {}, store);
  clock.reset();
  REQUIRE_FALSE(taken.ok());
  CHECK(taken.error().status == RONDO_ERROR_OUT_OF_RESOURCES);
  CHECK(taken.error().message == "rank 0 failed: too few descriptors");

  LateStore silent(1'000'000);
  silent.will_give(of_owner.what_was_put());
  const auto unexplained = hosts::share_control(request_of(1), {}, silent);
  REQUIRE_FALSE(unexplained.ok());
  CHECK(unexplained.error().status == RONDO_ERROR_REMOTE);
  CHECK(unexplained.error().peer == 0);
}

TEST_CASE("control share: what is sent to a host that says nothing is taken in by its kernel", "[net]") {
  const auto sockets = net_test::connected_sockets();
  for (const FileDescriptor &each : sockets) REQUIRE(hosts::set_control_options(each.get()).ok());
  const int common = 212'992, buffer = common / 2;  // a network card's packets take twice as much as loopback's
  REQUIRE(::setsockopt(sockets[1].get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer) == 0);
  const Bytes cell(net::cell_bytes);
  for (uint64_t each = 0; each < net::ControlLines::buffered_max; ++each) {
    REQUIRE(::send(sockets[0].get(), cell.data(), cell.size(), 0) == static_cast<ssize_t>(cell.size()));
    sleep_for_ns(500'000);  // so that each has its own packet, as heartbeats have
  }
  int unacknowledged = 1;
  for (const uint64_t until_ns = now_ns() + 60'000'000'000; unacknowledged != 0 && now_ns() < until_ns;) {
    sleep_for_ns(1'000'000);
    REQUIRE(::ioctl(sockets[0].get(), SIOCOUTQ, &unacknowledged) == 0);
  }
  CHECK(unacknowledged == 0);
}
