// SPDX-License-Identifier: Apache-2.0
#include "src/engine/block_exchange.h"

#include <cassert>
#include <cstring>

#include "src/engine/host_messages.h"
#include "src/engine/watch.h"
#include "src/plan/collective.h"
#include "src/plan/schedule.h"

namespace rondo {
namespace {

constexpr uint32_t visit_slices_max = 4;

Blocks blocks_of(const WorkItem &work, uint32_t rank) {
  return {work.plan->key.signature, work.lists(), rank};
}

void copy_own(const WorkItem &work, uint32_t rank) {
  const Blocks blocks = blocks_of(work, rank);
  if (!blocks.sends_to(rank) || !blocks.receives_from(rank)) return;
  const Block from = blocks.to(rank), to = blocks.from(rank);
  if (to.bytes == 0) return;  // a buffer of 0 bytes may be null
  const std::byte *const source = work.send + from.begin_bytes;
  std::byte *const target = work.recv + to.begin_bytes;
  if (source != target) std::memcpy(target, source, to.bytes);
}

/// Returns the initial state of a lane whose only chunk has `bytes` bytes.
LaneState whole_block(const LaneProgram &program, uint64_t bytes) {
  LaneState state;
  state.loaded = bytes != 0;
  state.step = state.loaded ? 0 : program.step_count;
  state.rest = {0, bytes};
  return state;
}

}  // namespace

BlockExchange::BlockExchange(const Parts &parts) : parts_(parts) {}

void BlockExchange::add_lane(const WorkItem &work, const BlockLane &what, Block block) {
  Lane &lane = lanes_.emplace_back();
  lane.ends = &parts_.ends[what.peer];
  lane.block = block;
  lane.sends = what.sends;
  const std::span<const Step> steps = steps_of(what);
  lane.program.steps = steps.data();
  lane.program.step_count = static_cast<uint32_t>(steps.size());
  lane.program.reference_safe = true;
  lane.program.slot_elements = work.plan->choice.chunk_bytes;
}

/// Begins an exchange in place: the lane sends one slot's bytes, then overwrites them with received bytes.
void BlockExchange::begin_exchange(Lane &lane) const {
  lane.program.reference_safe = false;
  lane.program.partition.whole = {0, lane.block.bytes};
  lane.program.partition.chunk_elements = lane.program.slot_elements;
  lane.program.partition.tile_count = lane.program.partition.count_tiles();
  lane.state = {};
  lane.buffers.send.data = lane.buffers.recv.data = lane.data;
}

void BlockExchange::begin_data(Lane &lane, const WorkItem &work, Operations &operations) const {
  lane.counting = false;
  lane.state = whole_block(lane.program, lane.block.bytes);
  Window &window = lane.sends ? lane.buffers.send : lane.buffers.recv;
  window.data = lane.data;
  if (!lane.sends || lane.block.bytes < export_bytes_min) return;
  window.handle = operations.registration_cache().find(lane.data, lane.block.bytes);
  if (window.handle.replaced)
    operations.raise(replaced_memory("operation " + std::to_string(work.number), parts_.rank), work.number);
}

/// Makes the lanes of a call. begin() sets the fields that change from call to call.
void BlockExchange::make_lanes(const WorkItem &work) {
  const Shape shape{work.plan->key.signature, work.plan->key.in_place, work.plan->choice.chunk_bytes};
  if (work.lists() == nullptr && shape == shape_) return;
  shape_ = work.lists() == nullptr ? shape : Shape{};
  const Blocks blocks = blocks_of(work, parts_.rank);
  const bool counts = work.lists() != nullptr;
  const auto rank_count = static_cast<uint32_t>(parts_.ends.size());
  lanes_.clear();
  lanes_.reserve(2 * size_t{rank_count});  // lanes hold pointers into themselves, so they must not move
  const Signature &call = work.plan->key.signature;
  const Collective &traits = traits_of(static_cast<rondo_collective_t>(call.collective));
  const bool trades = work.plan->key.in_place && blocks.exchanges_in_place();
  each_block_lane(traits, parts_.rank, rank_count, call.root, trades, [&](const BlockLane &lane) {
    const Block block = lane.sends ? blocks.to(lane.peer) : blocks.from(lane.peer);
    if (counts || block.bytes != 0) add_lane(work, lane, block);
  });
}

/// Checks the size that the peer announced for its block. If it is wrong, raises a failure and returns false.
bool BlockExchange::check_size(const Lane &lane, const WorkItem &work, Operations &operations) const {
  if (lane.sends || lane.size == lane.block.bytes) return true;
  operations.ranks().raise(differing_block(work.plan->key.signature, work.number, parts_.rank, lane.ends->peer,
                                           lane.size, lane.block.bytes));
  return false;
}

template <class Protocol>
Progress BlockExchange::visit(Lane &lane, const WorkItem &work, Operations &operations) const {
  HostLinks links{std::span(&lane.ends, 1), parts_.peers, parts_.scratch, parts_.wake};
  bool moved = false;
  for (uint32_t slice = 0; slice < visit_slices_max; ++slice) {
    const bool sends = lane.sends && lane.state.step != 1;  // in a call in place, step 1 receives
    const HostCopier copier{sends ? &lane.ends->slot_writer : nullptr};
    const Progress progress = advance<SingleThread, Protocol>(SingleThread{}, lane.state, lane.program, lane.buffers,
                                                              copier, links);
    if (progress == Progress::blocked) return moved ? Progress::moved : Progress::blocked;
    if (progress != Progress::moved) return progress;
    moved = true;
    // The data follows a posted size at once, even if the peer still has to read the size by reference. If the lanes
    // of two ranks waited for such reads first, the two ranks would wait for each other.
    if (!lane.counting || lane.state.loaded) continue;
    if (!check_size(lane, work, operations)) return Progress::failed;
    begin_data(lane, work, operations);
  }
  return Progress::moved;
}

/// Visits every lane once. If the result is `failed`, faulty_ is the lane that failed.
template <class Protocol>
Progress BlockExchange::round(const WorkItem &work, Operations &operations) {
  bool moved = false, all_done = true;
  for (Lane &lane : lanes_) {
    if (lane.done) continue;
    const Progress progress = visit<Protocol>(lane, work, operations);
    if (progress == Progress::failed) {
      faulty_ = &lane;
      return progress;
    }
    lane.done = progress == Progress::done;
    all_done = all_done && lane.done;
    moved = moved || progress != Progress::blocked;
  }
  if (all_done) return Progress::done;
  return moved ? Progress::moved : Progress::blocked;
}

/// Prepares the lanes, and starts the first transfer of each lane.
void BlockExchange::begin(const WorkItem &work, Operations &operations) {
  make_lanes(work);
  const bool in_place = work.plan->key.in_place && blocks_of(work, parts_.rank).exchanges_in_place();
  for (Lane &lane : lanes_) {
    lane.done = false;
    // The cast is safe: a lane writes to the send buffer only if the call is in place, so that it is also recv.
    lane.data = lane.block.bytes == 0
                    ? nullptr
                    : (lane.sends ? const_cast<std::byte *>(work.send) : work.recv) + lane.block.begin_bytes;
    lane.buffers.signature = work.history;
    if (in_place) {
      begin_exchange(lane);
    } else if (work.lists() == nullptr) {
      begin_data(lane, work, operations);
    } else {
      lane.counting = true;
      lane.size = lane.block.bytes;
      lane.state = whole_block(lane.program, sizeof lane.size);
      (lane.sends ? lane.buffers.send : lane.buffers.recv).data = reinterpret_cast<std::byte *>(&lane.size);
    }
  }
}

template <class Protocol>
RunOutcome BlockExchange::run_lanes(const WorkItem &work, Operations &operations, Waiter &waiter) {
  // This rank sends its first slots before it copies its own block, because peers may wait for these slots.
  bool own_copied = false;
  for (;;) {  // ends at the operation's deadline, which the waiter checks
    const Progress progress = round<Protocol>(work, operations);
    if (progress == Progress::failed) {
      const Fault fault = faulty_->state.fault;
      if (fault == Fault::none) return {RunOutcome::Kind::stopped, fault, 0};  // check_size() has raised the failure
      return {RunOutcome::Kind::fault, fault, faulty_->ends->peer};
    }
    if (!own_copied) copy_own(work, parts_.rank);
    const bool moved = progress != Progress::blocked || !own_copied;
    own_copied = true;
    if (progress == Progress::done) return {};
    if (moved) waiter.moved();
    else if (!waiter.idle()) return {RunOutcome::Kind::stopped, Fault::none, 0};
  }
}

RunOutcome BlockExchange::run(const WorkItem &work, Operations &operations, Waiter &waiter) {
  begin(work, operations);
  return work.plan->choice.protocol == RONDO_PROTOCOL_LL ? run_lanes<HostLl>(work, operations, waiter)
                                                         : run_lanes<HostSimple>(work, operations, waiter);
}

}  // namespace rondo
