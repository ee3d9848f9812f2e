// SPDX-License-Identifier: Apache-2.0
// This file makes the tuner's input on this machine: the slots and the exchange of the shared-memory transport.
#pragma once

#include <cstdint>
#include <string>

#include "src/base/config.h"
#include "src/plan/tuner.h"

namespace rondo::cli {

/// Makes the input for all_reduce of float32, and applies the overrides of the configuration. The ranks are on
/// `host_count` hosts.
[[nodiscard]] TunerInput tuner_input(const Config &config, uint32_t rank_count, bool oversubscribed,
                                     uint32_t host_count = 1);

/// Returns why max_memory_bytes is too small for a communicator, or "".
[[nodiscard]] std::string memory_refusal(const Config &config, uint32_t rank_count, uint32_t host_count);

/// Returns how many bytes of memory `rank_count` ranks would reserve for sharing.
[[nodiscard]] uint64_t shared_bytes(const Config &config, uint32_t rank_count);

}  // namespace rondo::cli
