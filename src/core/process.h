// SPDX-License-Identifier: Apache-2.0
// This file holds what a process has one of: the tables of handles, the memory that peers can map, the environment's
// settings. It is the one documented exception, beside the last error of a thread, to "no mutable globals": C handles
// carry no context to hang them on.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>

#include "src/base/config.h"
#include "src/base/result.h"
#include "src/core/created_ops.h"
#include "src/core/handle_table.h"
#include "src/core/host_event.h"
#include "src/core/id_servers.h"
#include "src/core/pending_inits.h"
#include "src/engine/host_stream.h"
#include "src/memory/region.h"
#include "src/memory/segment_table.h"
#include "src/plan/tuning_table.h"
#include "src/topo/topology.h"

namespace rondo {

class Communicator;
class Registration;

struct Process {
  HandleTable<Communicator> communicators{HandleKind::communicator};
  HandleTable<HostStream> streams{HandleKind::stream};
  HandleTable<HostEvent> events{HandleKind::event};
  HandleTable<Registration> registrations{HandleKind::registration};
  CreatedOps created_ops;
  RegionTable regions;
  SegmentTable segments;
  IdServers id_servers;
  PendingInits pending_inits{communicators};
  const Result<Config> config = read_config();  ///< once; every call that needs it passes its failure on
  /// Returns the topology of this machine, or what RONDO_TOPOLOGY_FILE says; made once, at the first communicator.
  [[nodiscard]] const Result<Topology> &topology();
  /// Returns what RONDO_TUNING_FILE says, no rows without it; read once, at the first communicator or unique id.
  [[nodiscard]] const Result<TuningTable> &tuning();
  /// The number of communicators made from the environment. It numbers them, so that each has its own keys in the
  /// store.
  std::atomic<uint64_t> environment_communicator_count{0};  // relaxed: a number, no data rides on it

 private:
  std::once_flag topology_once_;
  std::optional<Result<Topology>> topology_;
  std::once_flag tuning_once_;
  std::optional<Result<TuningTable>> tuning_;
};

/// Returns the object of this process, made at the first use. It is never destroyed: threads of streams may still run
/// while the process exits.
[[nodiscard]] Process &process();

/// Fails in a child of a fork() that has not called exec(), if the parent had used Rondo. The child has none of the
/// threads, and shares neither memory nor connections as the parent's objects need them. Every entry point that uses
/// process() calls this first. Costs one load.
[[nodiscard]] Result<void> check_not_forked();

}  // namespace rondo
