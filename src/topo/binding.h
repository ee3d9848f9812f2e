// SPDX-License-Identifier: Apache-2.0
// This file finds the cores that this process may use, and divides them among the ranks of a host.
#pragma once

#include <cstdint>
#include <vector>

#include "src/base/result.h"

namespace rondo {

/// The processors (hardware threads) of one core or of several, as the kernel numbers them.
using Processors = std::vector<uint32_t>;

/// Returns the cores in the machine's order. Each has the processors that this process may use.
[[nodiscard]] Result<std::vector<Processors>> allowed_cores();

/// Divides `cores` into `rank_count` runs of neighbours, whose lengths differ by at most one. Returns none if there are
/// fewer cores than ranks. Returns none for a single rank, because binding it would only take cores away from it.
[[nodiscard]] std::vector<Processors> share_cores(const std::vector<Processors> &cores, uint32_t rank_count);

/// Returns share_cores() of the allowed cores, or none if the cores cannot be read.
[[nodiscard]] std::vector<Processors> allowed_shares(uint32_t rank_count);

/// Binds the calling thread. Returns false if the kernel refuses; errno says why.
[[nodiscard]] bool bind_to(const Processors &processors);

}  // namespace rondo
