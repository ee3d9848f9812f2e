// SPDX-License-Identifier: Apache-2.0
// This file holds objects that exist once for each process: the tables of handles, the memory that peers can map, and
// the settings of the environment. C handles carry no context, so this is a documented exception to "no mutable
// globals". src/api/boundary.h names the other exceptions.
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
class PeerWindow;

struct Process {
  HandleTable<Communicator> communicators{HandleKind::communicator};
  HandleTable<HostStream> streams{HandleKind::stream};
  HandleTable<HostEvent> events{HandleKind::event};
  HandleTable<Registration> registrations{HandleKind::registration};
  HandleTable<PeerWindow> windows{HandleKind::window};
  CreatedOps created_ops;
  RegionTable regions;
  SegmentTable segments;
  IdServers id_servers;
  PendingInits pending_inits{communicators};
  const Result<Config> config = read_config();  ///< read once; if that failed, calls that need it return the error
  /// Returns the topology of this machine, or of RONDO_TOPOLOGY_FILE. The first communicator reads it.
  [[nodiscard]] const Result<Topology> &topology();
  /// Returns the rows of RONDO_TUNING_FILE, or no rows if it is not set. The file is read for the first communicator or
  /// unique id.
  [[nodiscard]] const Result<TuningTable> &tuning();
  /// The number of communicators made from the environment. The next one's keys in the store begin with it.
  std::atomic<uint64_t> environment_communicator_count{0};  // relaxed: no other data depends on it

 private:
  std::once_flag topology_once_;
  std::optional<Result<Topology>> topology_;
  std::once_flag tuning_once_;
  std::optional<Result<TuningTable>> tuning_;
};

/// Returns the object of this process. The first call makes it. It is never destroyed, because threads of streams may
/// run until the process has ended.
[[nodiscard]] Process &process();

/// Fails in a child of fork() that has not called exec(), if the parent had done more with Rondo than make unique ids.
/// Such a child has none of Rondo's threads, and cannot use the memory and connections of the parent's objects. Every
/// entry point calls this before it uses process().
[[nodiscard]] Result<void> check_not_forked();
/// Returns whether check_not_forked() would fail. It costs one load.
[[nodiscard]] bool is_forked() noexcept;
/// Records that this process does more with Rondo than make unique ids. Returns false if check_not_forked() would fail.
/// The call costs one load.
[[nodiscard]] bool begin_use() noexcept;

}  // namespace rondo
