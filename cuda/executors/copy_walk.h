// SPDX-License-Identifier: Apache-2.0
// This file walks a plan on one stream. The stream does all lanes in this order: by tile, channel, lane, step, slice.
// Every rank uses this order. A lane never waits for a later lane of its tile: in a tree, the lane up to the root comes
// first. So no rank waits for ever, if a chunk always leaves one slot of its link free (src/plan/build.h).
// tests/gpu/copy_walk_test.cpp checks every algorithm.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/driver/driver_api.h"
#include "cuda/kernels/reduce.h"
#include "src/plan/plan.h"

namespace rondo::cuda {

/// One slice of one step: what moves through one slot of each link of the step.
struct CopySlice {
  uint32_t channel = 0;
  const Schedule *schedule = nullptr;
  const LaneProgram *program = nullptr;
  const Step *step = nullptr;
  Range range;  ///< elements of the logical vector, at least one
};

/// The peers of a step's links in their order, at most two.
struct SlicePeers {
  uint32_t ranks[2] = {};
  uint32_t count = 0;

  [[nodiscard]] const uint32_t *begin() const { return ranks; }
  [[nodiscard]] const uint32_t *end() const { return ranks + count; }
};

[[nodiscard]] inline SlicePeers peers_of(const CopySlice &slice, StepFlag flag, const LinkIndex (&links)[2]) {
  SlicePeers peers;
  for (const LinkIndex link : links)
    if ((slice.step->flags & flag) != 0 && link != no_link) peers.ranks[peers.count++] = slice.schedule->peers[link];
  return peers;
}
/// Returns the peers whose slots the slice reads. targets_of() returns the peers into whose slots it writes.
[[nodiscard]] inline SlicePeers sources_of(const CopySlice &slice) {
  return peers_of(slice, step_recv, slice.step->recv_link);
}
[[nodiscard]] inline SlicePeers targets_of(const CopySlice &slice) {
  return peers_of(slice, step_send, slice.step->send_link);
}

/// This rank's ends of the two connections with one peer on one channel, after all work that was enqueued.
struct CopyEnds {
  uint64_t posted = 0, received = 0;                ///< slots; a captured call counts its own
  uint64_t posted_number = 0, received_number = 0;  ///< of the latest operation that used the connection
  bool sends = false, receives = false;             ///< what a captured call will do
};

/// Addresses that a slice reads and writes.
struct CopyOperands {
  DevicePointer inputs[device::inputs_max] = {};
  DevicePointer outputs[device::outputs_max] = {};
  uint32_t input_count = 0, output_count = 0;

  void add_input(DevicePointer address) { inputs[input_count++] = address; }
  void add_output(DevicePointer address) { outputs[output_count++] = address; }
};

/// Calls visit(slice), which returns a Result<void>, for each slice. Ends at the first failure and returns it.
template <class Visit>
[[nodiscard]] Result<void> walk_plan(const Plan &plan, const Visit &visit) {
  uint64_t tile_count = 0;
  for (const PlannedLane &lane : plan.lanes) tile_count = std::max(tile_count, lane.program.partition.tile_count);
  for (uint64_t tile = 0; tile < tile_count; ++tile)
    for (const PlannedLane &lane : plan.lanes) {
      const LaneProgram &program = lane.program;
      for (uint32_t index = 0; tile < program.partition.tile_count && index < program.step_count; ++index) {
        const Step &step = program.steps[index];
        Range rest = program.partition.range(tile, step.chunk);
        while (rest.count != 0) {
          const uint64_t count = std::min(rest.count, program.slot_elements);
          RONDO_TRY(
              visit(CopySlice{lane.channel, &plan.schedules[lane.channel], &program, &step, {rest.begin, count}}));
          rest = {rest.begin + count, rest.count - count};
        }
      }
    }
  return {};
}

}  // namespace rondo::cuda
