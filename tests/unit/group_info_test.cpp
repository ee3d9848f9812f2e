// SPDX-License-Identifier: Apache-2.0
// What ranks know of their group: nodes, and which ranks are on each.
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/core/group_info.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

constexpr uint64_t deadline_after_ns = 60'000'000'000;

std::vector<uint32_t> ranks_of(const GroupInfo &group, uint32_t node) {
  const auto ranks = group.ranks_of(node);
  return {ranks.begin(), ranks.end()};
}

}  // namespace

TEST_CASE("group info: ranks that alternate between nodes are counted on each") {
  const GroupInfo group(std::vector<uint32_t>{7, 1, 7, 3, 1, 7});
  CHECK(group.rank_count() == 6);
  CHECK(group.node_count() == 3);
  CHECK_FALSE(group.one_node());
  CHECK(group.shares_nodes());
  CHECK_FALSE(GroupInfo(std::vector<uint32_t>{0, 1, 2}).shares_nodes());
  CHECK(ranks_of(group, 0) == std::vector<uint32_t>{0, 2, 5});
  CHECK(ranks_of(group, 1) == std::vector<uint32_t>{1, 4});
  CHECK(ranks_of(group, 2) == std::vector<uint32_t>{3});
  for (uint32_t rank = 0; rank < group.rank_count(); ++rank)
    CHECK(group.ranks_of(group.node_of(rank))[group.index_on_node(rank)] == rank);
}

TEST_CASE("group info: the ranks of one host are one node, and three on one core oversubscribe it") {
  constexpr uint32_t rank_count = 3;
  const Secret secret = random_secret();
  const auto server = start_store_server({"127.0.0.1", 0}, secret);
  REQUIRE(server.ok());
  std::vector<Result<GroupInfo>> groups(rank_count, Error{});
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] {
      const uint64_t deadline_ns = now_ns() + deadline_after_ns;
      const auto store = connect_store(server.value()->endpoint(), secret, deadline_ns);
      if (store.ok())
        groups[rank] = exchange_peer_info(*store.value(), "c", rank, rank_count, Settings{}, Topology{}, deadline_ns);
    });
  }
  for (std::thread &thread : threads) thread.join();
  for (const auto &group : groups) {
    REQUIRE(group.ok());
    CHECK(group.value().one_node());
    CHECK(group.value().ranks_of(0).size() == rank_count);
    CHECK(group.value().core_count == 1);  // the topology of a machine that tells none
    CHECK(group.value().oversubscribed);
  }
}
