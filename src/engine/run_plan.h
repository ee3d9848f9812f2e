// SPDX-License-Identifier: Apache-2.0
// Runs a plan on host memory: one thread multiplexes the lanes of all channels.
#pragma once

#include <cstdint>
#include <span>

#include "src/engine/host_links.h"
#include "src/engine/waiter.h"
#include "src/plan/plan.h"

namespace rondo {

inline constexpr uint32_t lane_count_max = 64;  // of all channels together

/// The outcome of a run.
struct RunOutcome {
  enum class Kind : uint8_t { done, stopped, fault };
  Kind kind = Kind::done;
  Fault fault = Fault::none;  ///< fault: what a peer's slot had
  uint32_t peer = 0;          ///< fault: whose
};

/// Runs a plan over `links`, one entry a channel. Allocates nothing. After stopped or fault nothing more was published.
[[nodiscard]] RunOutcome run_plan(const Plan &plan, const Buffers &buffers, const HostReducer &reducer,
                                  std::span<HostLinks> links, Waiter &waiter);

}  // namespace rondo
