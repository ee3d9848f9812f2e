// SPDX-License-Identifier: Apache-2.0
// The parts of `rondo tune --hosts` that are pure: the results that follow from the times of messages between two
// ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/cli/tune/tune.h"

namespace rondo::cli::tune {

/// The times in which two ranks send each other `bytes` at once, after a pause.
struct Exchange {
  uint64_t bytes = 0;
  double median_us = 0, min_us = 0, max_us = 0;
};

/// Fits latency, lasting rate and, if the first bytes after a pause went faster, the burst of a limiter. `exchanges`
/// ascend by bytes and are at least four; the first one is small.
[[nodiscard]] sim::LinkCost fit_link(std::span<const Exchange> exchanges);

/// Returns a network with one port a host. `node_of` is by rank, and hosts count in the order of their lowest ranks.
[[nodiscard]] sim::Network network_of(std::span<const uint32_t> node_of, const sim::LinkCost &inside,
                                      const sim::LinkCost &between, const TunerInput &slots);

/// Returns the fastest choice by simulation for every collective and size that was requested.
[[nodiscard]] Result<std::vector<TuningRow>> simulate_rows(const Options &options, const sim::Network &network,
                                                           const TunerInput &input);

/// The file. `inside` is empty where no two ranks share a host.
struct HostFindings {
  sim::Network network;
  bool oversubscribed = false;
  std::vector<Exchange> inside, between;
  std::vector<TuningRow> rows;
};
[[nodiscard]] std::string hosts_document(const HostFindings &findings, std::span<const rondo_collective_t> collectives);
[[nodiscard]] std::string hosts_text(const HostFindings &findings);

/// Measures as one of the ranks that a launcher has started on several hosts; rank 0 writes the file.
[[nodiscard]] Result<void> tune_hosts(const Options &options);

}  // namespace rondo::cli::tune
