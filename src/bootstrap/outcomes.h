// SPDX-License-Identifier: Apache-2.0
// This file gathers the outcomes of ranks. A rank that has failed sends its failure as its outcome, so the other ranks
// do not wait for it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/bootstrap/store/store.h"

namespace rondo {

/// Gathers the outcome of every rank: bytes for the other ranks, or an error. Every rank calls this.
/// @param names  the ranks' names for people, by rank, or empty. With names, a failed rank waits for the others. All
///               ranks get the error of the lowest failed rank, and that rank's name begins the message. Without
///               names, a failed rank waits only a moment, and gets its own error.
/// @return all parts in rank order, or the lowest failed rank's error, with its status and that rank as the peer. Other
///         errors are as in Store::gather().
[[nodiscard]] Result<std::vector<Bytes>> gather_outcomes(Store &store, std::string_view key, uint32_t rank,
                                                         uint32_t count, const Result<Bytes> &own,
                                                         uint64_t deadline_ns,
                                                         std::span<const std::string> names = {});

/// Gathers outcomes without bytes. Succeeds if no rank has failed.
[[nodiscard]] Result<void> check_outcomes(Store &store, std::string_view key, uint32_t rank, uint32_t count,
                                          const Result<void> &own, uint64_t deadline_ns,
                                          std::span<const std::string> names = {});

}  // namespace rondo
