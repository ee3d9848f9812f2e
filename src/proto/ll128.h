// SPDX-License-Identifier: Apache-2.0
// ll128 has a flag beside every 120 bytes, so that data announces itself; 15 words of 16 are payload. It is for kernels
// alone, on devices and links that move a line as one piece (docs/protocols.md).
//
// Layout    line = 15 words of payload, then its mark: the operation's signature in the low 32 bits, the flag in the
//           high 32 bits. 128 bytes at a multiple of 128, stored and loaded as one piece (memory.h says by whom, and
//           what makes it one).
//           slot = as many lines as the payload takes, at least one; the rest of the last one is zeros. slot = counter
//           & mask; ll128_stride bytes apart.
// Flag      as ll: flag_of(c), of counters of its own, never 0. Once in 2^30 counters the writer clears the marks of
//           the lines that a slot does not need. So no mark left over from a longer message is the expected one.
// Ordering  W1 load head, acquire         pairs with R2: the slot's last reader has finished
//           W2 store line, relaxed        pairs with R1 by value: payload and mark are one piece
//           R1 load line, relaxed, until its flag is flag_of(c)
//           R2 store head, release        pairs with W1
//           W2 of line 0 is a release, R1 of line 0 an acquire: the marks alone order the payload, but a collective
//           also orders what the callers did before and after it. Among the lines of a slot there is no order.
// Group     line_threads() threads have a line, and warp_lines() lines go together; the lines of a slot are shared out
//           among the group. A barrier of the caller's stands before W2, so that what all threads did is before W2 of
//           line 0; a vote stands behind R1.
//           Nobody sleeps: there is no ll128 on hosts.
// State     A slot is stale (reader blocked) --W2--> full --R2, for the whole slot--> stale for the next lap.
// Abort     A lane that gave up does neither W2 nor R2 again: its peers stay blocked and meet their own deadline.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "src/base/host_device.h"
#include "src/proto/connection.h"
#include "src/proto/group.h"
#include "src/proto/ll.h"
#include "src/proto/memory_line.h"

namespace rondo {

namespace ll128 {

static_assert(memory::line_words * sizeof(uint64_t) == ll128_line_bytes);
static_assert((memory::line_words - 1) * sizeof(uint64_t) == ll128_line_payload_bytes);

[[nodiscard]] RONDO_HD constexpr uint64_t mark_of(uint64_t counter, uint32_t signature) {
  return uint64_t{ll::flag_of(counter)} << 32 | signature;
}
[[nodiscard]] RONDO_HD constexpr uint32_t flag_in(uint64_t mark) { return static_cast<uint32_t>(mark >> 32); }

/// Returns the number of lines that `bytes` of payload take in a slot.
[[nodiscard]] RONDO_HD constexpr uint32_t line_count_of(size_t bytes) {
  const uint32_t lines = (static_cast<uint32_t>(bytes) + ll128_line_payload_bytes - 1) / ll128_line_payload_bytes;
  return lines == 0 ? 1 : lines;
}

/// Returns the 8 payload bytes that begin at `offset`, zero-padded past `bytes`. The payload is 8-byte aligned and can
/// be read in whole words.
[[nodiscard]] RONDO_HD inline uint64_t word_at(const std::byte *payload, size_t bytes, size_t offset) {
  if (offset >= bytes) return 0;
  uint64_t word = 0;
  std::memcpy(&word, __builtin_assume_aligned(payload + offset, 8), 8);
  return bytes - offset < 8 ? word & ((uint64_t{1} << (8 * (bytes - offset))) - 1) : word;
}

/// A thread's share of a slot in a group: every stride-th line from `first` on, and of each the same part.
struct Share {
  uint32_t first;
  uint32_t stride;  ///< a multiple of warp_lines()
  uint32_t part;

  template <Group G>
  [[nodiscard]] RONDO_HD static Share of(G group) {
    constexpr uint32_t threads = memory::line_threads();
    return {group.rank() / threads, group.size() / threads, group.rank() % threads};
  }
};

/// Returns the first of the lines that are stored or loaded at once with this one. A condition on it alone is the same
/// for all lanes of a warp, so the lanes stay together.
[[nodiscard]] RONDO_HD constexpr uint32_t first_at_once(uint32_t line) {
  return line / memory::warp_lines() * memory::warp_lines();
}

}  // namespace ll128

class Ll128Sender {
 public:
  Ll128Sender() = default;
  RONDO_HD explicit Ll128Sender(ConnectionView connection, uint64_t first_counter = 0)
      : connection_(connection), posted_(first_counter), consumed_(first_counter) {}

  [[nodiscard]] RONDO_HD bool can_send() {
    if (posted_ - consumed_ < connection_.geometry.slot_count) return true;
    consumed_ = memory::load_acquire(connection_.ll128_head());  // W1, pairs with R2 in Ll128Receiver::release
    return posted_ - consumed_ < connection_.geometry.slot_count;
  }

  /// Returns the counter of the next slot.
  [[nodiscard]] RONDO_HD uint64_t counter() const { return posted_; }

  /// Writes and so publishes a slot, by all threads of a group, right after a barrier before which each has taken
  /// counter(). bytes <= ll128_slot_bytes. `payload` is 8-byte aligned and readable in whole words. The caller's next
  /// barrier comes before counter() is taken again.
  template <Group G>
  RONDO_HD void post_by_group(G group, uint64_t counter, const std::byte *payload, size_t bytes, uint32_t signature) {
    const uint64_t mark = ll128::mark_of(counter, signature);
    uint64_t *const words = connection_.ll128_words(counter);
    const uint32_t line_count = ll128::line_count_of(bytes);
    const ll128::Share share = ll128::Share::of(group);
    uint32_t line = share.first;
    if (ll128::first_at_once(line) == 0) {
      store<memory::release>(words, line, line_count, share.part, payload, bytes, mark);  // W2, pairs with R1
      line += share.stride;
    }
    for (; ll128::first_at_once(line) < line_count; line += share.stride)
      store<memory::relaxed>(words, line, line_count, share.part, payload, bytes, mark);  // W2, pairs with R1
    if (counter % ll::sweep_period < connection_.geometry.slot_count)
      for (uint32_t unused = line_count + group.rank(); unused < connection_.geometry.ll128_lines();
           unused += group.size())
        memory::store_relaxed(mark_at(words, unused), 0);
    if (group.rank() == 0) ++posted_;  // the others have taken the counter
  }

 private:
  [[nodiscard]] RONDO_HD static uint64_t &mark_at(uint64_t *words, uint32_t line) {
    return words[(line + 1) * memory::line_words - 1];
  }

  template <memory::Order order>
  RONDO_HD static void store(uint64_t *words, uint32_t line, uint32_t line_count, uint32_t part,
                             const std::byte *payload, size_t bytes, uint64_t mark) {
    const size_t begin = size_t{line} * ll128_line_payload_bytes;
    memory::store_line<order, memory::Site::ll128_post>(
        words + size_t{line} * memory::line_words, part,
        [&](uint32_t word) { return ll128::word_at(payload, bytes, begin + word * sizeof(uint64_t)); }, mark,
        line < line_count);
  }

  ConnectionView connection_;
  uint64_t posted_ = 0;
  uint64_t consumed_ = 0;
};

class Ll128Receiver {
 public:
  Ll128Receiver() = default;
  RONDO_HD explicit Ll128Receiver(ConnectionView connection, uint64_t first_counter = 0)
      : connection_(connection), consumed_(first_counter) {}

  /// Polls the next slot by all threads of a group; each polls its lines up to poll_count times. The caller votes
  /// afterwards. If all is full for all threads, `bytes` of payload were written to `payload`, which is 8-byte aligned
  /// and writable in whole lines. A slot of another operation may have fewer lines, so one line of another operation
  /// decides.
  template <Group G>
  [[nodiscard]] RONDO_HD LlOutcome look_by_group(G group, std::byte *payload, size_t bytes, uint32_t signature,
                                                 uint32_t poll_count) const {
    const uint64_t wanted = ll128::mark_of(consumed_, signature);
    const uint64_t *const words = connection_.ll128_words(consumed_);
    const uint32_t line_count = ll128::line_count_of(bytes);
    const ll128::Share share = ll128::Share::of(group);
    LlOutcome seen = LlOutcome::full;
    // A warp's lanes go on together, until all lines of all lanes have arrived, or a line is late.
    for (uint32_t line = share.first; ll128::first_at_once(line) < line_count; line += share.stride) {
      const auto look = [&] { return load(words, line, share.part, wanted, line < line_count, payload); };
      uint64_t mark = look();  // R1, pairs with W2 in post_by_group
      for (uint32_t looks = 1; !memory::all_lines(ll128::flag_in(mark) == ll128::flag_in(wanted)) && looks < poll_count;
           ++looks)
        mark = look();
      if (mark != wanted)
        seen = ll128::flag_in(mark) == ll128::flag_in(wanted) ? LlOutcome::foreign : LlOutcome::stale;
      if (!memory::all_lines(seen == LlOutcome::full)) break;
    }
    return seen;
  }

  RONDO_HD void release() {
    ++consumed_;
    // R2, pairs with W1 in Ll128Sender::can_send
    memory::store_release<memory::Site::ll128_release>(connection_.ll128_head(), consumed_);
  }

 private:
  [[nodiscard]] RONDO_HD static uint64_t load(const uint64_t *words, uint32_t line, uint32_t part, uint64_t wanted,
                                              bool here, std::byte *payload) {
    std::byte *const at = payload + size_t{line} * ll128_line_payload_bytes;
    const auto take = [&](uint32_t index, uint64_t word) {
      std::memcpy(__builtin_assume_aligned(at + index * sizeof word, 8), &word, sizeof word);
    };
    const uint64_t *const from = words + size_t{line} * memory::line_words;
    return ll128::first_at_once(line) == 0
               ? memory::load_line<memory::acquire>(from, part, wanted, here, take)
               : memory::load_line<memory::relaxed>(from, part, wanted, here, take);
  }

  ConnectionView connection_;
  uint64_t consumed_ = 0;
};

}  // namespace rondo
