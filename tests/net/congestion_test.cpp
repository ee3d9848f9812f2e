// SPDX-License-Identifier: Apache-2.0
// These tests check the congestion control of sockets between hosts, on connections over loopback.
#include "transports/hosts/congestion.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "src/base/unique_handle.h"
#include "tests/catch.h"
#include "tests/net/connected_sockets.h"

using namespace rondo;
using hosts::Congestion;
using hosts::congestion_control_of;
using net_test::connected_sockets;

namespace {

/// Checks which congestion control both ends of a connection have after `congestion` has settled on one.
void check_both(const Congestion &congestion, uint32_t near_limit_us, const std::string &expected) {
  for (const FileDescriptor &end : connected_sockets(0, [&](int socket) { congestion.begin(socket); })) {
    congestion.settle(end.get(), near_limit_us);
    CHECK(congestion_control_of(end.get()) == expected);
  }
}

bool is_permitted(const std::string &name) {
  std::ifstream file("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
  for (std::string each; file >> each;)
    if (each == name) return true;
  return false;
}

}  // namespace

TEST_CASE("the system's congestion control stays where it is asked for, and by default where it is not bbr", "[net]") {
  const std::string system = Congestion::of_new_sockets();
  REQUIRE_FALSE(system.empty());
  const Congestion kept = Congestion::make("system").value();
  CHECK(kept.describe() == "the system's " + system);
  check_both(kept, 0, system);
  check_both({}, 0, system);
  for (const char *other : {"cubic", "reno", "dctcp", ""}) CHECK(Congestion::instead_of(other) == std::string());
  CHECK(Congestion::instead_of("bbr") == std::string("cubic"));
  CHECK(Congestion::make("auto", "dctcp").value().describe() == "the system's dctcp");
  check_both(Congestion::make("auto", "dctcp").value(), 0, system);
}

TEST_CASE("a congestion control that is named is that of both ends, near and far", "[net]") {
  const Congestion reno = Congestion::make("reno").value();
  CHECK(reno.describe() == "reno");
  check_both(reno, Congestion::near_us, "reno");
  check_both(reno, 0, "reno");
}

TEST_CASE("in place of bbr near hosts get cubic, and far ones keep bbr", "[net]") {
  if (!is_permitted("cubic") || !is_permitted("bbr")) {
    std::printf("skipped: cubic in place of bbr: this kernel does not permit both (net.ipv4.tcp_allowed_...)\n");
    return;
  }
  const Congestion automatic = Congestion::make("auto", "bbr").value();
  CHECK(automatic.describe() == "cubic to hosts within 1 ms, else the system's bbr");
  check_both(automatic, 10'000'000, "cubic");
  check_both(automatic, 0, "bbr");  // every round trip exceeds the limit
}

TEST_CASE("a congestion control that the kernel does not know is refused with those that it permits", "[net]") {
  const auto made = Congestion::make("no_such");
  REQUIRE_FALSE(made.ok());
  CHECK(made.error().status == RONDO_ERROR_UNSUPPORTED);
  CHECK_THAT(made.error().message,
             Contains("RONDO_TCP_CONGESTION=no_such is unknown to this kernel, or not loaded; permitted are auto,"));
  CHECK_THAT(made.error().message, Contains("reno"));
  CHECK_FALSE(Congestion::make("a_name_that_is_longer_than_any_of_the_kernel").ok());
}
