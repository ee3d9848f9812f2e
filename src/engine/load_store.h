// SPDX-License-Identifier: Apache-2.0
// The kernel load_store on host memory runs an all-reduce by one_shot, two_shot or ring in place of the interpreter, if
// a plan names it. Ranks load what the others have stored in memory that all map, without connections.
// src/proto/exchange.h describes the layout and the order of accesses. A ring's result is bit for bit the result of
// its schedule. one_shot and two_shot reduce in rank order, as their schedules do. They round small floats once, at
// the end (docs/numerics.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/engine/reduction/scale.h"
#include "src/engine/run_plan.h"
#include "src/proto/exchange.h"

namespace rondo {

/// A test's view of a kernel's accesses, in the order in which the rank makes them.
class ExchangeTrace {
 public:
  virtual ~ExchangeTrace() = default;
  /// Reports that a peer's word was seen to be at least `value`; the flag of a post, to be `value`.
  virtual void waited(const uint64_t &word, uint64_t value) = 0;
  virtual void published(const uint64_t &word, uint64_t value) = 0;
  virtual void copied(const std::byte *to, const std::byte *from, size_t bytes) = 0;
  /// Reports `bytes` bytes of each operand and output; operands have the order in which they are reduced.
  virtual void reduced(std::span<const std::byte *const> operands, std::span<std::byte *const> outputs,
                       size_t bytes) = 0;
};

/// This rank's end of the exchange. Lives as long as the communicator; counters survive from operation to operation.
class ExchangeEnd {
 public:
  ExchangeEnd() = default;
  /// `readable_kinds[p]` says which exported buffers of this rank p can read, `wake` whether ranks of
  /// this communicator may sleep. Results below cache_bytes are left in the caches; it is the same on all ranks.
  ExchangeEnd(const ExchangeView &view, uint32_t rank, std::vector<uint32_t> readable_kinds, PeerAccess &peers,
              bool wake, uint64_t cache_bytes = 16u << 20)
      : view_(view),
        rank_(rank),
        readable_kinds_(std::move(readable_kinds)),
        peers_(&peers),
        wake_(wake),
        cache_bytes_(cache_bytes) {}

  /// Runs an all-reduce whose plan names the kernel load_store. Allocates nothing. With `scaler`, this rank's operands
  /// are scaled on the way, and neither of its buffers is exported.
  [[nodiscard]] RunOutcome run(const Plan &plan, const Buffers &buffers, const HostReducer &reducer, Waiter &waiter,
                               const OperandScaler *scaler = nullptr);

  /// Reports all calls to come to `trace`, which outlives them. For tests.
  void trace_to(ExchangeTrace &trace) { trace_ = &trace; }

 private:
  friend class LoadStoreCall;

  ExchangeView view_;
  uint32_t rank_ = 0;
  std::vector<uint32_t> readable_kinds_;
  PeerAccess *peers_ = nullptr;
  bool wake_ = false;
  uint64_t cache_bytes_ = 0;
  uint64_t posts_ = 0;           ///< number of the latest one_shot
  uint64_t chunks_ = 0;          ///< of all two_shots and rings before the present one
  bool ring_unsettled_ = false;  ///< the last ring's accumulators may still be read
  ExchangeTrace *trace_ = nullptr;
};

}  // namespace rondo
