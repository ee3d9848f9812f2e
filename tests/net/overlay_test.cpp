// SPDX-License-Identifier: Apache-2.0
// Which hosts have control connections with each other, and ways over them.
#include "transports/net/overlay.h"

#include <algorithm>

#include "tests/catch.h"

using namespace rondo;
using net::Overlay;

TEST_CASE("overlay: up to the bound each two hosts are joined, above it 2 log2(n) and both ends agree", "[net]") {
  CHECK(Overlay(64, net::mesh_hosts_max).is_mesh());
  CHECK(Overlay(64, net::mesh_hosts_max).neighbours(5).size() == 63);
  CHECK_FALSE(Overlay(65, net::mesh_hosts_max).is_mesh());
  CHECK(Overlay(1024, net::mesh_hosts_max).neighbours(7).size() == 19);
  for (uint32_t count = 5; count <= 130; ++count) {
    const Overlay overlay(count, 4);
    uint32_t bits = 0;
    while ((1u << bits) <= count / 2) ++bits;
    bool right = true;
    for (uint32_t host = 0; host < count; ++host) {
      const auto &all = overlay.neighbours(host);
      right &= all.size() <= 2 * bits && std::ranges::is_sorted(all) && !overlay.place(host, host);
      for (uint32_t place = 0; place < all.size(); ++place)
        right &= overlay.place(host, all[place]) == place && overlay.place(all[place], host).has_value();
    }
    CHECK(right);
  }
}

TEST_CASE("overlay: what a host tells reaches each other one once, by log2(n) neighbours at most", "[net]") {
  for (const uint32_t count : {5u, 6u, 7u, 8u, 9u, 64u, 65u, 100u, 127u, 130u}) {
    const Overlay overlay(count, 4);
    uint32_t bits = 0;
    while ((1u << bits) < count) ++bits;
    for (uint32_t origin = 0; origin < count; ++origin)
      for (uint32_t host = 0; host < count; ++host) {
        uint32_t hops = 0, at = host;
        while (at != origin && hops <= bits) {
          const uint32_t parent = overlay.parent(origin, at);
          REQUIRE(overlay.place(at, parent).has_value());
          at = parent;
          ++hops;
        }
        REQUIRE(at == origin);
        REQUIRE(hops <= bits);
      }
  }
}

TEST_CASE("overlay: a way goes around what is down, and there is none to a host whose connections are all down",
          "[net]") {
  const Overlay overlay(9, 4);
  const auto cut_off = [](uint32_t one, uint32_t other) { return one == 4 || other == 4; };
  const auto first = overlay.first_hops(0, cut_off);
  for (uint32_t host = 1; host < 9; ++host) CHECK((first[host] == Overlay::no_way) == (host == 4));
  CHECK(overlay.first_hops(0, [](uint32_t, uint32_t) { return false; })[4] == 4);
  const auto around = overlay.first_hops(0, [](uint32_t one, uint32_t other) { return one + other == 4; });  // 0 and 4
  CHECK(around[4] != 4);
  CHECK(overlay.place(0, around[4]).has_value());
}
