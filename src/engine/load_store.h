// SPDX-License-Identifier: Apache-2.0
// The kernel load_store runs an all-reduce on host memory by one_shot, two_shot or ring, for plans that name it. The
// kernel replaces the interpreter and needs no connections. All ranks map the exchange: shared memory in which each
// rank stores data that the other ranks load. src/proto/exchange.h has its layout and the order of accesses. A ring
// gives the same bits as its schedule. The other two algorithms reduce in rank order, as their schedules do. They round
// small floats only once, at the end (docs/numerics.md).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "src/engine/reduction/converted_operands.h"
#include "src/engine/run_plan.h"
#include "src/proto/exchange.h"

namespace rondo {

/// An observer for tests. The kernel reports its accesses to it, in the order in which the rank makes them.
class ExchangeTrace {
 public:
  virtual ~ExchangeTrace() = default;
  /// Reports that a word of a peer has reached `value`. If the word is the flag of a post, the word equals `value`.
  virtual void waited(const uint64_t &word, uint64_t value) = 0;
  virtual void published(const uint64_t &word, uint64_t value) = 0;
  virtual void copied(const std::byte *to, const std::byte *from, size_t bytes) = 0;
  /// Reports a reduction of `bytes` bytes of each operand. The operands are in the order of the reduction.
  virtual void reduced(std::span<const std::byte *const> operands, std::span<std::byte *const> outputs,
                       size_t bytes) = 0;
};

/// This rank's end of the exchange. It lives as long as the communicator. Its counters are never reset.
class ExchangeEnd {
 public:
  ExchangeEnd() = default;
  /// Takes the exchange. `readable_kinds[p]` has a bit for each PayloadKind of buffer that this rank can export to peer
  /// p. `wake` says whether ranks of this communicator may sleep. Results smaller than cache_bytes stay in the caches.
  /// All ranks must pass equal cache_bytes.
  ExchangeEnd(const ExchangeView &view, uint32_t rank, std::vector<uint32_t> readable_kinds, PeerAccess &peers,
              bool wake, uint64_t cache_bytes = 16u << 20)
      : view_(view),
        rank_(rank),
        readable_kinds_(std::move(readable_kinds)),
        peers_(&peers),
        wake_(wake),
        cache_bytes_(cache_bytes) {}

  /// Runs an all-reduce whose plan names the kernel load_store. Allocates nothing. With `scaler`, this rank's operands
  /// are scaled while they are copied, and neither of its buffers is exported.
  [[nodiscard]] RunOutcome run(const Plan &plan, const Buffers &buffers, const HostReducer &reducer, Waiter &waiter,
                               const OperandScaler *scaler = nullptr);

  /// Makes later calls of run() report their accesses to `trace`, which must outlive these calls. For tests.
  void trace_to(ExchangeTrace &trace) { trace_ = &trace; }

 private:
  friend class LoadStoreCall;
  friend class OneShotCall;
  friend class TwoShotCall;
  friend class RingCall;

  ExchangeView view_;
  uint32_t rank_ = 0;
  std::vector<uint32_t> readable_kinds_;
  PeerAccess *peers_ = nullptr;
  bool wake_ = false;
  uint64_t cache_bytes_ = 0;
  uint64_t posts_ = 0;           ///< number of the latest one_shot
  uint64_t chunks_ = 0;          ///< number of chunks of all earlier two_shots and rings
  bool ring_unsettled_ = false;  ///< true while peers may still read the last ring's accumulators
  ExchangeTrace *trace_ = nullptr;
};

}  // namespace rondo
