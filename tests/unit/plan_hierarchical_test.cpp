// SPDX-License-Identifier: Apache-2.0
// These tests prove schedules among several hosts, with any placement of ranks, and count what crosses the network.
#include <algorithm>
#include <map>
#include <vector>

#include "src/plan/schedule.h"
#include "tests/catch.h"
#include "tests/unit/plan_world.h"

using namespace rondo;
using namespace rondo::test;

namespace {

using Layout = std::vector<uint32_t>;  // by rank: its host

const std::vector<Layout> layouts = {
    {0, 1},
    {0, 0, 1, 1},
    {0, 1, 0, 1},
    {0, 0, 1},
    {0, 1, 1, 1, 2},
    {0, 0, 0, 1, 1, 1, 2, 2, 2},
    {2, 0, 1, 2, 0, 1, 2, 2},
    {0, 1, 2, 3, 4},
    {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3},
};

constexpr rondo_collective_t collectives[] = {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER,
                                              RONDO_BROADCAST, RONDO_REDUCE};

Choice choice_of(rondo_algorithm_t algorithm, rondo_collective_t collective, const Layout &layout) {
  Choice choice;
  choice.algorithm = algorithm;
  choice.collective = collective;
  choice.rank_count = static_cast<uint32_t>(layout.size());
  choice.node_of = layout;
  choice.even_blocks = true;
  choice.element_count = 960 * layout.size();  // divisible by many numbers of chunks, so chunks are even
  choice.chunk_elements = choice.element_count;
  return choice;
}

/// Returns the number of elements that cross the network, by (from host, to host).
std::map<std::pair<uint32_t, uint32_t>, uint64_t> crossings(const Choice &choice) {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> counts;
  Operation operation;
  make_operation(operation, choice);
  for (uint32_t rank = 0; rank < choice.rank_count; ++rank)
    for (const Lane &lane : operation.schedules[rank].lanes)
      for (const Step &step : lane)
        for (const LinkIndex link : step.send_link) {
          if ((step.flags & step_send) == 0 || link == no_link) continue;
          const uint32_t from = choice.node_of[rank], to = choice.node_of[operation.schedules[rank].peers[link]];
          if (from != to) counts[{from, to}] += operation.partition.range(0, step.chunk).count;
        }
  return counts;
}

/// Returns which fraction of the vector `host` sends over the network, and which fraction it receives.
std::pair<double, double> crossed(const Choice &choice, uint32_t host) {
  std::pair<double, double> parts;
  for (const auto &[ends, count] : crossings(choice)) {
    const double part = static_cast<double>(count) / static_cast<double>(choice.element_count);
    if (ends.first == host) parts.first += part;
    if (ends.second == host) parts.second += part;
  }
  return parts;
}

}  // namespace

TEST_CASE("several hosts: rings and hierarchical schedules are proven, even and uneven, every root and channel") {
  for (const rondo_algorithm_t algorithm :
       {RONDO_ALGORITHM_HIERARCHICAL, RONDO_ALGORITHM_HIERARCHICAL_TREE, RONDO_ALGORITHM_RING})
    for (const rondo_collective_t collective : collectives)
      for (const Layout &layout : layouts)
        for (uint32_t root = 0; root < layout.size(); ++root)
          for (const uint32_t kind : {0u, 1u, 2u, 3u, 4u, 5u}) {
            const bool rooted = collective == RONDO_BROADCAST || collective == RONDO_REDUCE;
            if (!find_algorithm(algorithm)->supports(collective) || (!rooted && root != 0)) continue;
            Choice choice = choice_of(algorithm, collective, layout);
            choice.root = root;
            choice.in_place = kind % 3;
            choice.channel = kind % 2;
            choice.even_blocks = kind >= 3;
            choice.slot_count = kind < 3 ? 2 : 4;
            choice.slot_elements = 3;
            choice.chunk_elements = 3 * (choice.slot_count - 1);
            choice.element_count = 2 * choice.chunk_elements * layout.size() * layout.size() + 5;
            Operation operation;
            make_operation(operation, choice);
            INFO(to_string(choice));
            for (const bool by_reference : {false, true}) {
              const auto references = by_reference ? safe_references(choice, operation) : std::vector<bool>();
              const auto violation = verify_operation(operation, references);
              REQUIRE((violation ? to_string(*violation) : "") == "");
            }
          }
}

TEST_CASE("several hosts: executed in random order, hierarchical schedules and rings give the right result") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  Random random(seed);
  for (const rondo_algorithm_t algorithm :
       {RONDO_ALGORITHM_HIERARCHICAL, RONDO_ALGORITHM_HIERARCHICAL_TREE, RONDO_ALGORITHM_RING})
    for (const rondo_collective_t collective : collectives)
      for (int round = 0; round < 40 && find_algorithm(algorithm)->supports(collective); ++round) {
        Layout layout(between(random, 2, 12));
        for (uint32_t &host : layout) host = between(random, 0, 3);
        Choice choice = choice_of(algorithm, collective, layout);
        choice.root = between(random, 0, choice.rank_count - 1);
        choice.channel = between(random, 0, 2);
        choice.in_place = between(random, 0, 2);
        choice.slot_count = between(random, 2, 4);
        choice.slot_elements = between(random, 1, 3);
        choice.chunk_elements = between(random, 1, choice.slot_elements * (choice.slot_count - 1));
        choice.element_count = between(random, 0, 3 * choice.chunk_elements * choice.rank_count + 1);
        choice.even_blocks = round % 2 == 0;
        Operation operation;
        make_operation(operation, choice);
        INFO(to_string(choice));
        REQUIRE(run_numbers(operation, random) == "");
      }
}

TEST_CASE("hierarchical: an all-reduce sends 2 (h - 1) / h of the vector from each of h hosts") {
  for (const Layout &layout : {Layout{0, 1}, Layout{0, 0, 1, 1}, Layout{0, 1, 0, 1}, Layout{0, 0, 0, 1, 1},
                               Layout{0, 0, 0, 0, 1, 1, 1, 1}, Layout{0, 0, 1, 1, 2, 2, 3, 3}}) {
    const uint32_t host_count = layout.back() + 1;
    for (uint32_t host = 0; host < host_count; ++host) {
      const auto parts = crossed(choice_of(RONDO_ALGORITHM_HIERARCHICAL, RONDO_ALL_REDUCE, layout), host);
      CAPTURE(layout, host);
      CHECK(parts.first == Approx(2.0 * (host_count - 1) / host_count));
      CHECK(parts.second == Approx(2.0 * (host_count - 1) / host_count));
    }
  }
}

TEST_CASE("hierarchical: of a reduce-scatter and an all-gather each block crosses once for each other host") {
  for (const Layout &layout : {Layout{0, 0, 1, 1}, Layout{1, 0, 1, 0, 2, 2}, Layout{0, 0, 0, 1, 2, 2}}) {
    std::map<uint32_t, double> ranks_of;
    for (const uint32_t host : layout) ++ranks_of[host];
    for (const auto &[host, ranks] : ranks_of) {
      const double own = ranks / static_cast<double>(layout.size());
      const double hosts = static_cast<double>(ranks_of.size());
      CAPTURE(layout, host);
      const auto reduced = crossed(choice_of(RONDO_ALGORITHM_HIERARCHICAL, RONDO_REDUCE_SCATTER, layout), host);
      CHECK(reduced.first == Approx(1 - own));             // one sum for each rank on other hosts
      CHECK(reduced.second == Approx(own * (hosts - 1)));  // sums for its own ranks, from each other host
      const auto gathered = crossed(choice_of(RONDO_ALGORITHM_HIERARCHICAL, RONDO_ALL_GATHER, layout), host);
      CHECK(gathered.first == Approx(own * (hosts - 1)));
      CHECK(gathered.second == Approx(1 - own));
    }
  }
}

TEST_CASE("hierarchical: a broadcast and a reduce send the vector at most once from each host and to each host") {
  for (const rondo_algorithm_t algorithm : {RONDO_ALGORITHM_HIERARCHICAL, RONDO_ALGORITHM_RING})
    for (const rondo_collective_t collective : {RONDO_BROADCAST, RONDO_REDUCE})
      for (const Layout &layout : layouts)
        for (uint32_t root = 0; root < layout.size(); ++root) {
          Choice choice = choice_of(algorithm, collective, layout);
          choice.root = root;
          for (const uint32_t host : layout) {
            INFO(to_string(choice) << " host " << host);
            CHECK(crossed(choice, host).first <= 1.0001);
            CHECK(crossed(choice, host).second <= 1.0001);
          }
        }
}

TEST_CASE("hierarchical tree: one message a host and direction, however many ranks it has") {
  for (const Layout &layout : layouts) {
    const uint32_t host_count = *std::max_element(layout.begin(), layout.end()) + 1;
    for (const auto &[collective, messages] :
         {std::pair(RONDO_ALL_REDUCE, 2u), std::pair(RONDO_BROADCAST, 1u), std::pair(RONDO_REDUCE, 1u)}) {
      const Choice choice = choice_of(RONDO_ALGORITHM_HIERARCHICAL_TREE, collective, layout);
      uint64_t elements = 0;
      for (const auto &[ends, count] : crossings(choice)) elements += count;
      INFO(to_string(choice));
      CHECK(elements == messages * (host_count - 1) * choice.element_count);
    }
  }
}

TEST_CASE("ring: hosts follow each other wherever their ranks are, so that each is left once") {
  for (const Layout &layout : {Layout{0, 1, 0, 1}, Layout{0, 1, 2, 0, 1, 2, 0}, Layout{0, 1, 1, 0}}) {
    const uint32_t host_count = *std::max_element(layout.begin(), layout.end()) + 1;
    const double ranks = static_cast<double>(layout.size());
    for (const rondo_collective_t collective : {RONDO_ALL_REDUCE, RONDO_REDUCE_SCATTER, RONDO_ALL_GATHER})
      for (uint32_t host = 0; host < host_count; ++host) {
        const Choice choice = choice_of(RONDO_ALGORITHM_RING, collective, layout);
        INFO(to_string(choice) << " host " << host);
        CHECK(crossed(choice, host).first ==
              Approx((collective == RONDO_ALL_REDUCE ? 2 : 1) * (ranks - 1) / ranks));
      }
  }
}
