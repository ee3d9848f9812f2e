// SPDX-License-Identifier: Apache-2.0
// This file keeps the memory of a communicator within max_memory_bytes. If the usual sizes need too much memory, it
// finds smaller ones.
#pragma once

#include <cstdint>
#include <functional>

#include "src/base/config.h"

namespace rondo {

/// The choices that determine a memory plan.
struct MemoryChoice {
  uint32_t slot_count = 0;  ///< 0 lets the plan choose
  uint64_t slot_bytes = 0;  ///< 0 lets the plan choose
  uint32_t halvings = 0;    ///< number of times that the plan's budgets are halved

  /// Returns the choice for the settings if there is no limit.
  [[nodiscard]] static MemoryChoice of(const Config &config) { return {config.slot_count, config.slot_bytes, 0}; }
};

/// Returns the choice with the fewest halvings whose plan takes at most max_memory_bytes. `bytes_of` returns the bytes
/// of a plan. `place` names the memory in messages, such as "of a host's memory". If no plan fits, returns
/// RONDO_ERROR_OUT_OF_RESOURCES. Its message says how much memory is needed, and which slots would fit.
[[nodiscard]] Result<MemoryChoice> choose_memory(const Config &config, const char *place,
                                                 const std::function<uint64_t(const MemoryChoice &)> &bytes_of);

}  // namespace rondo
