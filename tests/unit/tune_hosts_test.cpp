// SPDX-License-Identifier: Apache-2.0
#include "src/cli/tune/hosts.h"

#include <algorithm>
#include <vector>

#include "src/cli/tune/tuner_input.h"
#include "tests/catch.h"

using namespace rondo::cli::tune;

namespace {

/// Returns what two ranks would measure on a link: the time at which the last byte has arrived.
std::vector<Exchange> exchanges_on(const rondo::sim::LinkCost &link) {
  std::vector<Exchange> all;
  for (const uint64_t bytes : {8u, 16u << 10, 64u << 10, 256u << 10, 1u << 20, 4u << 20, 16u << 20}) {
    const auto size = static_cast<double>(bytes);
    double us = size / link.bandwidth_GBps * 1e-3;
    if (link.burst_bytes > 0)
      us = std::max(size / link.peak_GBps, (size - link.burst_bytes) / link.bandwidth_GBps) * 1e-3;
    all.push_back({bytes, link.alpha_us + us, link.alpha_us + us, link.alpha_us + us});
  }
  return all;
}

}  // namespace

TEST_CASE("tune --hosts: latency, rate and a limiter's burst are found in the times that they make") {
  using rondo::sim::LinkCost;
  using rondo::sim::Sharing;
  const LinkCost free = fit_link(exchanges_on({12, 12, 1.5, Sharing::pair}));
  CHECK(free.alpha_us == Approx(12).epsilon(0.01));
  CHECK(free.bandwidth_GBps == Approx(1.5).epsilon(0.01));
  CHECK(free.burst_bytes == 0);
  const LinkCost limited = fit_link(exchanges_on({12, 12, 0.0239, Sharing::pair, 131'072, 1.5}));
  CHECK(limited.bandwidth_GBps == Approx(0.0239).epsilon(0.01));
  CHECK(limited.burst_bytes == Approx(131'072).epsilon(0.03));
  CHECK(limited.peak_GBps == Approx(1.5).epsilon(0.01));
}

TEST_CASE("tune --hosts: plans are for the slots that links between hosts have") {
  rondo::Config config;
  const auto slots = [&] {
    const rondo::TunerInput input = rondo::cli::tuner_input(config, 2, false, 2);
    return std::pair(input.slot_count, input.slot_bytes);
  };
  CHECK(slots() == std::pair<uint32_t, uint64_t>(4, 512 << 10));
  config.network = rondo::NetworkChoice::verbs;
  CHECK(slots() == std::pair<uint32_t, uint64_t>(2, 512 << 10));
  config.sockets = 2;
  CHECK(slots() == std::pair<uint32_t, uint64_t>(4, 128 << 10));
}

TEST_CASE("tune --hosts: between hosts that share a slow port, what crosses it least is chosen, and the file is read") {
  const rondo::sim::LinkCost inside{2, 2, 5, rondo::sim::Sharing::rank}, between{20, 20, 0.0239, {}, 131'072, 1.5};
  rondo::TunerInput input = rondo::cli::tuner_input(rondo::Config(), 4, false, 2);
  const std::vector<uint32_t> node_of{0, 0, 1, 1};
  HostFindings findings;
  findings.network = network_of(node_of, inside, between, input);
  REQUIRE(findings.network.nodes.size() == 2);
  CHECK(findings.network.rank_count() == 4);
  Options options;
  options.collectives = {RONDO_ALL_REDUCE, RONDO_ALL_GATHER};
  options.sizes = {1 << 20, 16 << 20};
  auto rows = simulate_rows(options, findings.network, input);
  REQUIRE(rows.ok());
  findings.rows = rows.value();
  for (const rondo::TuningRow &row : findings.rows) {
    CHECK(row.several_hosts);
    CHECK(row.choice.algorithm == RONDO_ALGORITHM_HIERARCHICAL);
  }
  const auto table = rondo::parse_tuning(hosts_document(findings, options.collectives));
  REQUIRE(table.ok());
  CHECK(std::equal(table.value().rows().begin(), table.value().rows().end(), findings.rows.begin(),
                   findings.rows.end()));
  input.bytes = 4 << 20;
  input.table = &table.value();
  CHECK(choose_plan(input).value() == findings.rows.front().choice);
}
