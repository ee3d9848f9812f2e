// SPDX-License-Identifier: Apache-2.0
// The protocol ll puts a flag beside every 4 bytes, so that data announces itself. Half of the bytes are payload.
//
// Layout    unit = data in the low 32 bits, flag in the high 32 bits of one 64-bit word, accessed as one scalar.
//           A slot has one unit for each 4 bytes of payload, at least one. The last unit is padded with zeros. Counter
//           c uses slot c & mask; slots are ll_stride bytes apart.
// Flag      lap of the slot in the high 8 bits, operation's digest in the low 24. The lap's top bit is set, so fresh
//           memory is stale. A unit of another lap is stale. A unit of this lap with another digest belongs to another
//           operation. Lap numbers repeat after 128 laps. In every 64th lap the writer clears the units of a slot
//           beyond its message. So no unit of an old, longer message has the lap that is expected now. ll counts its
//           slots apart from simple, so it uses every slot in every lap.
// Ordering  F1 load head, sync            pairs with F4: the slot's last reader has finished
//           F2 store unit, relaxed        pairs with F3 by value: data and flag are one access
//           F3 load unit, relaxed, until it has the flag
//           F4 store head, release        pairs with F1
//           For unit 0, F2 is a release and F3 an acquire. The flags alone order the payload. Unit 0 also orders the
//           callers' other memory accesses before and after the collective. On hosts unit 0 is written last, with sync
//           if the receiver may sleep (memory.h).
// Group     The threads divide a slot into pairs of units (2p, 2p + 1); a device accesses a pair at once. The caller
//           has a barrier before F2 and a vote after F3. No thread waits for the units of other threads, and units may
//           arrive in any order. Between ranks of one device unit 0 is relaxed, too, except in laps that clear
//           (docs/protocols.md says what orders callers). F4 is relaxed: a receiver stores the head only after it has
//           seen every unit, and the sender writes the slot again only after it has seen the head. In a long wait one
//           thread looks at unit 0 and the head, relaxed. This gives no order: F1 and F3 follow.
// State     A slot is stale (reader blocked) --F2--> full --F4, for the whole slot--> stale for the next lap.
// Abort     A lane that gave up does neither F2 nor F4 again. Its peers stay blocked and stop at their own deadline.
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

inline constexpr uint32_t lap_count = 128;        ///< number of laps after which lap numbers repeat
inline constexpr uint32_t sweep_laps = 64;  ///< one of this many laps clears, so one does between equal lap numbers
inline constexpr uint32_t signature_bits = 24;
inline constexpr uint32_t lap_valid = 0x80;

[[nodiscard]] RONDO_HD constexpr uint32_t lap_index(uint64_t counter, uint32_t slot_count) {
  return static_cast<uint32_t>(counter >> log2_of(slot_count));
}
[[nodiscard]] RONDO_HD constexpr uint32_t flag_of(uint64_t counter, uint32_t slot_count, uint32_t signature) {
  const uint32_t lap = lap_valid | lap_index(counter, slot_count) % lap_count;
  return lap << signature_bits | (signature & ((1u << signature_bits) - 1));
}
[[nodiscard]] RONDO_HD constexpr bool is_same_lap(uint32_t flag, uint32_t other) {
  return flag >> signature_bits == other >> signature_bits;
}
/// Returns whether the writer clears in this lap of the slot. The first lap does not, because memory is fresh.
[[nodiscard]] RONDO_HD constexpr bool sweeps(uint64_t counter, uint32_t slot_count) {
  return lap_index(counter, slot_count) % sweep_laps == sweep_laps - 1;
}
[[nodiscard]] RONDO_HD constexpr uint64_t pack(uint32_t data, uint32_t flag) { return uint64_t{flag} << 32 | data; }
[[nodiscard]] RONDO_HD constexpr uint32_t data_of(uint64_t unit) { return static_cast<uint32_t>(unit); }
[[nodiscard]] RONDO_HD constexpr uint32_t flag_in(uint64_t unit) { return static_cast<uint32_t>(unit >> 32); }

/// Returns the 4 payload bytes that begin at `offset`, zero-padded past `bytes`.
[[nodiscard]] RONDO_HD inline uint32_t word_at(const std::byte *payload, size_t bytes, size_t offset) {
  uint32_t word = 0;
  std::memcpy(&word, payload + offset, bytes - offset < 4 ? bytes - offset : 4);
  return word;
}

/// Returns what word_at() does, for a payload that is 4-byte aligned and readable in whole words; 0 past its end.
[[nodiscard]] RONDO_HD inline uint32_t aligned_word_at(const std::byte *payload, size_t bytes, size_t offset) {
  if (offset >= bytes) return 0;
  uint32_t word = 0;
  std::memcpy(&word, __builtin_assume_aligned(payload + offset, 4), 4);
  return bytes - offset < 4 ? word & ((1u << (8 * (bytes - offset))) - 1) : word;
}

RONDO_HD inline void set_aligned_word(std::byte *payload, size_t offset, uint32_t word) {
  std::memcpy(__builtin_assume_aligned(payload + offset, 4), &word, 4);
}

/// Returns the number of units of a slot: one for each word, but at least one.
[[nodiscard]] RONDO_HD constexpr size_t unit_count_of(size_t bytes) { return bytes == 0 ? 1 : (bytes + 3) / 4; }
/// Returns the number of units that a group writes, which are whole pairs.
[[nodiscard]] RONDO_HD constexpr size_t whole_pairs(size_t unit_count) { return unit_count + unit_count % 2; }

}  // namespace ll

class LlSender {
 public:
  LlSender() = default;
  RONDO_HD explicit LlSender(ConnectionView connection, uint64_t first_counter = 0)
      : connection_(connection), posted_(first_counter), consumed_(first_counter) {}

  [[nodiscard]] RONDO_HD bool can_send(bool wake = true) {
    if (posted_ - consumed_ < connection_.geometry.slot_count) return true;
    consumed_ = memory::load_flag(connection_.ll_head(), wake);  // F1, pairs with F4 in LlReceiver::release
    return posted_ - consumed_ < connection_.geometry.slot_count;
  }
  /// Says, by a relaxed load, whether can_send() may succeed. A rank that has waited for long calls this first.
  [[nodiscard]] RONDO_HD bool may_send() const {
    const uint64_t slot_count = connection_.geometry.slot_count;
    return posted_ - consumed_ < slot_count || posted_ - memory::load_relaxed(connection_.ll_head()) < slot_count;
  }

  /// Writes a slot, which publishes it. `bytes` is at most ll_slot_bytes. With `wake`, the receiver may sleep.
  void post(const std::byte *payload, size_t bytes, uint32_t signature, bool wake) {
    const uint32_t slot_count = connection_.geometry.slot_count;
    const uint32_t flag = ll::flag_of(posted_, slot_count, signature);
    uint64_t *const units = connection_.ll_units(posted_);
    const size_t unit_count = ll::unit_count_of(bytes);
    for (size_t unit = 1; unit < unit_count; ++unit)
      memory::store_relaxed(units[unit], ll::pack(ll::word_at(payload, bytes, 4 * unit), flag));  // F2, F3 in receive
    if (ll::sweeps(posted_, slot_count))
      for (size_t unit = unit_count; unit < longest_; ++unit) memory::store_relaxed(units[unit], 0);
    const uint64_t first = ll::pack(ll::word_at(payload, bytes, 0), flag);
    if (wake) {
      memory::store_sync(units[0], first);  // F2, pairs with F3 in LlReceiver::receive
    } else {
      memory::store_release<memory::Site::ll_post>(units[0], first);  // F2, pairs with F3 in LlReceiver::receive
    }
    count_post(unit_count);
  }

  /// Returns the counter of the next slot.
  [[nodiscard]] RONDO_HD uint64_t counter() const { return posted_; }

  /// Posts like post(), but by all threads of a group, directly after a barrier. Each thread has taken counter() before
  /// that barrier. No receiver sleeps. `payload` is 4-byte aligned and readable in whole words. With `orders`, unit 0
  /// is a release (see Ordering). The caller must call a barrier before it takes counter() again.
  template <Group G>
  RONDO_HD void post_by_group(G group, uint64_t counter, const std::byte *payload, size_t bytes, uint32_t signature,
                              bool orders) {
    const uint32_t slot_count = connection_.geometry.slot_count;
    const uint32_t flag = ll::flag_of(counter, slot_count, signature);
    uint64_t *const units = connection_.ll_units(counter);
    const size_t unit_count = ll::unit_count_of(bytes);
    const bool sweeps = ll::sweeps(counter, slot_count);
    if (sweeps) {  // before unit 0, which is a release now: a reader of unit 0 sees no older unit in a later lap
      for (size_t unit = ll::whole_pairs(unit_count) + group.rank(); unit < longest_; unit += group.size())
        memory::store_relaxed(units[unit], 0);
      group.sync();
    }
    const auto pair_at = [&](size_t unit) {
      return memory::Pair{ll::pack(ll::aligned_word_at(payload, bytes, 4 * unit), flag),
                          ll::pack(ll::aligned_word_at(payload, bytes, 4 * unit + 4), flag)};
    };
    size_t unit = 2 * size_t{group.rank()};
    if (unit == 0) {
      memory::store_first_pair<memory::Site::ll_post>(units, pair_at(0), orders || sweeps);  // F2, like the other pairs
      unit += 2 * size_t{group.size()};
    }
    for (; unit < unit_count; unit += 2 * size_t{group.size()})
      memory::store_pair_relaxed(units + unit, pair_at(unit));  // F2, pairs by value with F3 in look_by_group
    if (group.rank() == 0) count_post(ll::whole_pairs(unit_count));  // all threads have taken the counter before
  }

 private:
  RONDO_HD void count_post(size_t unit_count) {
    ++posted_;
    if (unit_count > longest_) longest_ = static_cast<uint32_t>(unit_count);
  }

  ConnectionView connection_;
  uint64_t posted_ = 0;
  uint64_t consumed_ = 0;
  uint32_t longest_ = 0;  ///< number of units of the longest message so far
};

/// The state of a slot, or of a thread's share of a slot in a group.
enum class LlOutcome : uint8_t { stale, full, foreign };

class LlReceiver {
 public:
  LlReceiver() = default;
  RONDO_HD explicit LlReceiver(ConnectionView connection, uint64_t first_counter = 0)
      : connection_(connection), consumed_(first_counter) {}

  /// Receives a slot into `payload`. Returns:
  /// - full: `bytes` bytes of payload were written
  /// - stale: a part has not arrived yet, and nothing was consumed
  /// - foreign: the slot belongs to another operation
  [[nodiscard]] LlOutcome receive(std::byte *payload, size_t bytes, uint32_t signature) const {
    const uint32_t flag = ll::flag_of(consumed_, connection_.geometry.slot_count, signature);
    const uint64_t *const units = connection_.ll_units(consumed_);
    const uint64_t first = memory::load_sync(units[0]);  // F3, pairs with F2 in LlSender::post
    if (ll::flag_in(first) != flag)
      return ll::is_same_lap(ll::flag_in(first), flag) ? LlOutcome::foreign : LlOutcome::stale;
    set_word(payload, bytes, 0, ll::data_of(first));
    const size_t unit_count = ll::unit_count_of(bytes);
    for (size_t unit = 1; unit < unit_count; ++unit) {
      const uint64_t word = memory::load_relaxed(units[unit]);  // F3, pairs by value with F2 in LlSender::post
      if (ll::flag_in(word) != flag) return LlOutcome::stale;
      set_word(payload, bytes, 4 * unit, ll::data_of(word));
    }
    return LlOutcome::full;
  }

  /// The next slot, for a group. `payload` is 4-byte aligned and writable in whole pairs of words. `acquires` says
  /// whether the sender stores unit 0 by a release.
  struct Slot {
    const uint64_t *units = nullptr;  ///< null if no slot is expected
    std::byte *payload = nullptr;
    uint32_t flag = 0;
    bool acquires = false;

    // F3, pairs by value with F2 in post_by_group
    [[nodiscard]] RONDO_HD memory::Pair load(size_t unit) const {
      return unit == 0 ? memory::load_first_pair(units, acquires) : memory::load_pair_relaxed(units + unit);
    }
    [[nodiscard]] RONDO_HD bool is_stale(const memory::Pair &pair, bool both) const {
      return ll::flag_in(pair.first) != flag || (both && ll::flag_in(pair.second) != flag);
    }
    [[nodiscard]] RONDO_HD bool is_foreign(const memory::Pair &pair) const {
      return ll::flag_in(pair.first) != flag && ll::is_same_lap(ll::flag_in(pair.first), flag);
    }
    RONDO_HD void keep(const memory::Pair &pair, size_t unit) const {
      ll::set_aligned_word(payload, 4 * unit, ll::data_of(pair.first));
      ll::set_aligned_word(payload, 4 * unit + 4, ll::data_of(pair.second));
    }
  };
  [[nodiscard]] RONDO_HD Slot next_slot(std::byte *payload, uint32_t signature, bool orders) const {
    const uint32_t slot_count = connection_.geometry.slot_count;
    return {connection_.ll_units(consumed_), payload, ll::flag_of(consumed_, slot_count, signature),
            orders || ll::sweeps(consumed_, slot_count)};
  }

  /// Returns what the next slot seems to be, by a relaxed load of unit 0. If unit 0 is full, other units may still be
  /// missing. In a long wait, one thread of a group calls this before the group polls.
  [[nodiscard]] RONDO_HD LlOutcome glance(uint32_t signature) const {
    const uint32_t flag = ll::flag_of(consumed_, connection_.geometry.slot_count, signature);
    const uint32_t seen = ll::flag_in(memory::load_relaxed(connection_.ll_units(consumed_)[0]));
    if (seen == flag) return LlOutcome::full;
    return ll::is_same_lap(seen, flag) ? LlOutcome::foreign : LlOutcome::stale;
  }

  /// Receives two slots of `bytes` each, by all threads of a group. Each thread polls its units of both slots together,
  /// poll_count times at most; no thread sleeps. The caller votes afterwards: a slot that is full for all threads has
  /// been received. A slot of another operation may have fewer units, so a single unit suffices to report it.
  template <Group G>
  RONDO_HD static void look_by_group(G group, const Slot (&slots)[2], size_t bytes, uint32_t poll_count,
                                     LlOutcome (&seen)[2]) {
    const size_t unit_count = ll::unit_count_of(bytes);
    bool stale = false;
    for (size_t unit = 2 * size_t{group.rank()}; unit < unit_count && !stale; unit += 2 * size_t{group.size()}) {
      const bool both = unit + 1 < unit_count;
      memory::Pair pairs[2]{};
      bool late[2] = {};
      stale = true;
      for (uint32_t look = 0; stale && look < poll_count; ++look) {
        RONDO_UNROLL
        for (uint32_t which = 0; which < 2; ++which)  // both loads are in flight together
          if (slots[which].units != nullptr) pairs[which] = slots[which].load(unit);
        RONDO_UNROLL
        for (uint32_t which = 0; which < 2; ++which)
          late[which] = slots[which].units != nullptr && slots[which].is_stale(pairs[which], both);
        stale = late[0] || late[1];
      }
      RONDO_UNROLL
      for (uint32_t which = 0; which < 2; ++which) {
        if (slots[which].units == nullptr) continue;
        if (late[which]) seen[which] = slots[which].is_foreign(pairs[which]) ? LlOutcome::foreign : LlOutcome::stale;
        slots[which].keep(pairs[which], unit);
      }
    }
  }

  void release(bool wake) {
    ++consumed_;
    if (wake) {
      memory::store_sync(connection_.ll_head(), consumed_);  // F4, pairs with F1 in LlSender::can_send
    } else {
      memory::store_release(connection_.ll_head(), consumed_);  // F4, the same
    }
  }
  /// Releases the slot by one thread of a group, after a vote or barrier of all threads. The threads have seen the
  /// values of all units, so their loads cannot return what the sender stores after it has seen the head. This relies
  /// on the rule that values do not come out of thin air, which PTX has, too.
  RONDO_HD void release_by_group() {
    memory::store_relaxed(connection_.ll_head(), ++consumed_);  // F4, pairs by value with F1 in LlSender::can_send
  }

 private:
  static void set_word(std::byte *payload, size_t bytes, size_t offset, uint32_t word) {
    std::memcpy(payload + offset, &word, bytes - offset < 4 ? bytes - offset : 4);
  }

  ConnectionView connection_;
  uint64_t consumed_ = 0;
};

}  // namespace rondo
