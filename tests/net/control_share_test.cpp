// SPDX-License-Identifier: Apache-2.0
// How the ranks of a host come to hold the control connections in common, with the test as the store.
#include "src/base/clock.h"
#include "tests/catch.h"
#include "tests/net/connected_sockets.h"
#include "tests/unit/late_store.h"
#include "transports/hosts/control_share.h"

using namespace rondo;
using rondo_test::LateStore;

namespace {

/// Ranks 0 and 1 on one host, rank 2 on another.
hosts::ShareRequest request_of(uint32_t rank) {
  return {rank, {0, 0, 1}, {1}, "c", now_ns() + 10'000'000'000};
}

}  // namespace

TEST_CASE("control share: a rank that cannot fetch it waits for the reason of the rank that made it", "[net]") {
  LateStore of_owner(0);
  {
    const auto sockets = net_test::connected_sockets();
    REQUIRE(hosts::share_control(request_of(0), {sockets[0].get()}, of_owner).ok());
  }  // it offers nothing any more
  LateStore store(3);
  store.will_give(of_owner.what_was_put());
  const auto taken = hosts::share_control(request_of(1), {}, store);
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
