// SPDX-License-Identifier: Apache-2.0
// ll: a flag beside every 4 bytes, so that data announces itself; half of the bytes are payload.
//
// Layout    unit = data in the low 32 bits, flag in the high 32 bits of one 64-bit word, accessed as one scalar.
//           slot = unit 0, whose data is the operation's signature; then one unit for each 4 bytes of payload, the last
//           one padded with zeros. slot = counter & mask; ll_stride bytes apart.
// Flag      flag_of(c) = 1 + c mod (2^32 - 1): never 0, so fresh memory is stale. Counters are ll's own, hence
//           contiguous, and the writer clears the rest of each slot once in 2^31 counters: no unit left over from a
//           longer message can carry the flag that is expected now.
// Ordering  W1 load head, sync            pairs with R2: the slot's last reader has finished
//           W2 store unit, relaxed        pairs with R1 by value: data and flag are one access
//           R1 load unit, relaxed, until flag_of(c)
//           R2 store head, release        pairs with W1
//           W2 of unit 0 comes last and is a release (sync where the receiver may sleep, memory.h): the flags alone
//           order the data, but a collective also orders what the callers did before and after it.
// Group     several threads share a slot out by pairs of units (2p, 2p + 1), a pair in one access on a device. A
//           barrier stands before W2 of unit 0, which one thread does, and a vote behind R1.
// State     of a slot: stale (reader blocked) --W2--> full --R2, for the whole slot--> stale for the next lap
// Abort     a lane that gave up does neither W2 nor R2 again: its peers stay blocked and meet their own deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/base/host_device.h"
#include "src/proto/connection.h"
#include "src/proto/group.h"
#include "src/proto/memory.h"

namespace rondo {

namespace ll {

inline constexpr uint64_t sweep_period = uint64_t{1} << 31;

[[nodiscard]] RONDO_HD constexpr uint32_t flag_of(uint64_t counter) {
  return 1 + static_cast<uint32_t>(counter % 0xFFFF'FFFFu);
}
[[nodiscard]] RONDO_HD constexpr uint64_t pack(uint32_t data, uint32_t flag) { return uint64_t{flag} << 32 | data; }
[[nodiscard]] RONDO_HD constexpr uint32_t data_of(uint64_t unit) { return static_cast<uint32_t>(unit); }
[[nodiscard]] RONDO_HD constexpr uint32_t flag_in(uint64_t unit) { return static_cast<uint32_t>(unit >> 32); }

/// The 4 payload bytes that begin at `offset`, zero-padded past `bytes`.
[[nodiscard]] RONDO_HD inline uint32_t word_at(const std::byte *payload, size_t bytes, size_t offset) {
  uint32_t word = 0;
  std::memcpy(&word, payload + offset, bytes - offset < 4 ? bytes - offset : 4);
  return word;
}

/// The same of a payload that is 4-byte aligned and can be read in whole words; 0 from its end on.
[[nodiscard]] RONDO_HD inline uint32_t aligned_word_at(const std::byte *payload, size_t bytes, size_t offset) {
  if (offset >= bytes) return 0;
  uint32_t word = 0;
  std::memcpy(&word, __builtin_assume_aligned(payload + offset, 4), 4);
  return bytes - offset < 4 ? word & ((1u << (8 * (bytes - offset))) - 1) : word;
}

RONDO_HD inline void set_aligned_word(std::byte *payload, size_t offset, uint32_t word) {
  std::memcpy(__builtin_assume_aligned(payload + offset, 4), &word, 4);
}

/// Units of a slot: that of the signature, and one for each word.
[[nodiscard]] RONDO_HD constexpr size_t unit_count_of(size_t bytes) { return 1 + (bytes + 3) / 4; }

}  // namespace ll

class LlSender {
 public:
  LlSender() = default;
  RONDO_HD explicit LlSender(ConnectionView connection, uint64_t first_counter = 0)
      : connection_(connection), posted_(first_counter), consumed_(first_counter) {}

  [[nodiscard]] RONDO_HD bool can_send(bool wake = true) {
    if (posted_ - consumed_ < connection_.geometry.slot_count) return true;
    consumed_ = memory::load_flag(connection_.ll_head(), wake);  // W1, pairs with R2 in LlReceiver::release
    return posted_ - consumed_ < connection_.geometry.slot_count;
  }

  /// Writes and so publishes a slot. bytes <= ll_slot_bytes. wake: the receiver may sleep.
  void post(const std::byte *payload, size_t bytes, uint32_t signature, bool wake) {
    const uint32_t flag = ll::flag_of(posted_);
    uint64_t *const units = connection_.ll_units(posted_);
    size_t unit = 1;
    for (size_t offset = 0; offset < bytes; offset += 4, ++unit)
      memory::store_relaxed(units[unit], ll::pack(ll::word_at(payload, bytes, offset), flag));  // W2, R1 in receive
    if (posted_ % ll::sweep_period < connection_.geometry.slot_count) sweep(units, unit);
    const uint64_t first = ll::pack(signature, flag);
    if (wake) {
      memory::store_sync(units[0], first);  // W2, pairs with R1 in LlReceiver::receive
    } else {
      memory::store_release<memory::Site::ll_post>(units[0], first);  // W2, pairs with R1 in LlReceiver::receive
    }
    ++posted_;
  }

  /// The same by all threads of a group; nobody sleeps. `payload` is 4-byte aligned and readable in whole words. The
  /// caller's next barrier comes before the sender is asked again.
  template <Group G>
  RONDO_HD void post_by_group(G group, const std::byte *payload, size_t bytes, uint32_t signature) {
    const uint32_t flag = ll::flag_of(posted_);
    uint64_t *const units = connection_.ll_units(posted_);
    const size_t unit_count = ll::unit_count_of(bytes);
    const auto unit_of = [&](size_t unit) { return ll::pack(ll::aligned_word_at(payload, bytes, 4 * unit - 4), flag); };
    for (size_t unit = 2 + 2 * size_t{group.rank()}; unit < unit_count; unit += 2 * size_t{group.size()})
      memory::store_pair_relaxed(units + unit, {unit_of(unit), unit_of(unit + 1)});  // W2, R1 in receive_by_group
    if (posted_ % ll::sweep_period < connection_.geometry.slot_count) {
      const size_t all = connection_.geometry.ll_stride() / sizeof(uint64_t);
      for (size_t unit = unit_count + unit_count % 2 + group.rank(); unit < all; unit += group.size())
        memory::store_relaxed(units[unit], 0);
    }
    if (group.rank() == 0 && unit_count > 1) memory::store_relaxed(units[1], unit_of(1));  // W2
    if constexpr (memory::is_kept(memory::Site::ll_post_barrier)) group.sync();
    if (group.rank() != 0) return;
    // W2, pairs with R1 in LlReceiver::receive_by_group; behind the barrier, since the others read posted_, too.
    memory::store_release<memory::Site::ll_post>(units[0], ll::pack(signature, flag));
    ++posted_;
  }

 private:
  void sweep(uint64_t *units, size_t first) const {
    const size_t unit_count = connection_.geometry.ll_stride() / sizeof(uint64_t);
    for (size_t unit = first; unit < unit_count; ++unit) memory::store_relaxed(units[unit], 0);
  }

  ConnectionView connection_;
  uint64_t posted_ = 0;
  uint64_t consumed_ = 0;
};

enum class LlOutcome : uint8_t { stale, full, foreign };

class LlReceiver {
 public:
  LlReceiver() = default;
  RONDO_HD explicit LlReceiver(ConnectionView connection, uint64_t first_counter = 0)
      : connection_(connection), consumed_(first_counter) {}

  /// full: `bytes` of payload were written to `payload`. stale: something is still to come; nothing is consumed.
  /// foreign: the slot is another operation's.
  [[nodiscard]] LlOutcome receive(std::byte *payload, size_t bytes, uint32_t signature) const {
    const uint32_t flag = ll::flag_of(consumed_);
    const uint64_t *const units = connection_.ll_units(consumed_);
    const uint64_t first = memory::load_sync(units[0]);  // R1, pairs with W2 in LlSender::post
    if (ll::flag_in(first) != flag) return LlOutcome::stale;
    if (ll::data_of(first) != signature) return LlOutcome::foreign;
    size_t unit = 1;
    for (size_t offset = 0; offset < bytes; offset += 4, ++unit) {
      const uint64_t word = memory::load_relaxed(units[unit]);  // R1, pairs by value with W2 in LlSender::post
      if (ll::flag_in(word) != flag) return LlOutcome::stale;
      const uint32_t data = ll::data_of(word);
      std::memcpy(payload + offset, &data, bytes - offset < 4 ? bytes - offset : 4);
    }
    return LlOutcome::full;
  }

  /// The same by all threads of a group, each of which looks at its units up to poll_count times; nobody sleeps. All
  /// return the same. `payload` is 4-byte aligned and writable in whole words, one more than there are.
  template <Group G>
  [[nodiscard]] RONDO_HD LlOutcome receive_by_group(G group, std::byte *payload, size_t bytes, uint32_t signature,
                                                    uint32_t poll_count) const {
    const uint32_t flag = ll::flag_of(consumed_);
    const uint64_t *const units = connection_.ll_units(consumed_);
    const size_t unit_count = ll::unit_count_of(bytes);
    bool foreign = false;
    bool stale = false;
    if (group.rank() == 0) stale = !await_first(units, flag, signature, bytes, payload, poll_count, foreign);
    for (size_t unit = 2 + 2 * size_t{group.rank()}; unit < unit_count && !stale; unit += 2 * size_t{group.size()}) {
      const bool both = unit + 1 < unit_count;
      memory::Pair pair{};
      stale = true;
      for (uint32_t look = 0; stale && look < poll_count; ++look) {
        memory::Attempt attempt;
        pair = memory::load_pair_relaxed(units + unit);  // R1, pairs by value with W2 in post_by_group
        stale = !is_full(pair, flag, both);
        if (!stale) attempt.keep();
      }
      ll::set_aligned_word(payload, 4 * unit - 4, ll::data_of(pair.first));
      ll::set_aligned_word(payload, 4 * unit, ll::data_of(pair.second));
    }
    // Units of another operation's slot may be fewer: the first one decides.
    if (any_at<memory::Site::ll_fetch_vote>(group, stale))
      return group.any(foreign) ? LlOutcome::foreign : LlOutcome::stale;
    return ll::data_of(memory::load_relaxed(units[0])) == signature ? LlOutcome::full : LlOutcome::foreign;
  }

  RONDO_HD void release(bool wake) {
    ++consumed_;
    if (wake) {
      memory::store_sync(connection_.ll_head(), consumed_);  // R2, pairs with W1 in LlSender::can_send
    } else {
      memory::store_release(connection_.ll_head(),
                            consumed_);  // R2, pairs with W1 in LlSender::can_send
    }
  }

 private:
  [[nodiscard]] RONDO_HD static bool is_full(memory::Pair pair, uint32_t flag, bool both) {
    return ll::flag_in(pair.first) == flag && (!both || ll::flag_in(pair.second) == flag);
  }

  /// Units 0 and 1, by one thread. False: something is still to come, or the slot is another operation's.
  [[nodiscard]] RONDO_HD static bool await_first(const uint64_t *units, uint32_t flag, uint32_t signature, size_t bytes,
                                                 std::byte *payload, uint32_t poll_count, bool &foreign) {
    uint64_t first = 0;
    bool stale = true;
    for (uint32_t look = 0; stale && look < poll_count; ++look) {
      memory::Attempt attempt;
      first = memory::load_acquire(units[0]);  // R1, pairs with W2 in LlSender::post_by_group
      stale = ll::flag_in(first) != flag;
      if (!stale) attempt.keep();
    }
    if (stale) return false;
    foreign = ll::data_of(first) != signature;
    if (foreign || bytes == 0) return !foreign;
    const uint64_t second = memory::load_relaxed(units[1]);  // R1; written before unit 0
    ll::set_aligned_word(payload, 0, ll::data_of(second));
    return ll::flag_in(second) == flag;
  }

  ConnectionView connection_;
  uint64_t consumed_ = 0;
};

}  // namespace rondo
