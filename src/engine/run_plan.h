// SPDX-License-Identifier: Apache-2.0
// This function runs a plan on host memory. One thread multiplexes the lanes of all channels.
#pragma once

#include <cstdint>
#include <span>

#include "src/engine/host_links.h"
#include "src/engine/waiter.h"
#include "src/plan/plan.h"

namespace rondo {

inline constexpr uint32_t lane_count_max = 64;  // the most lanes of all channels together

/// The outcome of a run.
struct RunOutcome {
  enum class Kind : uint8_t { done, stopped, fault };
  Kind kind = Kind::done;
  Fault fault = Fault::none;  ///< with `fault`: the fault of a peer's slot
  uint32_t peer = 0;          ///< with `fault`: that peer
};

/// Runs a plan over `links`, one entry for each channel. Allocates nothing. After the outcome `stopped` or `fault`,
/// this rank publishes nothing more.
[[nodiscard]] RunOutcome run_plan(const Plan &plan, const Buffers &buffers, const HostReducer &reducer,
                                  std::span<HostLinks> links, Waiter &waiter);

}  // namespace rondo
