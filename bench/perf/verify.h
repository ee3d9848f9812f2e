// SPDX-License-Identifier: Apache-2.0
// This file prepares a rank's buffers for a run, and counts wrong contents afterwards.
//
// The buffers of a run are a list of regions. Each region has its contents before and after the run.
// - Out of place: send keeps the input. recv is poisoned with the inverse of every result. Afterwards it holds the
//   results, or still the poison if the rank receives nothing.
// - In place: in one buffer, the rank's own part changes from input to result. The other blocks are poisoned before an
//   all-gather, and must stay unchanged in a reduce-scatter. After an all-to-all, the block with number r must have
//   come from rank r.
//
// There are guard bytes on both sides. Every element of every region is compared, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/perf/buffers.h"
#include "bench/perf/cases.h"
#include "bench/perf/data.h"

namespace rondo::perf {

/// The memory of a rank, for all cases and sizes.
struct Arenas {
  Arena send, recv;

  /// Allocates enough memory for the largest size of the options.
  /// @param device  null for host memory
  [[nodiscard]] Outcome allocate(const Options &options, int ranks, rondo_comm_t comm, Device *device = nullptr);
};

class Workspace {
 public:
  /// `arenas` must outlive it.
  Workspace(const Case &what, int rank, uint64_t seed, Arenas &arenas);

  /// Chooses the call to which later calls of prepare(), rewrite() and count_wrong() apply.
  void select(const Shape &shape, Placement placement);
  /// Returns the pointers for the calls. They are device addresses if there is a device.
  [[nodiscard]] Pointers pointers() const { return pointers_; }

  /// Prepares inputs, poison and guards for a run of this seed.
  [[nodiscard]] Outcome prepare(uint64_t run_seed);
  /// Rewrites the inputs only.
  [[nodiscard]] Outcome rewrite(uint64_t run_seed);
  /// Adds up what is wrong after a run with the prepared seed: wrong elements, elements that changed but had to stay,
  /// and changed guard bytes.
  [[nodiscard]] Outcome count_wrong(uint64_t &wrong) const;

 private:
  enum class Contents { input, output, poison };
  struct Region {
    Arena *arena;
    std::byte *at;
    Part part;
    Contents before, after;
    uint64_t first_after = part.first;  ///< afterwards the part may be another one with as many elements
  };

  void add_out_of_place(const Shape &shape);
  void add_in_place(const Shape &shape);
  void add_blocks_in_place(Arena &arena, const Shape &shape, Contents others_before, Contents others_after,
                           Contents own_before);
  void add_all_to_all(const Shape &shape, Placement placement);
  [[nodiscard]] Sequence contents(Contents which) const;
  [[nodiscard]] Outcome write(const Region &region) const;

  Case case_;
  int rank_;
  Data data_;
  Arena &send_, &recv_;
  size_t send_bytes_ = 0, recv_bytes_ = 0;  ///< used by the selected call; guards are around them
  bool send_used_ = false, recv_used_ = false;
  Pointers pointers_;
  std::vector<Region> regions_;
  uint64_t run_seed_ = 0;
};

}  // namespace rondo::perf
