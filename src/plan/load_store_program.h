// SPDX-License-Identifier: Apache-2.0
// A program is one rank's part in an all-reduce by load_store, as data: what it waits for, reads, reduces, writes and
// publishes, in order. The kernel is code, not data, so that a call of 8 bytes costs no more than it must. A test
// compares the kernel with the program (tests/unit/load_store_trace_test.cpp). Otherwise a program is used as a
// schedule is for the interpreter: a test runs all its interleavings (tests/unit/load_store_model_test.cpp), and the
// simulator gives it times.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/result.h"
#include "src/proto/exchange.h"
#include "src/proto/partition.h"

namespace rondo::load_store {

enum class Memory : uint8_t { send, recv, announcement, post, contribution, result };

/// A range of bytes of a rank's buffer, or of one of its areas of the exchange. Accumulators lie in contributions.
struct Bytes {
  Memory memory = Memory::send;
  uint32_t rank = 0;
  uint32_t area = 0;  ///< 0 for buffers
  uint64_t first = 0, count = 0;

  bool operator==(const Bytes &) const = default;
};

/// One operand: a copy to each output. More: they are reduced from the left, and the result goes to each output. An
/// announcement has no operand when it is written, and no output when it is read.
struct Work {
  std::vector<Bytes> operands;
  std::vector<Bytes> outputs;

  bool operator==(const Work &) const = default;
};

enum class Counter : uint8_t { post, contributed, reduced, gathered, hops_done };

/// A counter of a rank, and a value. A wait ends when the counter is at least the value; a post's number has to be
/// equal.
struct Mark {
  Counter counter = Counter::post;
  uint32_t rank = 0;
  uint64_t value = 0;

  bool operator==(const Mark &) const = default;
};

/// First the waits, then the works, then the counter is published.
struct ProgramStep {
  std::vector<Mark> waits;
  std::vector<Work> works;
  std::optional<Mark> publish;
};

/// The lanes of a rank, which run concurrently: any lane that can advance does. A ring of accumulators has two, hops
/// and tiles that are copied out. Everything else has one.
struct Program {
  std::vector<std::vector<ProgramStep>> lanes;
};

/// The state of a communicator before the operation; equal on all ranks.
struct Position {
  uint64_t posts = 0, chunks = 0;
  bool ring_unsettled = false;  ///< the last ring's accumulators may still be read
};

/// An all-reduce as one rank sees it.
struct Operation {
  rondo_algorithm_t algorithm = RONDO_ALGORITHM_ONE_SHOT;  ///< one_shot, two_shot or ring
  uint32_t rank = 0;
  ExchangeGeometry geometry;
  Partition tiles;  ///< of the plan
  uint64_t count = 0;
  uint32_t element_bytes = 1;
  bool cheap = true;  ///< memory takes longer than arithmetic
  bool wake = false;  ///< ranks share cores
  uint64_t cache_bytes = UINT64_MAX;  ///< results from here on go past the caches
  // Each has an entry for each rank. A buffer is exported if its rank announces it; the kernel decides that by size and
  // kind of the buffer.
  std::vector<bool> exports_send, exports_recv, in_place;
};

/// Moves the position behind the operation.
[[nodiscard]] Program make_program(const Operation &operation, Position &position);

}  // namespace rondo::load_store
