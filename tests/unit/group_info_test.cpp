// SPDX-License-Identifier: Apache-2.0
// These tests check what ranks know of their group: its nodes, and the ranks on each node.
#include <unistd.h>

#include <string>
#include <thread>
#include <vector>

#include "src/base/clock.h"
#include "src/core/init.h"
#include "tests/catch.h"

using namespace rondo;

namespace {

constexpr uint64_t deadline_after_ns = 60'000'000'000;

std::vector<uint32_t> ranks_of(const GroupInfo &group, uint32_t node) {
  const auto ranks = group.ranks_of(node);
  return {ranks.begin(), ranks.end()};
}

/// Exchanges information among `rank_count` ranks that are threads. settings_of(rank) returns the rank's settings.
template <class SettingsOf>
std::vector<Result<GroupInfo>> exchange(uint32_t rank_count, const SettingsOf &settings_of) {
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
        groups[rank] = exchange_peer_info(*store.value(), "c", rank, rank_count, settings_of(rank), Topology{},
                                          deadline_ns);
    });
  }
  for (std::thread &thread : threads) thread.join();
  return groups;
}

}  // namespace

TEST_CASE("group info: ranks that alternate between nodes are counted on each") {
  const GroupInfo group(std::vector<uint32_t>{7, 1, 7, 3, 1, 7});
  CHECK(group.rank_count() == 6);
  CHECK(group.node_count() == 3);
  CHECK_FALSE(group.one_node());
  CHECK(ranks_of(group, 0) == std::vector<uint32_t>{0, 2, 5});
  CHECK(ranks_of(group, 1) == std::vector<uint32_t>{1, 4});
  CHECK(ranks_of(group, 2) == std::vector<uint32_t>{3});
  for (uint32_t rank = 0; rank < group.rank_count(); ++rank)
    CHECK(group.ranks_of(group.node_of(rank))[group.index_on_node(rank)] == rank);
}

TEST_CASE("group info: every rank knows of each its process, host, cores and network interfaces") {
  const auto groups = exchange(2, [](uint32_t rank) {
    Settings settings;
    settings.network_interface = rank == 0 ? "127.0.0.1" : "lo";
    return settings;
  });
  for (const auto &group : groups) {
    REQUIRE(group.ok());
    REQUIRE(group.value().infos.size() == 2);
    CHECK(group.value().infos == groups[0].value().infos);
    for (const RankInfo &info : group.value().infos) {
      CHECK(info.node == 0);
      CHECK(info.process == static_cast<uint64_t>(::getpid()));
      CHECK_FALSE(info.host_name.empty());
      CHECK_FALSE(info.cores.empty());
      CHECK(info.interfaces == std::vector<NetworkInterface>{{"lo", "127.0.0.1"}});
    }
    CHECK(group.value().infos[1].describe(1).starts_with("rank 1 (host " + group.value().infos[1].host_name + ", "));
  }
}

TEST_CASE("group info: an interface that is not there matters only where a network is needed") {
  const auto groups = exchange(2, [](uint32_t) {
    Settings settings;
    settings.network_interface = "no-such-interface";
    return settings;
  });
  for (const auto &group : groups) {
    REQUIRE(group.ok());
    for (const RankInfo &info : group.value().infos) CHECK(info.interfaces.empty());
  }
}

TEST_CASE("group info: the ranks of one host are one node, and three on one core oversubscribe it") {
  constexpr uint32_t rank_count = 3;
  for (const auto &group : exchange(rank_count, [](uint32_t) { return Settings{}; })) {
    REQUIRE(group.ok());
    CHECK(group.value().one_node());
    CHECK(group.value().ranks_of(0).size() == rank_count);
    CHECK(group.value().core_count == 1);  // a machine whose topology is not reported counts as one core
    CHECK(group.value().oversubscribed);
  }
}

TEST_CASE("group info: each setting that ranks must agree on is compared, and told as it is written") {
  const auto text_of = [](const ConfigVariable &variable) {  // returns a value other than the default
    for (const char *value :
         {"tree", "ll", "interpreter", "ucx", "sleep", "copy", "vmm", "shared", "on", "4", "64", "64M"})
      if (Config config; variable.parse(value, config).ok() && variable.show(config) == value) return value;
    return "";
  };
  uint32_t shared_count = 0;
  for (const ConfigVariable &variable : config_variables()) {
    if (variable.shared.get == nullptr) continue;
    ++shared_count;
    Settings other;
    REQUIRE(variable.parse(text_of(variable), other).ok());
    INFO(variable.name);
    for (const auto &group : exchange(2, [&](uint32_t rank) { return rank == 0 ? Settings{} : other; })) {
      REQUIRE_FALSE(group.ok());
      CHECK(group.error().status == RONDO_ERROR_MISMATCH);
      CHECK(group.error().peer == 1);
      const std::string &message = group.error().message;
      CHECK(message.find(std::string("ranks 0 and 1 differ in ") + variable.name) == 0);
      CHECK(message.find(": " + variable.show(Settings{}) + " and " + text_of(variable) + ";") != message.npos);
    }
  }
  CHECK(shared_count == 18);
}
