// SPDX-License-Identifier: Apache-2.0
// These tests compare the simulator with a plain event simulation of every step, and with closed forms.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <utility>

#include "src/cli/sim/sim.h"
#include "src/sim/simulate.h"
#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/seeds.h"
#include "tests/unit/sim_reference.h"
#include "tests/unit/simulated.h"

using namespace rondo;
using namespace rondo::sim;
using rondo_test::seed_from_environment;

namespace {

struct Random {
  std::mt19937_64 bits;
  uint32_t between(uint32_t least, uint32_t most) {
    return static_cast<uint32_t>(least + bits() % (uint64_t{most} - least + 1));
  }
};

Network random_network(Random &random) {
  Network network;
  const bool even = random.between(0, 1) == 0;
  const uint32_t node_count = random.between(1, 6), ranks = random.between(1, 4);
  for (uint32_t node = 0; node < node_count; ++node) {
    const uint32_t count = even ? ranks : random.between(1, 4);
    network.nodes.push_back({count, even ? (ranks + 1) / 2 : random.between(1, count), node / 2});
  }
  for (LinkCost &link : network.links) {
    link.alpha_us = random.between(0, 3) * 0.7;
    link.ll_alpha_us = link.alpha_us * 0.5;
    link.bandwidth_GBps = random.between(1, 40);
    constexpr Sharing sharings[] = {Sharing::pair, Sharing::rank, Sharing::node, Sharing::nic};
    const bool within = &link - network.links.data() < 2;
    link.sharing = sharings[random.between(0, within ? 2 : 3)];
    if (random.between(0, 2) == 0) {
      link.burst_bytes = random.between(1, 100) * 1000;
      link.peak_GBps = link.bandwidth_GBps * random.between(1, 8);
    }
  }
  network.reduce_GBps = random.between(0, 2) * 20;
  network.reduce_send_GBps = random.between(0, 2) * 25;
  network.copy_GBps = random.between(0, 2) * 30;
  network.memory_GBps = random.between(0, 1) * 8;
  network.step_us = random.between(0, 2) * 0.3;
  network.core_count = random.between(0, 3);
  network.switch_us = random.between(0, 2) * 0.4;
  network.slot_count = 1u << random.between(1, 3);
  network.slot_bytes = 4096;
  network.ll_slot_bytes = 1024;
  return network;
}

SimCase flat_case(uint32_t ranks, rondo_algorithm_t algorithm, uint64_t bytes) {
  SimCase what;
  what.overrides.algorithm = algorithm;
  what.overrides.protocol = RONDO_PROTOCOL_SIMPLE;
  what.bytes = bytes;
  what.network.nodes = even_nodes(ranks, 1, 0);
  what.network.links[2] = {5, 5, 50, Sharing::pair};
  what.network.reduce_GBps = 400;
  return what;
}

}  // namespace

TEST_CASE("simulator: a limiter lets its bucket pass at the port's rate, and fills it again while nothing is sent") {
  SimCase what = flat_case(2, RONDO_ALGORITHM_RING, 0);
  what.collective = RONDO_BROADCAST;
  what.network.links[2] = {10, 10, 0.025, Sharing::nic, 128'000, 1};
  what.network.slot_bytes = 1 << 20;
  what.overrides.chunk_bytes = 1 << 20;
  const auto message_us = [](double bytes) { return 10 + std::max(bytes / 1e3, (bytes - 128'000) / 25); };
  for (const uint64_t bytes : {64'000u, 128'000u, 256'000u, 1'000'000u}) {
    what.bytes = bytes;
    CHECK(simulated_us(what) == Approx(message_us(static_cast<double>(bytes))).epsilon(1e-6));
  }
  // The two ranks of a host share its port. With hierarchical, the vector crosses the port once for both ranks.
  what.network.nodes = {{2, 1, 0}, {2, 1, 0}};
  what.collective = RONDO_ALL_REDUCE;
  what.overrides = {RONDO_ALGORITHM_HIERARCHICAL, RONDO_PROTOCOL_SIMPLE, 2, 128 << 10};
  what.bytes = 16 << 20;
  const double hierarchical_us = simulated_us(what);
  CHECK(hierarchical_us == Approx((16.0 * 1048576 - 128'000) / 25).epsilon(0.05));
  what.overrides = {RONDO_ALGORITHM_RING, RONDO_PROTOCOL_SIMPLE, 1, 1 << 20};
  CHECK(hierarchical_us < 0.70 * simulated_us(what));
}

TEST_CASE("simulator: where ranks are on several hosts, it chooses as the library does there") {
  SimCase what;
  what.bytes = 4 << 20;
  what.network.nodes = {{2, 1, 0}, {2, 1, 0}};
  CHECK(plan_of(what).value().algorithm == RONDO_ALGORITHM_HIERARCHICAL);
  CHECK(plan_of(what).value().protocol == RONDO_PROTOCOL_SIMPLE);
  what.network.nodes = {{4, 1, 0}};
  CHECK(plan_of(what).value().algorithm != RONDO_ALGORITHM_HIERARCHICAL);
}

TEST_CASE("simulator: any network, algorithm and collective takes the time of a plain event simulation", "[sim]") {
  const uint64_t seed = seed_from_environment();
  CAPTURE(seed);
  Random random{std::mt19937_64(seed)};
  uint64_t compared = 0, skipped = 0, shared = 0, skipped_turns = 0;
  const uint64_t round_count = rondo_test::sanitized() ? 100 : rondo_test::gate_count(500);
  constexpr uint64_t rounds_max = 2'000;
  const auto enough = [&] {  // enough cases, and enough in which short cuts were taken
    return compared > round_count / 5 && skipped > round_count / 50 && skipped_turns > 0 && shared > round_count / 150;
  };
  if (rondo_test::sanitized()) std::puts("skipped: 400 of the networks: take long under a sanitizer; done without one");
  for (uint64_t round = 0; round < round_count || (round < rounds_max && !enough()); ++round) {
    SimCase what;
    what.network = random_network(random);
    const auto ranks = static_cast<uint32_t>(what.network.rank_count());
    constexpr rondo_collective_t exchanges[] = {RONDO_ALL_TO_ALL, RONDO_GATHER, RONDO_SCATTER};
    const uint32_t drawn = random.between(0, 8);
    what.collective = drawn <= RONDO_BARRIER ? static_cast<rondo_collective_t>(drawn) : exchanges[drawn - 6];
    what.root = random.between(0, ranks - 1);
    what.in_place = random.between(0, 1) == 1;
    what.bytes = random.between(1, 600'000);
    if (random.between(0, 1) == 0) what.bytes = uint64_t{ranks} * 2048 * random.between(1, 99);  // even chunks
    what.overrides = {static_cast<rondo_algorithm_t>(random.between(1, 7)),
                      static_cast<rondo_protocol_t>(random.between(0, 2)), random.between(0, 3),
                      uint64_t{64} * random.between(1, 300)};
    if (exchanges_blocks(what.collective)) {
      if (what.overrides.algorithm != RONDO_ALGORITHM_ONE_SHOT) CHECK_FALSE(plan_of(what).ok());
      what.overrides = {};
    }
    if (!exchanges_blocks(what.collective) &&
        !find_algorithm(what.overrides.algorithm)->supports(what.collective))
      continue;
    CAPTURE(round, what.collective, ranks, what.bytes, what.overrides.algorithm, what.overrides.protocol);
    const auto plan = plan_of(what);
    REQUIRE(plan.ok());
    const auto fast = Simulator().simulate(what);
    REQUIRE(fast.ok());
    CHECK(fast.value().exact);
    CHECK(fast.value().outcome.time_ps == Reference(what, plan.value()).run());
    what.use_symmetry = what.use_period = false;
    const auto every = Simulator().simulate(what);
    REQUIRE(every.ok());
    CHECK(fast.value().outcome.time_ps == every.value().outcome.time_ps);
    CHECK(fast.value().outcome.link_bytes == every.value().outcome.link_bytes);
    CHECK(fast.value().outcome.step_count == every.value().outcome.step_count);
    ++compared;
    skipped += fast.value().outcome.skipped_tile_count > 0;
    const auto takes_turns = [&](const SimNode &node) { return node.rank_count > what.network.core_count; };
    skipped_turns += fast.value().outcome.skipped_tile_count > 0 && what.network.core_count != 0 &&
                     std::any_of(what.network.nodes.begin(), what.network.nodes.end(), takes_turns);
    shared += fast.value().representatives < ranks;
  }
  CAPTURE(compared, skipped, skipped_turns, shared);
  CHECK(enough());
}

TEST_CASE("simulator: ranks on one core take turns, and each turn costs, also one for nothing", "[sim]") {
  SimCase what = flat_case(3, RONDO_ALGORITHM_RING, 64);  // a broadcast from 0 to 1 to 2, of one slice
  what.collective = RONDO_BROADCAST;
  what.network.nodes = {{3, 1, 0}};
  what.network.links[1] = {0, 0, 64000, Sharing::pair};  // a picosecond, and 0.001 us for 64 bytes
  what.network.copy_GBps = 0.064;                        // 1 us for 64 bytes
  what.network.core_count = 1;
  what.network.switch_us = 10;
  // Rank 0 sends. The core turns to rank 1, which copies and sends, and then to rank 2, which copies.
  CHECK(simulated_us(what) == Approx(3 * 1 + 2 * 10).epsilon(0.001));
  what.root = 2;  // ranks 0 and 1 have no work in their first turns; 2 sends to 0, 0 to 1
  CHECK(simulated_us(what) == Approx(2 * 10 + 1 + 10 + 1 + 10 + 1).epsilon(0.001));
}

TEST_CASE("simulator: a ring takes 2(n-1) hops of its closed form, within 1 %", "[sim]") {
  for (const uint32_t ranks : {2u, 3u, 8u, 64u, 1000u})
    for (const uint64_t chunk_bytes : {64u, 4096u, 65536u}) {
      CAPTURE(ranks, chunk_bytes);
      const SimCase what = flat_case(ranks, RONDO_ALGORITHM_RING, ranks * chunk_bytes);
      const double bytes = static_cast<double>(chunk_bytes), hops = ranks - 1;
      const double link_us = 5 + bytes / 50e3, reduce_us = bytes / 400e3;  // alpha + b beta, b gamma
      CHECK(simulated_us(what) == Approx(2 * hops * link_us + hops * reduce_us).epsilon(0.01));
    }
}

TEST_CASE("simulator: a ring whose chunks are many slices is bound by link or credit, within 1 %", "[sim]") {
  for (const uint32_t ranks : {4u, 16u, 128u})
    for (const uint32_t slices : {1u, 4u, 6u, 7u}) {
      CAPTURE(ranks, slices);
      SimCase what = flat_case(ranks, RONDO_ALGORITHM_RING, uint64_t{ranks} * slices * 131072 * 20);
      what.overrides.chunk_bytes = slices * 131072;
      const double link_us = 131072 / 50e3, reduce_us = 131072 / 400e3, alpha_us = 5;
      const auto hop = [&](double work_us) {
        const double slice_us = std::max({link_us, work_us, (alpha_us + work_us) / (8 - slices)});
        return std::max(slices * slice_us, alpha_us + link_us + work_us);
      };
      const double reduce = hop(reduce_us), move = hop(0);
      const double tiles = 20, sum = (ranks - 1) * (reduce + move);
      CHECK(simulated_us(what) == Approx(tiles * sum).epsilon(ranks >= 128 ? 0.01 : 0.2));
    }
}

TEST_CASE("simulator: a tree on links of its own takes depth hops, then a slice each interval, within 1 %", "[sim]") {
  for (const uint32_t ranks : {4u, 8u, 64u, 1024u})
    for (const uint64_t tiles : {1u, 10u, 1000u}) {
      CAPTURE(ranks, tiles);
      SimCase what = flat_case(ranks, RONDO_ALGORITHM_TREE, tiles * 65536);
      what.overrides.channels = 1;
      const double link_us = 5 + 65536 / 50e3, reduce_us = 65536 / 400e3, depth = std::log2(ranks);
      // Position 0 has one child, and so has the lowest position that sums. The levels between have two reductions.
      const double up_us = depth * link_us + (2 * depth - (ranks > 2 ? 1 : 0)) * reduce_us;
      // Before a slot is filled again, it and its credit travel, and the parent reduces twice.
      const double round_us = (2 * 5 + 65536 / 50e3 + (ranks > 4 ? 4 : 3) * reduce_us) / 8;
      const double interval_us = std::max({65536 / 50e3, 2 * reduce_us, round_us});
      const double total_us = up_us + depth * link_us + static_cast<double>(tiles - 1) * interval_us;
      CHECK(simulated_us(what) == Approx(total_us).epsilon(0.01));
    }
}

TEST_CASE("simulator: halving-doubling, two-shot and one-shot take their closed forms, within 1 %", "[sim]") {
  for (const uint32_t ranks : {4u, 16u, 64u}) {
    CAPTURE(ranks);
    const double link_us = 5 + 65536 / 50e3, reduces_us = (ranks - 1) * (65536 / 400e3);
    const auto time_us = [&](rondo_algorithm_t algorithm, uint64_t bytes) {
      return simulated_us(flat_case(ranks, algorithm, bytes));
    };
    CHECK(time_us(RONDO_ALGORITHM_HALVING_DOUBLING, ranks * 65536) ==
          Approx(2 * (ranks - 1) * link_us + reduces_us).epsilon(0.01));
    CHECK(time_us(RONDO_ALGORITHM_TWO_SHOT, ranks * 65536) == Approx(2 * link_us + reduces_us).epsilon(0.01));
    CHECK(time_us(RONDO_ALGORITHM_ONE_SHOT, 65536) == Approx(link_us + reduces_us).epsilon(0.01));
  }
}

TEST_CASE("simulator: an estimate from two shorter runs is within 1 % of every tile", "[sim]") {
  SimCase what;
  what.overrides.algorithm = RONDO_ALGORITHM_TREE;
  what.network.nodes = even_nodes(512, 8, 0);
  what.bytes = uint64_t{128} * 131072 * 4;
  what.use_period = false;
  const double every_us = simulated_us(what);
  const auto time_of = [&](uint64_t tiles) {
    SimCase part = what;
    part.bytes = tiles * 131072;
    return simulated_us(part);
  };
  const double pace_us = (time_of(64) - time_of(32)) / 32;
  CHECK(time_of(64) + (512 - 64) * pace_us == Approx(every_us).epsilon(0.01));
}

TEST_CASE("simulator: a rank comes to each byte of its two buffers once, as far as memory is concerned", "[sim]") {
  SimCase what = flat_case(4, RONDO_ALGORITHM_RING, 4 * 4096);
  const double before_us = simulated_us(what);
  what.network.memory_GBps = 1;
  // Each rank reads each of its 4 chunks once, and writes each of 4 results once. Memory takes 4.096 us for a chunk.
  CHECK(simulated_us(what) == Approx(before_us + (4 + 4) * 4.096));
}

namespace {

/// Returns a case with ranks of one node, each with a core.
SimCase load_store_case(uint32_t ranks, rondo_algorithm_t algorithm, uint64_t bytes) {
  SimCase what;
  what.overrides.algorithm = algorithm;
  what.overrides.kernel = RONDO_KERNEL_LOAD_STORE;
  what.bytes = bytes;
  what.network.nodes = {{ranks, 1, 0}};
  what.network.post_bytes = 65536;
  what.network.exchange_chunk_bytes = 131072;
  what.network.links[1] = {2, 2, 10, Sharing::pair};
  what.network.step_us = 0.5;
  what.network.reduce_GBps = 8;
  what.network.reduce_send_GBps = 16;
  what.network.copy_GBps = 20;
  what.network.memory_GBps = 5;
  return what;
}

}  // namespace

TEST_CASE("simulator: load_store, one_shot of two ranks takes its closed form", "[sim]") {
  const double step = 0.5, alpha = 2, bytes = 4096;
  const double gamma = 1 / 8e3, store = 1 / 16e3, copy = 1 / 20e3, memory = 1 / 5e3, link = 1 / 10e3;
  SimCase what = load_store_case(2, RONDO_ALGORITHM_ONE_SHOT, 4096);
  // The rank copies its send buffer to its post, whose lines the peer has read before. Then it reduces its own buffer
  // and the peer's post into the recv buffer.
  const double post_us = step + bytes * (copy + memory + store);
  const double reduce_us = step + bytes * (gamma + memory + link + memory);
  CHECK(simulated_us(what) == Approx(post_us + alpha + reduce_us).epsilon(1e-6));
  // On one core, rank 0 posts, and the core turns to rank 1. Rank 1 posts, and reduces an alpha after rank 0's post.
  // The core turns back, and rank 0 reduces.
  what.network.core_count = 1;
  what.network.switch_us = 10;
  CHECK(simulated_us(what) == Approx(post_us + 10 + post_us + reduce_us + 10 + reduce_us).epsilon(1e-6));
}

TEST_CASE("simulator: load_store, bytes over links and steps are those of the programs", "[sim]") {
  for (const uint32_t ranks : {2u, 3u, 8u}) {
    CAPTURE(ranks);
    const uint64_t bytes = uint64_t{ranks} * 65536 * 3;  // three tiles
    const auto ring = Simulator().simulate(load_store_case(ranks, RONDO_ALGORITHM_RING, bytes));
    REQUIRE(ring.ok());
    // For each tile, a rank adds to n - 1 accumulators and fetches n - 1 sums.
    CHECK(ring.value().outcome.link_bytes[1] == 2 * (ranks - 1) * bytes);
    // A rank announces, and reads n - 1 announcements of others. For each tile it makes n hops and a fetch.
    const uint64_t ring_steps = 1 + (ranks - 1) + 3 * (ranks + 1);
    CHECK(ring.value().outcome.step_count == ring_steps);
    CHECK(ring.value().outcome.move_count == ranks * ring_steps);
    SimCase what = load_store_case(ranks, RONDO_ALGORITHM_TWO_SHOT, bytes);
    const auto two_shot = Simulator().simulate(what);
    REQUIRE(two_shot.ok());
    // A rank reads n - 1 operands of its own part from the others, and their n - 1 parts of the result.
    CHECK(two_shot.value().outcome.link_bytes[1] == 2 * (ranks - 1) * bytes);
    const uint64_t chunk = two_shot.value().plan.chunk_bytes;
    const uint64_t chunks = (bytes + chunk - 1) / chunk;
    // A rank reads n - 1 announcements and has a last step. A chunk has a contribution, a reduction and n - 1 fetches.
    CHECK(two_shot.value().outcome.step_count == (ranks - 1) + chunks * (2 + ranks - 1) + 1);
  }
}

TEST_CASE("simulator: load_store, more steps than its limit are refused", "[sim]") {
  for (const auto algorithm : {RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TWO_SHOT}) {
    const auto refused = Simulator().simulate(load_store_case(64, algorithm, uint64_t{1} << 40));
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().message.find("more than 4000000 steps") != std::string::npos);
  }
}

TEST_CASE("simulator: what takes longer than can be counted is refused, whichever cost it is of", "[sim]") {
  const auto set = [](Network &network, int cost) {
    LinkCost &link = network.links[static_cast<size_t>(LinkClass::intra_node)];
    switch (cost) {
      case 0: network.copy_GBps = 1e-7; break;
      case 1: network.reduce_GBps = 1e-300; break;
      case 2: network.reduce_send_GBps = 1e-12; break;
      case 3: network.memory_GBps = 1e-12; break;
      case 4: link.bandwidth_GBps = 1e-9; break;
      case 5: network.step_us = 1e9; break;
      case 6: link.alpha_us = link.ll_alpha_us = 1e9; break;
      default: link.burst_bytes = 1e12, link.bandwidth_GBps = 1e-9, link.peak_GBps = 1e9; break;
    }
  };
  for (int cost = 0; cost < 8; ++cost) {
    for (const uint32_t cores : {0u, 1u}) {
      for (const rondo_algorithm_t algorithm :
           {RONDO_ALGORITHM_RING, RONDO_ALGORITHM_TREE, RONDO_ALGORITHM_TWO_SHOT, RONDO_ALGORITHM_AUTO}) {
        for (const bool use_period : {true, false}) {
          const bool interpreted = algorithm != RONDO_ALGORITHM_AUTO;
          SimCase what = interpreted ? SimCase{} : load_store_case(4, RONDO_ALGORITHM_RING, uint64_t{1} << 24);
          if (interpreted) {
            what.network.nodes = {{4, 1, 0}};
            what.bytes = uint64_t{1} << 28;
            what.overrides.algorithm = algorithm;
          }
          what.network.core_count = cores;
          what.use_period = use_period;
          set(what.network, cost);
          const auto result = Simulator().simulate(what);
          CAPTURE(cost, cores, algorithm, use_period);
          if (result.ok()) {
            CHECK(result.value().outcome.time_ps > 0);
            CHECK(result.value().outcome.time_ps < time_ps_max);
          } else {
            CHECK(result.error().message.find("26 days") != std::string::npos);
          }
          if (cost == 0 && algorithm == RONDO_ALGORITHM_RING) CHECK_FALSE(result.ok());
        }
      }
    }
  }
}

TEST_CASE("topology file: what is wrong is named", "[sim]") {
  const std::pair<const char *, const char *> wrong[] = {
      {"{", "not JSON"},
      {"{\"nodez\": []}", "unknown key 'nodez'; known are: copy_GBps, cores"},
      {"{\"nodes\": []}", "at least one node"},
      {"{\"nodes\": [{\"ranks\": 0}]}", "from 1 on"},
      {"{\"nodes\": [{\"ranks\": 1}], \"links\": {\"intra_node\": {\"bandwidth_GBps\": 0}}}", "bandwidth_GBps is 0"},
      {"{\"nodes\": [{\"ranks\": 1}], \"slots\": {\"count\": 3}}", "power of two"},
      {"{\"links\": {\"inter_node\": {\"sharing\": \"all\"}}}", "\"pair\", \"rank\""},
      {"[]", "wants an object"}};
  for (const auto &[text, part] : wrong) {
    Network network;
    const auto parsed = cli::parse_network(text, &network);
    REQUIRE(!parsed.ok());
    CHECK(parsed.error().message.find(part) != std::string::npos);
  }
  Network network;
  REQUIRE(cli::parse_network("{\"nodes\": [{\"ranks\": 8, \"nics\": 4, \"count\": 3}], \"cores\": 2}", &network).ok());
  CHECK(network.rank_count() == 24);
  CHECK(network.core_count == 2);
}
