// SPDX-License-Identifier: Apache-2.0
// This file defines the cells that hosts send each other over a control connection (control_memory.h). A cell is one
// report, question or answer. Numbers are little-endian, and the rest of a cell is zero.
//
// Cell     magic u32 | kind u32 | body
//   status   count u32 | count x: rank u32 | state u32 | entered u64 | completed u64 | puts u32
//            The states of ranks of the sender's host, at every heartbeat and when a state changes. If `puts`
//            is 1, some rank uses windows or signals, so all ranks serve their links of puts.
//   ask      rank u32 | operation u64
//            Asks what `rank` called as `operation`.
//   record   rank u32 | operation u64 | signature | plan choice | history
//            The answer to ask: one cell for the operation, and one for each of the RemoteRank::record_count - 1
//            operations before it, as far as they were entered and are kept.
//   clock    asked u64 | received u64 | answered u64
//            Rank 0's host gets the question at every heartbeat; only `asked` is set then. In the answer, each time is
//            by the clock of the host that took it.
//   failure  status u32 | rank u32 | peer u32 | operation u64 | bytes u32 | text
//   ask_pair rank u32 | message u64 | with u32 | sends u32 | asked u64
//            Asks what `rank` has published about its messages with the rank `with` in one direction, and about one of
//            these messages. `asked` identifies the question: it is the time of asking by the asker's clock.
//   pair     the fields of ask_pair | entered u64 | completed u64 | batches entered u64 | batches completed u64 |
//            message | device kind u32 | device number u64 | captured u32 | message
//            The answer to ask_pair. The first message is the one asked for, the second one is RankDoing::message.
//   message, in other cells: known u32 | peer u32 | sends u32 | type u32 | bytes u64 | number u64
//            If `known` is 0, the other fields have no meaning.
//   ask_notes rank u32 | 0 u64
//            Asks for the notes of `rank` (src/links/ranks.h).
//   note     rank u32 | number u64 | revision u64 | words
//            A note of `rank`. The receiver need not have asked for it.
//   ask_waits rank u32 | 0 u64 | asked u64
//            Asks what `rank` waits for. `asked` is as in ask_pair.
//   waits    the fields of ask_waits | batches entered u64 | batches completed u64 | entered u64 | completed u64 |
//            last u32 | count u32 | count x: with u32 | sends entered u64 | sends completed u64 |
//            receives entered u64 | receives completed u64 | blocked u64 | needed u64
//            The answer to ask_waits, in as many cells as it needs; `last` is 1 in the last cell. It leaves out ranks
//            with which no messages were entered.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>

#include "src/bootstrap/bytes.h"
#include "transports/net/control_memory.h"

namespace rondo::net {

inline constexpr uint32_t cell_magic = 0x6f646e52;  // "Rndo"

enum class CellKind : uint32_t {
  status = 1,
  ask = 2,
  record = 3,
  failure = 4,
  clock = 5,
  ask_pair = 6,
  pair = 7,
  ask_notes = 8,
  note = 9,
  ask_waits = 10,
  waits = 11
};

/// The number of an ended process in place of a rank's state on the wire. Other numbers are values of RankState.
inline constexpr uint32_t ended_state = 6;
inline constexpr size_t status_entry_bytes = 2 * sizeof(uint32_t) + 2 * sizeof(uint64_t);
inline constexpr uint32_t statuses_max = (cell_bytes - 4 * sizeof(uint32_t)) / status_entry_bytes;
inline constexpr size_t failure_text_max = 900;

/// The first fields of a question and of its answer. The question is: what has `rank` called as `operation`?
struct Inquiry {
  uint32_t rank = 0;
  uint64_t operation = 0;
};

/// A message of fixed size that is written from the front, without an allocation.
class Cell {
 public:
  explicit Cell(CellKind kind) {
    put(cell_magic);
    put(static_cast<uint32_t>(kind));
  }
  template <std::unsigned_integral T>
  Cell &put(T value) {
    for (size_t at = 0; at < sizeof(T); ++at)
      bytes_[used_++] = static_cast<std::byte>(static_cast<uint64_t>(value) >> (8 * at) & 0xffu);
    return *this;
  }
  Cell &put(std::string_view text) {
    put(static_cast<uint32_t>(text.size()));
    std::ranges::copy(bytes_of(text), bytes_.begin() + static_cast<std::ptrdiff_t>(used_));
    used_ += text.size();
    return *this;
  }
  Cell &put(const Inquiry &inquiry) { return put(inquiry.rank).put(inquiry.operation); }
  Cell &put(const OperationInfo &what) {
    for (const uint64_t field :
         {uint64_t{what.signature.collective}, uint64_t{what.signature.type}, uint64_t{what.signature.op},
          uint64_t{what.signature.root}, what.signature.count, what.signature.counts_hash,
          static_cast<uint64_t>(what.choice.algorithm), static_cast<uint64_t>(what.choice.protocol),
          uint64_t{what.choice.channels}, what.choice.chunk_bytes, static_cast<uint64_t>(what.choice.kernel),
          uint64_t{what.history}})
      put(field);
    return *this;
  }
  [[nodiscard]] ByteView bytes() const { return bytes_; }

 private:
  std::array<std::byte, cell_bytes> bytes_{};
  size_t used_ = 0;
};

/// The first fields of a question about messages, and of its answer.
struct PairInquiry {
  Inquiry about;  ///< `operation` is the number of a message
  uint32_t with = 0;
  bool sends = false;
  uint64_t asked_ns = 0;
};

[[nodiscard]] inline Inquiry inquiry_of(ByteReader &body) {
  Inquiry inquiry;
  inquiry.rank = body.number<uint32_t>();
  inquiry.operation = body.number<uint64_t>();
  return inquiry;
}

/// Returns the error with this number. Returns RONDO_ERROR_INTERNAL if the number belongs to no error.
[[nodiscard]] constexpr rondo_status_t error_status_of(uint32_t number) {
  const bool is_error = number >= RONDO_ERROR_INVALID_ARGUMENT && number <= RONDO_ERROR_REVOKED;
  return is_error ? static_cast<rondo_status_t>(number) : RONDO_ERROR_INTERNAL;
}

/// Reads a value of an enumeration whose values begin with 0. Returns the value 0 for a number above `last`.
template <class Choice>
[[nodiscard]] Choice choice_of(ByteReader &body, Choice last) {
  const auto number = body.number<uint64_t>();
  return static_cast<Choice>(number <= static_cast<uint64_t>(last) ? number : 0);
}

[[nodiscard]] inline OperationInfo operation_of(ByteReader &body) {
  OperationInfo what;
  what.signature.collective = static_cast<uint32_t>(body.number<uint64_t>());
  what.signature.type = static_cast<uint32_t>(body.number<uint64_t>());
  what.signature.op = static_cast<uint32_t>(body.number<uint64_t>());
  what.signature.root = static_cast<uint32_t>(body.number<uint64_t>());
  what.signature.count = body.number<uint64_t>();
  what.signature.counts_hash = body.number<uint64_t>();
  what.choice.algorithm = choice_of(body, RONDO_ALGORITHM_HIERARCHICAL_TREE);
  what.choice.protocol = choice_of(body, RONDO_PROTOCOL_LL);
  what.choice.channels = static_cast<uint32_t>(body.number<uint64_t>());
  what.choice.chunk_bytes = body.number<uint64_t>();
  what.choice.kernel = choice_of(body, RONDO_KERNEL_LOAD_STORE);
  what.history = static_cast<uint32_t>(body.number<uint64_t>());
  return what;
}

}  // namespace rondo::net
