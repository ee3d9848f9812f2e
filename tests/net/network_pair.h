// SPDX-License-Identifier: Apache-2.0
// Two ends of a network in one process.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/net/memory_store.h"
#include "transports/net.h"

namespace rondo::net_test {

/// Of one of two.
struct NetworkEnd {
  const std::vector<net::NearLink> &links;
  const RdmaMemory *memory = nullptr;  ///< which has their device slots
};

struct NetworkPair {
  std::unique_ptr<MemoryStore> store = std::make_unique<MemoryStore>();
  std::array<std::unique_ptr<net::Network>, 2> networks;
};

/// make(rank, store) makes one end, a Result<std::unique_ptr<net::Network>>; both at once, since they meet.
template <class Make>
[[nodiscard]] NetworkPair connect_pair(const Make &make) {
  NetworkPair pair;
  std::array<std::optional<Result<std::unique_ptr<net::Network>>>, 2> made;
  std::thread other([&] { made[1] = make(1, *pair.store); });
  made[0] = make(0, *pair.store);
  other.join();
  for (size_t rank = 0; rank < 2; ++rank) {
    INFO((made[rank]->ok() ? "" : made[rank]->error().message));
    REQUIRE(made[rank]->ok());
    pair.networks[rank] = std::move(*made[rank]).value();
  }
  return pair;
}

}  // namespace rondo::net_test
