// SPDX-License-Identifier: Apache-2.0
// A gather in which a rank that could not come so far says so, instead of letting the others wait for it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/bootstrap/store/store.h"

namespace rondo {

/// Every rank calls it with what it has come to: the bytes that the others need, or its error.
/// @param names  by rank, for people; or none. With names all ranks get the same error, if there is one: that of the
/// lowest rank that failed, whose name it begins with; so a rank that failed waits for the others. Without names it
/// gets its own error, soon.
/// @return all parts in rank order; or the error of the lowest rank that has one, with its status, and the rank as the
/// peer. Else as Store::gather().
[[nodiscard]] Result<std::vector<Bytes>> gather_outcomes(Store &store, std::string_view key, uint32_t rank,
                                                         uint32_t count, const Result<Bytes> &own,
                                                         uint64_t deadline_ns,
                                                         std::span<const std::string> names = {});

/// The same where nothing is asked for but that no rank has failed.
[[nodiscard]] Result<void> check_outcomes(Store &store, std::string_view key, uint32_t rank, uint32_t count,
                                          const Result<void> &own, uint64_t deadline_ns,
                                          std::span<const std::string> names = {});

}  // namespace rondo
