// SPDX-License-Identifier: Apache-2.0
// The blocks of a _v collective that exchanges blocks, as one rank has called it.
#pragma once

#include <cstdint>
#include <vector>

namespace rondo {

/// A part of a buffer.
struct Block {
  uint64_t begin_bytes = 0;
  uint64_t bytes = 0;
};

struct BlockLists {
  std::vector<Block> sends;     ///< by the rank that receives; some may be unused
  std::vector<Block> receives;  ///< by the rank that sends; some may be unused
  uint64_t total_bytes = 0;     ///< for the statistics
};

}  // namespace rondo
