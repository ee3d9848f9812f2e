// SPDX-License-Identifier: Apache-2.0
// These tests compare the simulator's times of the lanes that move blocks with closed forms.
#include "src/sim/simulate.h"
#include "tests/catch.h"
#include "tests/unit/simulated.h"

using namespace rondo;
using namespace rondo::sim;

TEST_CASE("simulator: blocks go straight to their ranks, side by side, unless they share a port", "[sim]") {
  for (const rondo_collective_t collective : {RONDO_ALL_TO_ALL, RONDO_GATHER, RONDO_SCATTER})
    for (const bool in_place : {false, true}) {
      constexpr uint32_t ranks = 8;
      CAPTURE(rondo_collective_string(collective), in_place);
      SimCase what;
      what.bytes = ranks * 65536;
      what.network.nodes = even_nodes(ranks, 1, 0);
      what.network.links[2] = {5, 5, 50, Sharing::pair};
      what.collective = collective;
      what.in_place = in_place;
      what.root = 3;
      CHECK(simulated_us(what) == Approx(5 + 65536 / 50e3));
      const uint64_t blocks = (ranks - 1) * (collective == RONDO_ALL_TO_ALL ? ranks : 1);
      CHECK(Simulator().simulate(what).value().outcome.link_bytes[2] == blocks * 65536);
      what.network.links[2].sharing = Sharing::rank;
      CHECK(simulated_us(what) == Approx(5 + (ranks - 1) * 65536 / 50e3));
    }
}
