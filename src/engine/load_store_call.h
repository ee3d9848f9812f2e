// SPDX-License-Identifier: Apache-2.0
// This class is one all-reduce by load_store, with the code that its forms share. Each form is a function that
// completes the call. load_store.cpp chooses the form. In a ring, it does so when all ranks have announced their
// exported buffers.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "src/engine/load_store.h"
#include "src/engine/reduction/copy.h"
#include "src/engine/reduction/rank_order.h"
#include "src/plan/load_store_chunks.h"
#include "src/proto/memory.h"

namespace rondo {

/// A call, made on the stack. The ranks process one chunk at a time, and rank r reduces the r-th part of the chunk.
class LoadStoreCall {
 public:
  LoadStoreCall(ExchangeEnd &end, const Plan &plan, const Buffers &buffers, const HostReducer &reducer,
                Waiter &waiter, const OperandScaler *scaler);

  [[nodiscard]] RunOutcome run(rondo_algorithm_t algorithm);

 private:
  /// The form of a ring.
  enum class RingForm : uint8_t {
    accumulators,    ///< some rank does not export: all ranks add to sums in the exchange
    exported_parts,  ///< all ranks export both buffers: each reduces a part, and fetches the other ranks' results
    exported_whole,  ///< two ranks out of place export both buffers: each reduces everything and fetches nothing
  };
  /// The progress of this rank in a ring of accumulators.
  struct RingProgress {
    uint64_t tile = 0;  ///< tile of the next hop
    uint32_t hop = 0;
    uint64_t gathered = 0;         ///< number of tiles that this rank has gathered
    uint64_t gathered_by_all = 0;  ///< lower bound for all ranks, in chunks of the communicator's life
  };

  // load_store.cpp
  [[nodiscard]] RunOutcome run_one_shot();
  [[nodiscard]] RunOutcome run_ring();
  [[nodiscard]] RingForm choose_ring_form() const;
  void fetch_back(uint64_t number, uint64_t bytes) const;
  void announce();
  [[nodiscard]] bool worth_exporting() const;
  [[nodiscard]] bool can_export(const Window &window) const;
  [[nodiscard]] RunOutcome wait_for_announcements();
  [[nodiscard]] const std::byte *open(uint32_t peer, const ExportedBuffer &buffer) const;
  void publish(uint64_t &word, uint64_t value) const;

  // load_store_two_shot.cpp
  [[nodiscard]] RunOutcome run_two_shot();
  [[nodiscard]] RunOutcome run_exported_parts();
  [[nodiscard]] RunOutcome run_exported_whole();
  void contribute(uint64_t chunk) const;
  [[nodiscard]] RunOutcome reduce(uint64_t chunk);
  [[nodiscard]] const std::byte *operand(uint64_t chunk, uint32_t rank, uint64_t element) const;
  void reduce_range(uint64_t chunk, Range range) const;
  [[nodiscard]] RunOutcome gather(uint64_t chunk) const;
  [[nodiscard]] RunOutcome finish_gathering() const;

  // load_store_ring.cpp
  [[nodiscard]] RunOutcome run_accumulators();
  [[nodiscard]] bool reduce_hop(RingProgress &progress) const;
  void add_to_sum(std::span<const std::byte *const, 2> operands, std::span<std::byte *const> outputs, uint64_t count,
                  uint32_t summed) const;
  [[nodiscard]] bool may_begin(uint64_t chunk, RingProgress &progress) const;
  [[nodiscard]] bool gather_tile(RingProgress &progress) const;
  [[nodiscard]] RunOutcome settle_ring() const;
  [[nodiscard]] RunOutcome wait_for_gathered(uint64_t chunks) const;

  [[nodiscard]] uint32_t rank_count() const { return end_.view_.geometry.rank_count; }
  [[nodiscard]] ExchangePlace &place(uint32_t rank) const { return end_.view_.place(rank); }
  [[nodiscard]] ExchangePlace &own_place() const { return place(end_.rank_); }
  /// Returns the rank that follows this rank at distance `offset` in the ring.
  [[nodiscard]] uint32_t rank_after(uint32_t offset) const { return (end_.rank_ + offset) % rank_count(); }

  [[nodiscard]] uint64_t bytes() const { return count_ * element_bytes_; }
  [[nodiscard]] bool apart() const { return buffers_.send.data != buffers_.recv.data; }
  [[nodiscard]] bool outgrows_caches() const { return bytes() >= end_.cache_bytes_; }
  /// Returns whether results are written past the caches. In place, the lines of recv are cached already, since they
  /// were just read.
  [[nodiscard]] bool streams() const { return apart() && outgrows_caches(); }
  /// Calls reduce(piece, rank) for each piece of `range`. `rank` is the rank whose operand comes first in that piece.
  template <class Reduction>
  void for_each_order(Range range, const Reduction &reduce) const {
    if (in_ring_order_) return chunks_.for_each_ring_order(range, reduce);
    reduce(range, 0u);
  }

  /// Copies bytes. With past_caches it uses streaming stores.
  void copy(std::byte *to, const std::byte *from, size_t size, bool past_caches = false) const {
    if (size == 0) return;
    if (end_.trace_ != nullptr) end_.trace_->copied(to, from, size);
    if (past_caches)
      stream_copy(to, from, size);
    else
      std::memcpy(to, from, size);
  }
  /// Scales operands of this rank, and returns `to`.
  [[nodiscard]] const std::byte *scaled(std::byte *to, const std::byte *from, size_t size) const {
    (*scaler_)(to, from, size);
    return to;
  }
  /// Copies operands of this rank to where peers read them. In a premul sum, it scales the operands.
  void copy_operands(std::byte *to, const std::byte *from, size_t size) const {
    if (scaler_ == nullptr) return copy(to, from, size);
    (*scaler_)(to, from, size);
  }
  void reduce(const HostReducer &reducer, std::span<const std::byte *const> operands,
              std::span<std::byte *const> outputs, uint64_t count, bool past_caches = false) const {
    if (end_.trace_ != nullptr) end_.trace_->reduced(operands, outputs, count * element_bytes_);
    // A ring's results must not depend on which buffers are exported, so it rounds as if all sums went through memory.
    const Partials partials = is_ring_ ? ring_partials_ : small_floats_ ? Partials::wide : Partials::native;
    reduce_in_rank_order(reducer, operands, outputs, count, element_bytes_, partials, past_caches);
  }
  void note_waited(const uint64_t &word, uint64_t value) const {
    if (end_.trace_ != nullptr) end_.trace_->waited(word, value);
  }
  /// Polls until ready() is true. Returns false if the waiter stops it.
  template <class Ready>
  [[nodiscard]] bool wait_until(const Ready &ready) const {
    for (uint32_t poll = 0; poll < waiter_.poll_count(); ++poll)
      if (ready()) return true;
    while (!ready())
      if (!waiter_.idle()) return false;
    waiter_.moved();
    return true;
  }
  /// Waits until a peer's counter has reached `value`. Returns false if the waiter ends the wait.
  [[nodiscard]] bool wait_for(const PaddedCounter &counter, uint64_t value) const {
    if (!wait_until([&] { return memory::load_sync(counter.value) >= value; })) return false;
    note_waited(counter.value, value);
    return true;
  }

  static constexpr RunOutcome stopped{RunOutcome::Kind::stopped, Fault::none, 0};
  [[nodiscard]] static bool done(const RunOutcome &outcome) { return outcome.kind == RunOutcome::Kind::done; }

  ExchangeEnd &end_;
  const Buffers &buffers_;
  const HostReducer &reducer_;
  Waiter &waiter_;
  const OperandScaler *const scaler_;  ///< of a premul sum whose operands are scaled on the way, otherwise null
  const Partition &tiles_;  ///< of the schedule: a ring's order of reductions follows from them
  const uint64_t count_;
  const uint32_t element_bytes_;
  const bool small_floats_;  ///< floats of 8 or 16 bits, which are computed in float32
  const Partials ring_partials_;
  const bool cheap_;         ///< true if memory takes longer than arithmetic
  load_store::Chunks chunks_;
  bool is_ring_ = false;
  bool in_ring_order_ = false;  ///< true for a ring without accumulators
  bool exports_send_ = false, exports_recv_ = false;
  bool all_export_ = false;        ///< true if every rank exports both buffers; known after the announcements
  bool all_apart_ = false;         ///< true if every rank is out of place; known after the announcements
  bool sums_past_caches_ = false;  ///< true if sums that are reduced directly into recv bypass the caches
  // The exported send and recv buffers of each rank, or null. wait_for_announcements() sets them. They are not
  // initialised before, because that would slow down a one_shot of a few bytes.
  std::array<const std::byte *, exchange_rank_count_max> operands_;
  std::array<const std::byte *, exchange_rank_count_max> results_;
};

}  // namespace rondo
