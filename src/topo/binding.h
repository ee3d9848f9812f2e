// SPDX-License-Identifier: Apache-2.0
// The cores that this process may use, and how the ranks of a host divide them.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/result.h"

namespace rondo {

/// The processors of one core or of several: hardware threads, as the kernel numbers them.
using Processors = std::vector<uint32_t>;

/// Returns the cores, in the machine's order, each with the processors that this process is allowed to use.
[[nodiscard]] Result<std::vector<Processors>> allowed_cores();

/// Divides `cores` into `rank_count` runs of neighbours, which differ by one core at most. Returns none if there are
/// fewer cores than ranks, or only one rank: then binding would take cores from a rank and give it nothing.
[[nodiscard]] std::vector<Processors> share_cores(const std::vector<Processors> &cores, uint32_t rank_count);

/// Returns share_cores() of the allowed cores, or none where they cannot be read.
[[nodiscard]] std::vector<Processors> allowed_shares(uint32_t rank_count);

/// Binds the calling thread. Returns false if the kernel refuses; errno says why.
[[nodiscard]] bool bind_to(const Processors &processors);

}  // namespace rondo
