// SPDX-License-Identifier: Apache-2.0
// The protocol direct on host memory: the specialised kernels that all-reduce by one_shot, two_shot and ring has beside
// the interpreter (src/proto/exchange.h has the layout and the order of accesses). The result is bit for bit that of
// the schedules of the same names: reduced in rank order, or in that of the ring, one rounding a step.
#pragma once

#include <cstdint>
#include <vector>

#include "src/engine/run_plan.h"
#include "src/proto/exchange.h"

namespace rondo {

/// This rank's end of the exchange. Lives as long as the communicator; counters survive from operation to operation.
class ExchangeEnd {
 public:
  ExchangeEnd() = default;
  /// `readable_kinds[p]`: exported buffers of this rank that p can read. wake: ranks of this communicator may sleep.
  /// cache_bytes: smaller results are left in the caches; the same on all ranks.
  ExchangeEnd(const ExchangeView &view, uint32_t rank, std::vector<uint32_t> readable_kinds, PeerAccess &peers,
              bool wake, uint64_t cache_bytes = 16u << 20)
      : view_(view),
        rank_(rank),
        readable_kinds_(std::move(readable_kinds)),
        peers_(&peers),
        wake_(wake),
        cache_bytes_(cache_bytes),
        operands_(readable_kinds_.size()),
        results_(readable_kinds_.size()) {}

  /// Runs an all-reduce whose plan has the protocol direct. Allocates nothing.
  [[nodiscard]] RunOutcome run(const Plan &plan, const Buffers &buffers, const HostReducer &reducer, Waiter &waiter);

 private:
  struct Job;
  struct RingState;

  [[nodiscard]] RunOutcome run_one_shot(const Job &job);
  [[nodiscard]] RunOutcome run_two_shot(Job &job);
  [[nodiscard]] RunOutcome run_ring(Job &job);
  [[nodiscard]] RunOutcome run_lent_ring(Job &job);
  [[nodiscard]] RunOutcome reduce_everything(Job &job);
  void fetch_back(uint64_t number, uint64_t bytes) const;
  void contribute(const Job &job, uint64_t chunk);
  [[nodiscard]] RunOutcome reduce(const Job &job, uint64_t chunk);
  [[nodiscard]] const std::byte *operand(const Job &job, uint64_t chunk, uint32_t rank, uint64_t element) const;
  void reduce(const Job &job, uint64_t chunk, Range range);
  [[nodiscard]] RunOutcome gather(const Job &job, uint64_t chunk);
  [[nodiscard]] RunOutcome finish_gathering(const Job &job);
  [[nodiscard]] RunOutcome wait_for_gathered(const Job &job, uint64_t chunks) const;
  [[nodiscard]] bool reduce_hop(const Job &job, RingState &state);
  [[nodiscard]] bool may_begin(uint64_t chunk, RingState &state) const;
  [[nodiscard]] bool gather_tile(const Job &job, RingState &state);
  [[nodiscard]] RunOutcome settle_ring(const Job &job);
  [[nodiscard]] uint64_t lent_chunk_factor() const;
  [[nodiscard]] RunOutcome meet(Job &job);
  void announce(const Job &job);
  [[nodiscard]] bool worth_lending(const Job &job) const;
  [[nodiscard]] bool can_lend(const Window &window, const Job &job) const;
  [[nodiscard]] const std::byte *open(uint32_t peer, const LentBuffer &buffer, uint64_t bytes) const;
  void publish(uint64_t &word, uint64_t value) const;
  [[nodiscard]] uint32_t rank_count() const { return view_.geometry.rank_count; }

  ExchangeView view_;
  uint32_t rank_ = 0;
  std::vector<uint32_t> readable_kinds_;
  PeerAccess *peers_ = nullptr;
  bool wake_ = false;
  uint64_t cache_bytes_ = 0;
  uint64_t posts_ = 0;           ///< number of the latest one_shot
  uint64_t chunks_ = 0;          ///< of all two_shots and rings before this one
  bool ring_unsettled_ = false;  ///< the last ring's accumulators may still be read
  bool lends_send_ = false;      ///< in this operation
  bool lends_recv_ = false;
  std::vector<const std::byte *> operands_;  ///< of rank r: its send buffer where it is exported, else null
  std::vector<const std::byte *> results_;   ///< its recv buffer, likewise
};

}  // namespace rondo
