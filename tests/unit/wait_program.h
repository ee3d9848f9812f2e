// SPDX-License-Identifier: Apache-2.0
// This file makes random programs of messages and collectives for the model of waiting ranks (wait_model.h).
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <random>
#include <utility>
#include <vector>

namespace rondo::test {

constexpr uint64_t slot_bytes = 64, slot_count = 2, ms = 1'000'000;

using Random = std::mt19937_64;

inline uint32_t between(Random &random, uint32_t least, uint32_t most) {
  return static_cast<uint32_t>(least + random() % (uint64_t{most} - least + 1));
}

/// A message, or a collective of all ranks. Ranks take part in the order of the items.
struct Item {
  bool collective = false;
  uint32_t from = 0, to = 0;
  uint64_t bytes = 0;
};

struct Program {
  uint32_t rank_count = 0;
  bool on_device = false;
  std::vector<uint32_t> host_of;                  ///< by rank
  std::vector<std::vector<std::vector<Item>>> calls;  ///< by rank: groups of messages, or a collective alone
};

/// Makes a program. If the program is not legal, each rank has the items in a different order.
inline Program make_program(Random &random, bool legal) {
  Program program;
  program.rank_count = between(random, 2, 5);
  const uint32_t host_count = between(random, 1, 3);
  for (uint32_t rank = 0; rank < program.rank_count; ++rank)
    program.host_of.push_back(between(random, 0, host_count - 1));
  std::vector<Item> items(between(random, 2, 14));
  for (Item &item : items) {
    item.collective = between(random, 0, 4) == 0;
    item.from = between(random, 0, program.rank_count - 1);
    item.to = (item.from + between(random, 1, program.rank_count - 1)) % program.rank_count;
    item.bytes = uint64_t{between(random, 0, 5)} * slot_bytes / 2;
  }
  for (uint32_t rank = 0; rank < program.rank_count; ++rank) {
    std::vector<Item> own;
    for (const Item &item : items)
      if (item.collective || item.from == rank || item.to == rank) own.push_back(item);
    // Messages of one pair keep their order, so that sizes match. Messages are sorted by their pair's first position.
    if (!legal) {
      std::shuffle(own.begin(), own.end(), random);
      std::map<std::pair<uint32_t, uint32_t>, std::deque<Item>> in_order;
      for (const Item &item : items)
        if (!item.collective) in_order[{item.from, item.to}].push_back(item);
      for (Item &item : own) {
        if (item.collective) continue;
        auto &queue = in_order[{item.from, item.to}];
        item = queue.front();
        queue.pop_front();
      }
    }
    auto &calls = program.calls.emplace_back();
    for (const Item &item : own) {
      const bool joins = !calls.empty() && !item.collective && !calls.back().front().collective;
      if (joins && between(random, 0, 2) == 0) calls.back().push_back(item);
      else calls.push_back({item});
    }
  }
  return program;
}

}  // namespace rondo::test
