// SPDX-License-Identifier: Apache-2.0
// What the tuner would be asked on this machine: the slots and the exchange of the shared-memory transport.
#pragma once

#include <cstdint>

#include "src/base/config.h"
#include "src/plan/tuner.h"

namespace rondo::cli {

/// For all_reduce of float32; the configuration's overrides are in it. `host_count`: ranks spread over so many hosts.
[[nodiscard]] TunerInput tuner_input(const Config &config, uint32_t rank_count, bool oversubscribed,
                                     uint32_t host_count = 1);

/// Bytes of memory that so many ranks would share: reserved.
[[nodiscard]] uint64_t shared_bytes(const Config &config, uint32_t rank_count);

}  // namespace rondo::cli
