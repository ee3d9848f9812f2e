// SPDX-License-Identifier: Apache-2.0
// This file computes costs and choices from the times of exchanges between hosts. It does no I/O.
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "src/base/parse.h"
#include "src/cli/sim/sim.h"
#include "src/cli/tune/hosts.h"
#include "src/sim/simulate.h"

namespace rondo::cli::tune {
namespace {

using Json = nlohmann::ordered_json;

constexpr double burst_bytes_min = 32 * 1024;  // a smaller burst is noise of the links
constexpr double peak_ratio_min = 1.5;         // a limiter is assumed if the first bytes go this much faster
constexpr double alike_ratio = 1.03;           // if two choices differ by less, the choice of the size before is kept

double rate_between(const Exchange &less, const Exchange &more) {
  const double time_us = std::max(more.median_us - less.median_us, 1e-3);
  return static_cast<double>(more.bytes - less.bytes) / time_us * 1e-3;
}

double time_us(const sim::SimResult &result) { return static_cast<double>(result.outcome.time_ps) / sim::ps_per_us; }

struct Timed {
  PlanChoice choice;
  double time_us = 0;
};

/// Simulates every possible candidate.
Result<std::vector<Timed>> simulate_all(const sim::Network &network, const TunerInput &input,
                                        sim::Simulator &simulator) {
  std::vector<Timed> all;
  for (const PlanChoice &choice : candidates(input)) {
    if (choice.protocol != RONDO_PROTOCOL_SIMPLE) continue;
    sim::SimCase what;
    what.collective = input.collective;
    what.bytes = input.bytes;
    what.overrides = choice;
    what.network = network;
    RONDO_TRY_ASSIGN(const sim::SimResult result, simulator.simulate(what));
    all.push_back({result.plan, time_us(result)});
  }
  return all;
}

Json exchanges_json(const char *link, std::span<const Exchange> exchanges) {
  Json list = Json::array();
  for (const Exchange &it : exchanges)
    list.push_back({{"link", link},
                    {"bytes", it.bytes},
                    {"median_us", rounded(it.median_us)},
                    {"min_us", rounded(it.min_us)},
                    {"max_us", rounded(it.max_us)}});
  return list;
}

std::string link_text(const char *name, const sim::LinkCost &cost) {
  char line[160];
  std::snprintf(line, sizeof line, "%-14s alpha %8.2f us, %9.4f GB/s", name, cost.alpha_us, cost.bandwidth_GBps);
  std::string text = line;
  if (cost.burst_bytes > 0) {
    std::snprintf(line, sizeof line, ", after a pause %s bytes at %.4g GB/s",
                  show_bytes(static_cast<uint64_t>(cost.burst_bytes)).c_str(), cost.peak_GBps);
    text += line;
  }
  return text + "\n";
}

}  // namespace

sim::LinkCost fit_link(std::span<const Exchange> exchanges) {
  sim::LinkCost cost;
  const Exchange &last = exchanges.back(), &before = exchanges[exchanges.size() - 2];
  cost.alpha_us = cost.ll_alpha_us = exchanges.front().median_us;
  cost.bandwidth_GBps = rate_between(before, last);
  const double peak_GBps = rate_between(exchanges[1], exchanges[2]);
  // If a limiter lets a bucket pass at once, the straight line of large sizes is lower by the bucket.
  const double straight_us = static_cast<double>(last.bytes) / cost.bandwidth_GBps * 1e-3;
  const double saved_us = cost.alpha_us + straight_us - last.median_us;
  const double burst_bytes = saved_us * cost.bandwidth_GBps * 1e3;
  if (burst_bytes >= burst_bytes_min && peak_GBps >= peak_ratio_min * cost.bandwidth_GBps) {
    // The bytes of the bucket also took time, at the peak rate.
    cost.burst_bytes = burst_bytes / (1 - cost.bandwidth_GBps / peak_GBps);
    cost.peak_GBps = peak_GBps;
  }
  return cost;
}

sim::Network network_of(std::span<const uint32_t> node_of, const sim::LinkCost &inside, const sim::LinkCost &between,
                        const TunerInput &slots) {
  sim::Network network;
  for (const uint32_t node : node_of) {
    if (node >= network.nodes.size()) network.nodes.resize(node + 1, {0, 1, 0});
    ++network.nodes[node].rank_count;
  }
  for (const auto &[link, cost, sharing] :
       {std::tuple(sim::LinkClass::intra_node, inside, sim::Sharing::rank),
        std::tuple(sim::LinkClass::inter_node, between, sim::Sharing::nic)}) {
    sim::LinkCost &to = network.links[static_cast<size_t>(link)];
    to = cost;
    to.sharing = sharing;
  }
  network.reduce_GBps = 0;  // the network is slower than memory, and hides reductions
  network.slot_count = slots.slot_count;
  network.slot_bytes = static_cast<uint32_t>(slots.slot_bytes);
  return network;
}

Result<std::vector<TuningRow>> simulate_rows(const Options &options, const sim::Network &network,
                                             const TunerInput &slots) {
  std::vector<TuningRow> rows;
  sim::Simulator simulator;
  for (const rondo_collective_t collective : options.collectives) {
    const size_t first = rows.size();
    uint64_t before_bytes = 0;
    for (const uint64_t size : options.sizes) {
      TunerInput input = slots;
      input.collective = collective;
      input.bytes = rounded_bytes({collective, input.rank_count, input.oversubscribed}, size);
      RONDO_TRY_ASSIGN(const std::vector<Timed> all, simulate_all(network, input, simulator));
      const auto best = std::min_element(all.begin(), all.end(), [](const Timed &a, const Timed &b) {
        return a.time_us < b.time_us;
      });
      const auto known = std::find_if(all.begin(), all.end(), [&](const Timed &it) {
        return rows.size() > first && it.choice == rows.back().choice;
      });
      if (known == all.end() || known->time_us > alike_ratio * best->time_us) {
        // A row ends at the geometric mean of two sizes.
        if (rows.size() > first)
          rows.back().bytes_max = static_cast<uint64_t>(
              std::sqrt(static_cast<double>(before_bytes) * static_cast<double>(input.bytes)));
        rows.push_back({collective, input.rank_count, input.oversubscribed, TuningRow::any_bytes, best->choice, true});
      }
      before_bytes = input.bytes;
    }
  }
  return rows;
}

std::string hosts_document(const HostFindings &findings, std::span<const rondo_collective_t> collectives) {
  Json networks = Json::array(), measurements = exchanges_json("inter_node", findings.between);
  for (const rondo_collective_t collective : collectives)
    networks.push_back({{"collective", rondo_collective_string(collective)},
                        {"ranks", findings.network.rank_count()},
                        {"bytes", 1},
                        {"network", network_json(findings.network)}});
  for (const Json &entry : exchanges_json("intra_node", findings.inside)) measurements.push_back(entry);
  Json rows = Json::array();
  for (const TuningRow &row : findings.rows) rows.push_back(row_json(row));
  return Json{{"format", tuning_format},
              {"version", tuning_version},
              {"rows", rows},
              {"networks", networks},
              {"measurements", measurements}}
             .dump(1) + "\n";
}

std::string hosts_text(const HostFindings &findings) {
  const auto &links = findings.network.links;
  std::string text = link_text("between hosts", links[static_cast<size_t>(sim::LinkClass::inter_node)]);
  if (!findings.inside.empty())
    text += link_text("inside", links[static_cast<size_t>(sim::LinkClass::intra_node)]);
  for (const TuningRow &row : findings.rows)
    text += std::string(rondo_collective_string(row.collective)) + " up to " +
            (row.bytes_max == TuningRow::any_bytes ? "any size" : show_bytes(row.bytes_max)) + ": " +
            show(row.choice) + "\n";
  return text;
}

}  // namespace rondo::cli::tune
