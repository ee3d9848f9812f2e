// SPDX-License-Identifier: Apache-2.0
// This file makes random legal programs of messages, groups and collectives. All ranks get the same program from one
// seed. The items have one order. Each rank runs its own items in that order, and divides them into groups as it likes.
// So ranks cannot wait in a circle: both ends of the first incomplete item have completed all items before it, so this
// item can go on.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "rondo/rondo.h"

namespace rondo_test {

/// The collectives that exchange blocks.
enum class Exchange : uint8_t {
  none, all_to_all, all_to_all_in_place, gather, scatter, all_to_all_v, gather_v, scatter_v
};

struct Item {
  bool collective = false;  ///< all ranks take part in the item: an all_reduce, or `exchange`
  Exchange exchange = Exchange::none;
  uint32_t comm = 0;        ///< which communicator
  uint32_t from = 0, to = 0;
  size_t bytes = 0;
  uint64_t seed = 0;  ///< seed of the contents

  [[nodiscard]] bool concerns(uint32_t rank) const { return collective || from == rank || to == rank; }
};

struct MessageProgram {
  uint32_t rank_count = 2;
  uint32_t comm_count = 1;
  std::vector<Item> items;
  /// The first item of each group or single call, by rank. A group may also have only one call.
  std::vector<std::vector<size_t>> cuts;
};

/// Returns the contents of a message.
inline std::vector<std::byte> contents_of(const Item &item) {
  std::vector<std::byte> bytes(item.bytes);
  uint64_t state = item.seed * 0x9E3779B97F4A7C15u + 1;
  for (size_t at = 0; at < bytes.size(); at += sizeof state) {  // 8 bytes at a time: a sanitizer makes each step slow
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t word = state ^ state >> 32;
    std::memcpy(bytes.data() + at, &word, std::min(sizeof word, bytes.size() - at));
  }
  return bytes;
}

/// Compares contents at once. The operator of vectors compares byte by byte, which takes long under a sanitizer.
inline bool same_bytes(const std::vector<std::byte> &one, const std::vector<std::byte> &other) {
  return one.size() == other.size() && (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

/// Returns the contribution of rank `rank` to an all_reduce.
inline int32_t contribution(const Item &item, uint32_t rank, size_t element) {
  return static_cast<int32_t>((item.seed >> 40) + rank * 1000 + element % 100);
}

/// Says whether `bytes` are the sums of all contributions to an all_reduce.
inline bool are_sums(const std::vector<std::byte> &bytes, const Item &item, uint32_t rank_count) {
  int32_t sum = 0, value = 0;  // of the first element of all ranks; the next ones differ as contribution() says
  for (uint32_t rank = 0; rank < rank_count; ++rank) sum += contribution(item, rank, 0);
  for (size_t i = 0; i < item.bytes / 4; ++i) {
    std::memcpy(&value, &bytes[4 * i], 4);
    if (value != sum + static_cast<int32_t>(rank_count * (i % 100))) return false;
  }
  return true;
}

class ProgramMaker {
 public:
  struct Limits {
    uint32_t ranks_min = 2, ranks_max = 8, comms_max = 2, items_max = 40;
    size_t bytes_max = 400'000;
    bool collectives = true, self_messages = true;
  };
  ProgramMaker(uint64_t seed, const Limits &limits) : random_(seed), limits_(limits) {}

  MessageProgram make() {
    MessageProgram program;
    program.rank_count = limits_.ranks_min + below(limits_.ranks_max - limits_.ranks_min + 1);
    program.comm_count = 1 + below(limits_.comms_max);
    const uint32_t item_count = 1 + below(limits_.items_max);
    while (program.items.size() < item_count) add_items(program);
    for (uint32_t rank = 0; rank < program.rank_count; ++rank) program.cuts.push_back(cut(program, rank));
    return program;
  }

 private:
  uint32_t below(uint32_t end) { return static_cast<uint32_t>(random_() % end); }

  size_t size() {
    switch (below(4)) {
      case 0:
        return below(40);  // may be zero
      case 1:
        return below(5'000);
      case 2:
        return below(2) * 8 + 64 * below(8);
      default:
        return below(static_cast<uint32_t>(limits_.bytes_max));
    }
  }

  void add_items(MessageProgram &program) {
    Item item;
    item.comm = below(program.comm_count);
    item.seed = random_();
    item.collective = limits_.collectives && below(6) == 0;
    if (item.collective) {
      item.bytes = 4 * (size_t{1} + below(below(3) == 0 ? 20'000 : 100));
      if (below(2) == 0) item.exchange = static_cast<Exchange>(1 + below(7));
      return program.items.push_back(item);
    }
    // Pattern 0 is a single message. Patterns 1 and 2 are messages of all ranks, many of which cross.
    const uint32_t count = program.rank_count, pattern = below(3), shift = 1 + below(count - 1);
    const size_t bytes = size();
    for (uint32_t rank = 0; rank < (pattern == 0 ? 1 : count); ++rank) {
      item.from = pattern == 0 ? below(count) : rank;
      item.to = pattern == 2 ? below(count) : (item.from + shift) % count;
      if (item.from == item.to && !limits_.self_messages) continue;
      item.bytes = pattern == 2 ? size() : bytes;
      item.seed = random_();
      program.items.push_back(item);
    }
  }

  std::vector<size_t> cut(const MessageProgram &program, uint32_t rank) {
    std::vector<size_t> cuts;
    bool has_messages = false;
    const uint32_t habit = 1 + below(8);
    for (size_t index = 0; index < program.items.size(); ++index) {
      const Item &item = program.items[index];
      if (!item.concerns(rank)) continue;
      // Within a group, collectives run before messages. So a collective after a message begins another group.
      if (cuts.empty() || below(habit) == 0 || (item.collective && has_messages)) {
        cuts.push_back(index);
        has_messages = false;
      }
      has_messages |= !item.collective;
    }
    return cuts;
  }

  std::mt19937_64 random_;
  const Limits limits_;
};

/// Makes the rank's calls in its groups. call(index) makes the calls for an item that concerns the rank. Returns the
/// first status other than RONDO_OK.
template <class Call>
rondo_status_t run_calls(const MessageProgram &program, uint32_t rank, const Call &call) {
  const auto &cuts = program.cuts[rank];
  for (size_t each = 0; each < cuts.size(); ++each) {
    const size_t end = each + 1 < cuts.size() ? cuts[each + 1] : program.items.size();
    size_t call_count = 0;
    bool to_itself = false;
    for (size_t index = cuts[each]; index < end; ++index) {
      const Item &item = program.items[index];
      call_count += item.concerns(rank) ? 1 : 0;
      to_itself |= !item.collective && item.from == rank && item.to == rank;
    }
    const bool group = call_count > 1 || to_itself;
    if (group) static_cast<void>(rondo_group_begin());
    rondo_status_t first = RONDO_OK;
    for (size_t index = cuts[each]; index < end; ++index) {
      const rondo_status_t status = program.items[index].concerns(rank) ? call(index) : RONDO_OK;
      if (first == RONDO_OK) first = status;
    }
    const rondo_status_t ended = group ? rondo_group_end() : RONDO_OK;
    if (first != RONDO_OK || ended != RONDO_OK) return first != RONDO_OK ? first : ended;
  }
  return RONDO_OK;
}

}  // namespace rondo_test
