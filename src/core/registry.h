// SPDX-License-Identifier: Apache-2.0
// Only this file knows which transports and executors were built.
#pragma once

#include <memory>
#include <vector>

#include "src/base/config.h"
#include "src/bootstrap/store/store.h"
#include "src/engine/executor.h"
#include "src/links/init_context.h"
#include "src/links/transport.h"

namespace rondo {

class SegmentTable;

struct ConnectArgs : InitContext {
  const TuningTable *tuning = nullptr;
  std::vector<bool> permitted{};  ///< result of permitted_ranks(), by rank; empty means all ranks
};

/// Returns, by rank, whether that rank is a peer of this rank in some schedule that can be chosen. If all ranks share
/// the memory of one host, every link exists, and the result is an empty vector.
[[nodiscard]] std::vector<bool> permitted_ranks(const ConnectArgs &args);

/// Returns whether every two ranks of different hosts have a link for blocks. The result is the same on all ranks.
[[nodiscard]] bool joins_all_hosts(const Settings &settings, const GroupInfo &group, const TuningTable *tuning);

/// Returns the name of the network that the settings choose.
[[nodiscard]] const char *network_name(const Settings &settings);

/// Connects the ranks by the transport that reaches all ranks.
[[nodiscard]] Result<std::unique_ptr<Transport>> connect_ranks(const ConnectArgs &args, Store &store,
                                                               SegmentTable &segments);

/// Checks that this process has the device that the settings name. Otherwise returns RONDO_ERROR_UNSUPPORTED or
/// RONDO_ERROR_INVALID_ARGUMENT.
[[nodiscard]] Result<void> check_device(const Settings &settings);

/// Allocates memory of a CUDA device that peers can map, and frees it.
[[nodiscard]] Result<void *> allocate_device_memory(const Config &config, int32_t device, size_t bytes);
[[nodiscard]] Result<void> free_device_memory(void *pointer);

/// Makes the rank's executor, on the CUDA device that the settings name, or on host memory. `links` must outlive it.
[[nodiscard]] Result<std::shared_ptr<Executor>> connect_executor(const ConnectArgs &args, Store &store, Links &links);

/// Makes the executor on host memory.
[[nodiscard]] std::shared_ptr<Executor> make_host_executor(const Settings &settings, const GroupInfo &group,
                                                           uint32_t rank, Links &links);

}  // namespace rondo
