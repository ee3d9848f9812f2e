// SPDX-License-Identifier: Apache-2.0
// The only place that knows which transports and executors were built.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "src/base/config.h"
#include "src/bootstrap/store/store.h"
#include "src/core/group_info.h"
#include "src/engine/executor.h"
#include "transports/transport.h"

namespace rondo {

class SegmentTable;

struct ConnectArgs {
  uint32_t rank = 0;
  uint32_t rank_count = 1;
  const Settings &settings;
  const GroupInfo &group;
  const Secret &secret;
  std::string key_prefix;
  uint64_t deadline_ns = 0;
  const TuningTable *tuning = nullptr;
  std::optional<uint32_t> mesh_hosts_max{};  ///< see hosts::GroupRequest; none: its default
  std::vector<bool> permitted{};             ///< by rank: as permitted_ranks() says; empty: all are
};

/// By rank: a peer in some schedule that can be chosen. Empty where nobody asks: all ranks share memory of their host.
[[nodiscard]] std::vector<bool> permitted_ranks(const ConnectArgs &args);

/// Of the network that the settings choose.
[[nodiscard]] const char *network_name(const Settings &settings);

/// Connects the ranks with the transport that reaches all of them.
[[nodiscard]] Result<std::unique_ptr<Transport>> connect_ranks(const ConnectArgs &args, Store &store,
                                                               SegmentTable &segments);

/// RONDO_ERROR_UNSUPPORTED, RONDO_ERROR_INVALID_ARGUMENT: the settings name a device that this process does not have.
[[nodiscard]] Result<void> check_device(const Settings &settings);

/// The rank's executor on the CUDA device that the settings name, or on host memory, over `links`, which outlive it.
[[nodiscard]] Result<std::shared_ptr<Executor>> connect_executor(const ConnectArgs &args, Store &store, Links &links);

/// The one on host memory.
[[nodiscard]] std::shared_ptr<Executor> make_host_executor(const Settings &settings, const GroupInfo &group,
                                                           uint32_t rank, Links &links);

}  // namespace rondo
