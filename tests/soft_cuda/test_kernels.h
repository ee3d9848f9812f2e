// SPDX-License-Identifier: Apache-2.0
// This file declares the parameters of the kernels of test_kernels.cpp.
#pragma once

#include <atomic>
#include <cstdint>

namespace soft_cuda {

/// test_fill: to[i] = value + i
struct FillParameters {
  uint64_t *to;
  uint64_t count;
  uint64_t value;
};

/// test_await: ends when *word >= value
struct AwaitParameters {
  uint64_t *word;
  uint64_t value;
};

/// test_barrier: ends when all blocks of the grid, and `more` besides, have arrived. A block that has waited too long
/// gives up and adds barrier_gave_up to `arrived`.
struct BarrierParameters {
  uint64_t *arrived;
  uint64_t more;
};
inline constexpr uint64_t barrier_patience_ns = 20'000'000'000;
inline constexpr uint64_t barrier_gave_up = uint64_t{1} << 32;

/// test_count_threads: counts[block] = threads of the block
struct CountParameters {
  uint64_t *counts;
};

// The parameters of the kernels of tests/gpu/device_costs.cpp. Each kernel repeats a small step whose time is measured.

/// The order of a store with respect to the stores before it.
enum class StoreOrder : uint64_t { relaxed, release_device, release_system };

/// cost_nothing does nothing, so only its launch is measured.
struct NothingParameters {
  uint64_t unused;
};

/// cost_nothing_large does nothing either, but has as many bytes of parameters as a kernel of load_store.
struct LargeParameters {
  uint64_t unused[105];
};

/// cost_nothing_early is like cost_nothing. If its launch permits it (programmatic dependent launch), the stream's
/// next kernel may be launched before this one has ended. The next kernel waits for that end before its work.
/// cost_meet and cost_meet_early are among many kernels of each of `count` streams. Such a kernel posts its number in
/// its stream's word, and ends when all streams' words have reached this number. A kernel that has waited too long
/// sets *gave_up.
struct MeetParameters {
  uint64_t *words;  ///< per stream, meet_stride apart: its post, and meet_ended words later how many ended. 0 before
  uint64_t *gave_up;
  uint64_t stream;
  uint64_t count;
};
inline constexpr uint64_t meet_stride = 64, meet_ended = 32;
inline constexpr uint64_t meet_patience_ns = 20'000'000'000;
inline constexpr uint64_t meet_polls_per_look = 256;  ///< polls until a kernel reads the time and gave_up

/// cost_store: one thread stores `round_count` times, to *pending if it is not null, and then, in `order`, to *word.
struct StoreParameters {
  uint64_t *word;
  uint64_t *pending;
  uint64_t round_count;
  StoreOrder order;
};

/// cost_read: one thread follows a chain of `round_count` loads, in which each word holds the next one's index.
struct ReadParameters {
  uint64_t *words;
  uint64_t round_count;
  uint64_t *last;  ///< receives the index that the chain ended at
};

/// cost_pair: two blocks pass a number to each other and back, `round_count` times. Each polls its own word.
struct PairParameters {
  uint64_t *words;  ///< a word of block 0, and pair_stride words later one of block 1; 0 before the launch
  uint64_t round_count;
  uint64_t ordered;  ///< 0 for relaxed stores and loads, otherwise releases and acquires
};
inline constexpr uint64_t pair_stride = 64;
inline constexpr uint64_t pair_polls_max = uint64_t{1} << 28;  ///< polls for one number, after which a block gives up

/// Sixteen bytes, which a thread loads by one access.
struct alignas(16) Quad {
  float values[4];
};

/// The parameters of cost_copy and cost_reduce. The first stores sources[0][i] into targets[0][i]. The second stores
/// the sum of all sources[s][i], in order, into every targets[t][i].
struct ReductionParameters {
  static constexpr uint32_t ways = 8;
  const Quad *sources[ways];
  Quad *targets[ways];
  uint64_t count;  ///< number of Quads in each operand
};

}  // namespace soft_cuda
