// SPDX-License-Identifier: Apache-2.0
// This test checks the size of the slots for messages between hosts.
#include "tests/catch.h"
#include "transports/hosts/connect.h"

using namespace rondo;

TEST_CASE("messages between hosts: slots are as large as the memory for all of them allows", "[net]") {
  const ConnectionGeometry geometry{4, 512 * 1024, 0};
  for (const uint32_t ranks : {2u, 3u, 16u, message_ranks_max})
    for (const NetworkChoice network : {NetworkChoice::tcp, NetworkChoice::verbs}) {
      const ConnectionGeometry chosen = hosts::choose_message_slots(geometry, network, ranks);
      const size_t bytes = size_t{2} * (ranks - 1) * chosen.slot_count * chosen.slot_bytes;
      CHECK(chosen.slot_count == geometry.slot_count);
      CHECK(chosen.slot_bytes >= 4096);
      CHECK(bytes <= size_t{network == NetworkChoice::verbs ? 2u : 8u} << 20);
    }
  CHECK(hosts::choose_message_slots({2, 64, 0}, NetworkChoice::tcp, 64).slot_bytes == 64);
}
