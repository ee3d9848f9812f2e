// SPDX-License-Identifier: Apache-2.0
// Prepares a rank's buffers for a run and counts afterwards what is not as it must be.
//
// A run's buffers are a list of regions, each with its contents before and after.
// - Out of place: send keeps the input. recv is poisoned with the inverse of every result. Afterwards it holds the
//   results, or still the poison if the rank is to receive nothing.
// - In place: in one buffer the rank's own part goes from input to result. Blocks that only export their place are
//   poisoned or unchanged. These are the other blocks, in all-gather before and in reduce-scatter after. In all-to-all
//   each block has another rank's block afterwards.
//
// Guard bytes lie on both sides. Every element of every region is compared, bit for bit.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/perf/buffers.h"
#include "bench/perf/cases.h"
#include "bench/perf/data.h"

namespace rondo::perf {

/// A rank's memory; it lasts for all cases and sizes.
struct Arenas {
  Arena send, recv;

  /// Allocates enough for every size up to the options' largest.
  /// @param device  null for host memory
  [[nodiscard]] Outcome allocate(const Options &options, int ranks, rondo_comm_t comm, Device *device = nullptr);
};

class Workspace {
 public:
  /// `arenas` must outlive it.
  Workspace(const Case &what, int rank, uint64_t seed, Arenas &arenas);

  /// Chooses what the next calls of prepare, rewrite and count_wrong are about.
  void select(const Shape &shape, Placement placement);
  /// Returns the pointers as the calls get them, on the device if there is one.
  [[nodiscard]] Pointers pointers() const { return pointers_; }

  /// Prepares inputs, poison and guards for a run of this seed.
  [[nodiscard]] Outcome prepare(uint64_t run_seed);
  /// Rewrites the inputs only.
  [[nodiscard]] Outcome rewrite(uint64_t run_seed);
  /// Adds up wrong elements, changed elements that were to stay, and changed guard bytes, after a run of the prepared
  /// seed.
  [[nodiscard]] Outcome count_wrong(uint64_t &wrong) const;

 private:
  enum class Contents { input, output, poison };
  struct Region {
    Arena *arena;
    std::byte *at;
    Part part;
    Contents before, after;
    uint64_t first_after = part.first;  ///< the part may be another one afterwards, of as many elements
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
  size_t send_bytes_ = 0, recv_bytes_ = 0;  ///< in use in each arena by the selected call; guards lie around them
  bool send_used_ = false, recv_used_ = false;
  Pointers pointers_;
  std::vector<Region> regions_;
  uint64_t run_seed_ = 0;
};

}  // namespace rondo::perf
