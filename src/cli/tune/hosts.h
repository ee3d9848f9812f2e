// SPDX-License-Identifier: Apache-2.0
// This file declares the pure parts of `rondo tune --hosts`, which compute results from the times of messages between
// two ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/cli/tune/tune.h"

namespace rondo::cli::tune {

/// The times of exchanges of `bytes`: two ranks send to each other at once, after a pause.
struct Exchange {
  uint64_t bytes = 0;
  double median_us = 0, min_us = 0, max_us = 0;
};

/// Fits latency and lasting rate. If the first bytes after a pause went faster, it also fits the burst of a limiter.
/// `exchanges` ascend by bytes, the first one is small, and there are at least four.
[[nodiscard]] sim::LinkCost fit_link(std::span<const Exchange> exchanges);

/// Returns a network with one port per host. `node_of` has the host of each rank. Hosts are numbered by their lowest
/// ranks.
[[nodiscard]] sim::Network network_of(std::span<const uint32_t> node_of, const sim::LinkCost &inside,
                                      const sim::LinkCost &between, const TunerInput &slots);

/// Returns the choice that is fastest in simulation, for every requested collective and size.
[[nodiscard]] Result<std::vector<TuningRow>> simulate_rows(const Options &options, const sim::Network &network,
                                                           const TunerInput &input);

/// The content of the file. `inside` is empty if no two ranks share a host.
struct HostFindings {
  sim::Network network;
  bool oversubscribed = false;
  std::vector<Exchange> inside, between;
  std::vector<TuningRow> rows;
};
[[nodiscard]] std::string hosts_document(const HostFindings &findings, std::span<const rondo_collective_t> collectives);
[[nodiscard]] std::string hosts_text(const HostFindings &findings);

/// Measures, as one of the ranks that a launcher started on several hosts. Rank 0 writes the file.
[[nodiscard]] Result<void> tune_hosts(const Options &options);

}  // namespace rondo::cli::tune
