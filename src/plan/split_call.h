// SPDX-License-Identifier: Apache-2.0
// A split of a communicator is a barrier with a signature of its own, so that no other call matches it. The record of
// the operation, however, has the arguments of the rank's split instead. That is safe, because histories contain the
// signature, and ranks compare records only if histories differ. rondo_comm_suspend() is such a barrier, too.
#pragma once

#include <cstdint>
#include <optional>

#include "src/plan/plan.h"

namespace rondo {

/// The signature of rondo_comm_split() in a plan, equal on all ranks.
inline constexpr Signature split_signature{RONDO_BARRIER, RONDO_UINT8, RONDO_SUM, 0, 1, 0};

/// The signature of rondo_comm_suspend() in a plan, equal on all ranks.
inline constexpr Signature suspend_signature{RONDO_BARRIER, RONDO_UINT8, RONDO_PROD, 0, 1, 0};

/// The arguments that a rank publishes when it splits or suspends a communicator.
struct SplitCall {
  int32_t color = RONDO_NO_COLOR;
  int32_t key = 0;
  uint32_t port = 0;   ///< port on which this rank can serve its new communicator's store; 0 if it has no color
  uint64_t nonce = 0;  ///< random; gives each new communicator its own secret
  bool suspends = false;  ///< true for rondo_comm_suspend(), which uses only `port` and `nonce`

  /// Returns the signature of the call in a plan.
  [[nodiscard]] constexpr const Signature &signature() const { return suspends ? suspend_signature : split_signature; }
  bool operator==(const SplitCall &) const = default;
};

/// Returns the record that publishes the call.
[[nodiscard]] constexpr Signature record_of(const SplitCall &call) {
  Signature record = call.signature();
  record.root = call.port;
  record.count = uint64_t{static_cast<uint32_t>(call.color)} << 32 | static_cast<uint32_t>(call.key);
  record.counts_hash = call.nonce;
  return record;
}

/// Returns the split or suspend call that a record describes, or none if it describes another operation.
[[nodiscard]] constexpr std::optional<SplitCall> split_call_of(const Signature &record) {
  const bool suspends = record.op == suspend_signature.op;
  if (record.collective != split_signature.collective || (record.op != split_signature.op && !suspends))
    return std::nullopt;
  return SplitCall{static_cast<int32_t>(record.count >> 32), static_cast<int32_t>(record.count), record.root,
                   record.counts_hash, suspends};
}

}  // namespace rondo
