// SPDX-License-Identifier: Apache-2.0
// This file wraps the shared-memory transport for a simulated rank. A shell surrounds the real transport, which the
// real connect() makes. Each call of the shell may let other ranks run first. The life's plan decides when processes
// are dead, and stores may be late.
#pragma once

#include <functional>
#include <memory>

#include "tests/sim/life_plan.h"
#include "tests/sim/scheduler.h"
#include "tests/sim/wire.h"
#include "src/links/transport.h"

namespace rondo::sim {

/// The objects that the transports of one life share.
struct SimHost {
  Scheduler &scheduler;
  const LifePlan &plan;
  Random random;
  std::unique_ptr<Wire> wire;             ///< null if stores are seen at once
  std::vector<Transport *> transports;    ///< by rank: the real ones, while they exist
  std::vector<uint64_t> died_ns;          ///< by rank; never_ns while alive
  std::function<void(uint32_t rank, uint64_t operation)> entered;
  std::function<void(uint32_t rank, uint64_t operation)> completed;
  std::function<void(uint32_t rank, RankState state)> state_changed;
  std::function<void(uint32_t rank, const Error &error)> raised;  ///< called with the first failure

  /// May let another rank run at this point.
  void point(uint32_t rank, uint32_t percent);
};

[[nodiscard]] std::unique_ptr<Transport> make_sim_transport(std::unique_ptr<Transport> real, SimHost &host,
                                                            uint32_t rank);

}  // namespace rondo::sim
