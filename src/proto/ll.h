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
// State     of a slot: stale (reader blocked) --W2--> full --R2, for the whole slot--> stale for the next lap
// Abort     a lane that gave up does neither W2 nor R2 again: its peers stay blocked and meet their own deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/proto/connection.h"
#include "src/proto/memory.h"

namespace rondo {

namespace ll {

inline constexpr uint64_t sweep_period = uint64_t{1} << 31;

[[nodiscard]] constexpr uint32_t flag_of(uint64_t counter) { return 1 + static_cast<uint32_t>(counter % 0xFFFF'FFFFu); }
[[nodiscard]] constexpr uint64_t pack(uint32_t data, uint32_t flag) { return uint64_t{flag} << 32 | data; }
[[nodiscard]] constexpr uint32_t data_of(uint64_t unit) { return static_cast<uint32_t>(unit); }
[[nodiscard]] constexpr uint32_t flag_in(uint64_t unit) { return static_cast<uint32_t>(unit >> 32); }

/// The 4 payload bytes that begin at `offset`, zero-padded past `bytes`.
[[nodiscard]] inline uint32_t word_at(const std::byte *payload, size_t bytes, size_t offset) {
  uint32_t word = 0;
  std::memcpy(&word, payload + offset, bytes - offset < 4 ? bytes - offset : 4);
  return word;
}

}  // namespace ll

class LlSender {
 public:
  LlSender() = default;
  explicit LlSender(ConnectionView connection, uint64_t first_counter = 0)
      : connection_(connection), posted_(first_counter), consumed_(first_counter) {}

  [[nodiscard]] bool can_send() {
    if (posted_ - consumed_ < connection_.geometry.slot_count) return true;
    consumed_ = memory::load_sync(connection_.ll_head());  // W1, pairs with R2 in LlReceiver::release
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
      memory::store_release(units[0], first);  // W2, pairs with R1 in LlReceiver::receive
    }
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
  explicit LlReceiver(ConnectionView connection, uint64_t first_counter = 0)
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

  void release(bool wake) {
    ++consumed_;
    if (wake) {
      memory::store_sync(connection_.ll_head(), consumed_);  // R2, pairs with W1 in LlSender::can_send
    } else {
      memory::store_release(connection_.ll_head(), consumed_);  // R2, pairs with W1 in LlSender::can_send
    }
  }

 private:
  ConnectionView connection_;
  uint64_t consumed_ = 0;
};

}  // namespace rondo
