// SPDX-License-Identifier: Apache-2.0
// A program describes one rank's work in an all-reduce by load_store, as data. It lists in order what the rank waits
// for, reads, reduces, writes and publishes. The kernel itself is code and reads no program, because it must be fast at
// 8 bytes. One test compares the kernel with the program (tests/unit/load_store_trace_test.cpp), and another runs all
// interleavings of programs (tests/unit/load_store_model_test.cpp). The simulator adds times to a program.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/result.h"
#include "src/proto/exchange.h"
#include "src/proto/partition.h"

namespace rondo::load_store {

enum class Memory : uint8_t { send, recv, announcement, post, contribution, result };

/// A range of bytes in a rank's buffer, or in an area of its place. Accumulators lie in the areas of contributions.
struct Bytes {
  Memory memory = Memory::send;
  uint32_t rank = 0;
  uint32_t area = 0;  ///< 0 for buffers
  uint64_t first = 0, count = 0;

  bool operator==(const Bytes &) const = default;
};

/// A copy or a reduction. One operand is copied to each output. Several operands are reduced from the left, and the
/// result goes to each output. Writing an announcement has no operand, and reading one has no output.
struct Work {
  std::vector<Bytes> operands;
  std::vector<Bytes> outputs;

  bool operator==(const Work &) const = default;
};

enum class Counter : uint8_t { post, contributed, reduced, gathered, hops_done };

/// A counter of a rank, and a value. A wait for it ends at this value or a higher one; for a post, only at this value.
struct Mark {
  Counter counter = Counter::post;
  uint32_t rank = 0;
  uint64_t value = 0;

  bool operator==(const Mark &) const = default;
};

/// One step: first the waits, then the work, then the publication of a counter.
struct ProgramStep {
  std::vector<Mark> waits;
  std::vector<Work> works;
  std::optional<Mark> publish;
};

/// The lanes of a rank. They run concurrently: each lane that can advance advances. A ring of accumulators has two
/// lanes, for the hops and for copying tiles out. Every other program has one lane.
struct Program {
  std::vector<std::vector<ProgramStep>> lanes;
};

/// The state of a communicator before the operation; equal on all ranks.
struct Position {
  uint64_t posts = 0, chunks = 0;
  bool ring_unsettled = false;  ///< true while peers may still read the last ring's accumulators
};

/// An all-reduce, from the view of one rank.
struct Operation {
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_ONE_SHOT;  ///< one_shot, two_shot or ring
  uint32_t rank = 0;
  ExchangeGeometry geometry;
  Partition tiles;  ///< tiles of the plan
  uint64_t count = 0;
  uint32_t element_bytes = 1;
  bool cheap = true;  ///< true if memory takes longer than arithmetic
  bool wake = false;  ///< true if ranks share cores
  uint64_t cache_bytes = UINT64_MAX;  ///< larger results bypass the caches
  // These vectors have an entry for each rank: whether it exports the buffer, and whether it works in place. The kernel
  // decides by the size and kind of a buffer whether the rank exports it.
  std::vector<bool> exports_send, exports_recv, in_place;
};

/// Builds the program of the operation, and advances the position past the operation.
[[nodiscard]] Program make_program(const Operation &operation, Position &position);

}  // namespace rondo::load_store
