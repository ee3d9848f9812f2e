// SPDX-License-Identifier: Apache-2.0
// This file makes two ends of a network in one process.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "src/bootstrap/store/forwarding_store.h"
#include "src/bootstrap/store/store.h"
#include "tests/catch.h"
#include "transports/net.h"

namespace rondo::net_test {

/// One of the two ends.
struct NetworkEnd {
  const std::vector<net::NearLink> &links;
  const RdmaMemory *memory = nullptr;  ///< memory of its device slots
};

/// The parts that all ranks have contributed to gathers, by the key of the gather.
using Gathered = std::map<std::string, std::vector<Bytes>>;

/// Records what its rank has gathered.
class NotingStore final : public ForwardingStore {
 public:
  NotingStore(Store &store, Gathered &gathered) : ForwardingStore(store), gathered_(gathered) {}
  Result<std::vector<Bytes>> gather(std::string_view key, uint32_t rank, uint32_t count,
                                    std::span<const std::byte> value, uint64_t deadline_ns) override {
    auto parts = ForwardingStore::gather(key, rank, count, value, deadline_ns);
    if (parts.ok()) gathered_[std::string(key)] = parts.value();
    return parts;
  }

 private:
  Gathered &gathered_;
};

struct NetworkPair {
  Gathered gathered;  ///< the parts that the ends gathered while they connected
  std::array<std::unique_ptr<net::Network>, 2> networks;
};

/// Connects two ends. make(rank, store) makes one end, as a Result<std::unique_ptr<net::Network>>. Both calls run at
/// once.
template <class Make>
[[nodiscard]] NetworkPair connect_pair(const Make &make) {
  NetworkPair pair;
  std::array<std::optional<Result<std::unique_ptr<net::Network>>>, 2> made;
  const auto stores = make_local_stores(2);
  NotingStore noting(*stores[0], pair.gathered);
  std::thread other([&] { made[1] = make(1, *stores[1]); });
  made[0] = make(0, noting);
  other.join();
  for (size_t rank = 0; rank < 2; ++rank) {
    INFO((made[rank]->ok() ? "" : made[rank]->error().message));
    REQUIRE(made[rank]->ok());
    pair.networks[rank] = std::move(*made[rank]).value();
  }
  return pair;
}

}  // namespace rondo::net_test
