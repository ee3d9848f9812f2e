// SPDX-License-Identifier: Apache-2.0
// This file gathers from ranks some of which may have failed. A failed rank reports that, so the others do not wait for
// it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/bootstrap/store/store.h"

namespace rondo {

/// Gathers the outcome of every rank: the bytes that the others need, or its error. Every rank calls this. @param names
/// by rank, for people; or none. With names all ranks get the error of the lowest rank that failed, and its name begins
/// the error; so a rank that failed waits for the others. Without names it gets its own error, soon. @return all parts
/// in rank order; or the error of the lowest rank that has one, with its status, and the rank as the peer. Otherwise as
/// Store::gather().
[[nodiscard]] Result<std::vector<Bytes>> gather_outcomes(Store &store, std::string_view key, uint32_t rank,
                                                         uint32_t count, const Result<Bytes> &own,
                                                         uint64_t deadline_ns,
                                                         std::span<const std::string> names = {});

/// Gathers outcomes without bytes: succeeds if no rank has failed.
[[nodiscard]] Result<void> check_outcomes(Store &store, std::string_view key, uint32_t rank, uint32_t count,
                                          const Result<void> &own, uint64_t deadline_ns,
                                          std::span<const std::string> names = {});

}  // namespace rondo
