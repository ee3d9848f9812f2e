// SPDX-License-Identifier: Apache-2.0
// An object of these classes is one all-reduce by load_store, and lives on the stack. LoadStoreCall, their base class,
// accesses the exchange. In all load_store files, names such as P1 and H2 are accesses that src/proto/exchange.h lists.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "src/engine/load_store.h"
#include "src/engine/reduction/rank_order.h"
#include "src/engine/reduction/reduction.h"
#include "src/plan/load_store_chunks.h"
#include "src/proto/memory.h"

namespace rondo {

/// The arguments of ExchangeEnd::run().
struct LoadStoreArgs {
  ExchangeEnd &end;
  const Plan &plan;
  const Buffers &buffers;
  const HostReducer &reducer;
  Waiter &waiter;
  const OperandScaler *const scaler;

  [[nodiscard]] rondo_type_t type() const { return static_cast<rondo_type_t>(plan.key.signature.type); }
  [[nodiscard]] rondo_op_t op() const { return static_cast<rondo_op_t>(plan.key.signature.op); }
};

/// Returns whether the type is a float of 8 or 16 bits, which is computed in float32.
[[nodiscard]] inline bool is_small_float(rondo_type_t type) {
  return type == RONDO_FLOAT16 || type == RONDO_BFLOAT16 || type == RONDO_FLOAT8_E4M3 || type == RONDO_FLOAT8_E5M2;
}

/// The actions of a call: accesses to the exchange, copies, reductions and waits.
class LoadStoreCall {
 protected:
  LoadStoreCall(const LoadStoreArgs &args, Partials partials)
      : end_(args.end),
        buffers_(args.buffers),
        reducer_(args.reducer),
        waiter_(args.waiter),
        scaler_(args.scaler),
        count_(args.plan.key.signature.count),
        element_bytes_(args.plan.lanes.front().program.element_bytes),
        partials_(partials) {}

  /// Returns how one_shot and two_shot keep partial sums. Sums of small floats are rounded once, at the end.
  [[nodiscard]] static Partials partials_of(rondo_type_t type) {
    return is_small_float(type) ? Partials::wide : Partials::native;
  }

  [[nodiscard]] uint32_t rank_count() const { return end_.view_.geometry.rank_count; }
  [[nodiscard]] ExchangePlace &place(uint32_t rank) const { return end_.view_.place(rank); }
  [[nodiscard]] ExchangePlace &own_place() const { return place(end_.rank_); }
  /// Returns the rank that follows this rank at distance `offset` in the ring.
  [[nodiscard]] uint32_t rank_after(uint32_t offset) const { return (end_.rank_ + offset) % rank_count(); }

  [[nodiscard]] uint64_t bytes() const { return count_ * element_bytes_; }
  [[nodiscard]] bool apart() const { return buffers_.send.data != buffers_.recv.data; }
  [[nodiscard]] bool outgrows_caches() const { return bytes() >= end_.cache_bytes_; }
  /// Returns whether results are written with stores that bypass the caches. A call in place uses no such stores,
  /// because recv was just read and its lines are in the caches.
  [[nodiscard]] bool streams() const { return apart() && outgrows_caches(); }

  /// Copies bytes. With past_caches it uses streaming stores.
  void copy(std::byte *to, const std::byte *from, size_t size, bool past_caches = false) const {
    if (size == 0) return;
    if (end_.trace_ != nullptr) end_.trace_->copied(to, from, size);
    if (past_caches)
      stream_copy(to, from, size);
    else
      std::memcpy(to, from, size);
  }
  /// Scales `size` bytes of this rank's operands from `from` to `to`, and returns `to`.
  [[nodiscard]] const std::byte *scaled(std::byte *to, const std::byte *from, size_t size) const {
    (*scaler_)(to, from, size);
    return to;
  }
  /// Copies operands of this rank to where peers read them. In a premul sum, it scales the operands.
  void copy_operands(std::byte *to, const std::byte *from, size_t size) const {
    if (scaler_ == nullptr) return copy(to, from, size);
    (*scaler_)(to, from, size);
  }
  void reduce(std::span<const std::byte *const> operands, std::span<std::byte *const> outputs, uint64_t count,
              bool past_caches = false) const {
    if (end_.trace_ != nullptr) end_.trace_->reduced(operands, outputs, count * element_bytes_);
    reduce_in_rank_order(reducer_, operands, outputs, count, element_bytes_, partials_, past_caches);
  }
  /// Stores a flag or counter that peers wait for, and wakes them if they may sleep.
  void publish(uint64_t &word, uint64_t value) const;
  void note_waited(const uint64_t &word, uint64_t value) const {
    if (end_.trace_ != nullptr) end_.trace_->waited(word, value);
  }
  /// Polls until ready() is true. Returns false if the waiter ends the wait.
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
  [[nodiscard]] static RunOutcome fault(Fault what, uint32_t peer) { return {RunOutcome::Kind::fault, what, peer}; }

  ExchangeEnd &end_;
  const Buffers &buffers_;
  const HostReducer &reducer_;
  Waiter &waiter_;
  const OperandScaler *const scaler_;  ///< set for a premul sum that scales operands while it copies, otherwise null
  const uint64_t count_;
  const uint32_t element_bytes_;
  const Partials partials_;
};

/// A call by two_shot. The ranks process one chunk at a time, and rank r reduces the r-th part of the chunk.
class TwoShotCall : public LoadStoreCall {
 public:
  explicit TwoShotCall(const LoadStoreArgs &args) : TwoShotCall(args, partials_of(args.type()), false) {}

  [[nodiscard]] RunOutcome run();

 protected:
  TwoShotCall(const LoadStoreArgs &args, Partials partials, bool pays_to_export)
      : LoadStoreCall(args, partials),
        tiles_(args.plan.lanes.front().program.partition),
        chunks_(tiles_, count_, rank_count()),
        pays_to_export_(pays_to_export) {}

  /// Writes this rank's announcement. Peers see it once this rank publishes its next counter.
  void announce();
  [[nodiscard]] RunOutcome wait_for_announcements();
  [[nodiscard]] RunOutcome reduce_part(uint64_t chunk);
  void reduce_range(uint64_t chunk, Range range) const;
  [[nodiscard]] RunOutcome gather(uint64_t chunk) const;
  [[nodiscard]] RunOutcome finish_gathering() const;

  const Partition &tiles_;  ///< tiles of the schedule, which determine a ring's order of reductions
  load_store::Chunks chunks_;
  const bool pays_to_export_;      ///< true if exporting pays even for small buffers
  bool in_ring_order_ = false;     ///< true for a ring without accumulators
  bool all_export_ = false;        ///< true if every rank exports both buffers; known after the announcements
  bool all_apart_ = false;         ///< true if every rank is out of place; known after the announcements
  bool sums_past_caches_ = false;  ///< true if sums that are reduced directly into recv bypass the caches

 private:
  [[nodiscard]] bool worth_exporting() const;
  [[nodiscard]] bool can_export(const Window &window) const;
  [[nodiscard]] const std::byte *open(uint32_t peer, const ExportedBuffer &buffer) const;
  void contribute(uint64_t chunk) const;
  [[nodiscard]] const std::byte *operand(uint64_t chunk, uint32_t rank, uint64_t element) const;
  /// Waits until all ranks have read the accumulators of an earlier ring, before two_shot overwrites them.
  [[nodiscard]] RunOutcome settle_ring() const;
  /// Waits until every rank has gathered `chunks` chunks since the communicator was made.
  [[nodiscard]] RunOutcome wait_for_gathered(uint64_t chunks) const;
  /// Calls reduce_piece(piece, rank) for each piece of `range`. `rank` is the rank whose operand comes first in that
  /// piece.
  template <class Reduction>
  void for_each_order(Range range, const Reduction &reduce_piece) const {
    if (in_ring_order_) return chunks_.for_each_ring_order(range, reduce_piece);
    reduce_piece(range, 0u);
  }

  bool exports_send_ = false, exports_recv_ = false;
  // The exported send and recv buffers of each rank, or null. wait_for_announcements() sets them.
  std::array<const std::byte *, exchange_rank_count_max> operands_;
  std::array<const std::byte *, exchange_rank_count_max> results_;
};

/// A call by a ring. If every rank exports both buffers, the call has the steps of a two_shot, and only the order of
/// reduction differs.
class RingCall : public TwoShotCall {
 public:
  explicit RingCall(const LoadStoreArgs &args);

  [[nodiscard]] RunOutcome run();

 private:
  enum class Form : uint8_t {
    accumulators,    ///< some rank does not export: all ranks add to sums in the exchange
    exported_parts,  ///< all ranks export both buffers: each reduces a part, and fetches the other results
    exported_whole,  ///< two ranks out of place export both buffers: each reduces all elements and fetches none
  };
  /// The progress of this rank in a ring of accumulators.
  struct Progress {
    uint64_t tile = 0;  ///< tile of the next hop
    uint32_t hop = 0;
    uint64_t gathered = 0;         ///< number of tiles that this rank has gathered
    uint64_t gathered_by_all = 0;  ///< chunks since the communicator began that all ranks have gathered, at least
  };

  [[nodiscard]] Form choose_form() const;
  [[nodiscard]] RunOutcome run_exported_parts();
  [[nodiscard]] RunOutcome run_exported_whole();
  [[nodiscard]] RunOutcome run_accumulators();
  [[nodiscard]] bool reduce_hop(Progress &progress) const;
  void add_to_sum(std::span<const std::byte *const, 2> operands, std::span<std::byte *const> outputs, uint64_t count,
                  uint32_t summed) const;
  [[nodiscard]] bool may_begin(uint64_t chunk, Progress &progress) const;
  [[nodiscard]] bool gather_tile(Progress &progress) const;

  const bool cheap_;  ///< true if arithmetic is not slower than memory
};

}  // namespace rondo
