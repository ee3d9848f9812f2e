// SPDX-License-Identifier: Apache-2.0
// This file has the body of every kernel that runs plans: a group of threads runs lanes of a channel to their end. On a
// device each lane has its own group. If an emulated block has fewer threads than lanes, a thread runs several in turn.
//
// Ordering  A1 load verdict, relaxed; load the abort word, acquire      whether another lane or the host gave up
//           E1 compare and exchange verdict from 0                      the first lane that failed
//           E2 add the lane to ended_lanes, with failed_lanes if it     the last lane sees every lane's E1; a single
//              failed, acquire and release                              lane skips E2
//           E3 the last lane: verdict, relaxed; store result.ended, release, for the host (which acquires it)
// If no lane failed, E2 and E3 are relaxed on a device, because they publish only their own value. Other threads see
// what the kernel wrote once it has ended. Thread 0 of a group does A1, and a vote passes the result on to the others.
// In a one_shot each thread does A1 for told_verdict at the beginning (load_store_place.h). A lane that stops publishes
// nothing more: advance() publishes a whole slice or nothing.
#pragma once

#include <cstdint>

#include "cuda/kernels/device_links.h"
#include "src/proto/memory.h"

namespace rondo::device {

/// Reports that the kernel runs. Thread 0 of a group calls it. No lane writes `ended_kernels` before this lane's E2.
RONDO_HD inline void tell_running(const DeviceOperation &operation, uint64_t ended_kernels) {
  memory::store_relaxed(operation.result->running, ended_kernels + 1);
}

/// Reports the start of a replay. Thread 0 of a group calls it at the beginning, or after its posts. Without this
/// report, the host might free what the replay still uses.
RONDO_HD inline void begin_operation(const DeviceOperation &operation, uint64_t ended_kernels) {
  if (operation.captured != 0) tell_running(operation, ended_kernels);
}

/// Reports to the host that the kernel waits. From then on the host counts its time, and checks whether a peer has
/// ended. Thread 0 of a group calls it after a poll that found nothing. `told` says whether this wait was reported
/// before.
RONDO_HD inline void tell_waiting(const DeviceOperation &operation, bool &told) {
  if (!told) tell_running(operation, operation.progress->ended_kernels);
  told = true;
}

/// Says whether thread 0 must stop after a poll without success. Calls tell_waiting().
[[nodiscard]] RONDO_HD inline bool must_stop(const DeviceOperation &operation, bool &told) {
  tell_waiting(operation, told);
  if (memory::load_relaxed(operation.progress->verdict) != 0) return true;  // A1; pairs by value with E1
  if (memory::load_relaxed(*operation.abort) == 0) return false;  // an acquire would empty the L1 cache
  return memory::load_acquire(*operation.abort) != 0;             // A1, pairs with the host's release store
}

/// Says, by relaxed loads, whether thread 0 must stop. It is called like must_stop().
[[nodiscard]] RONDO_HD inline bool seems_stopped(const DeviceOperation &operation, bool &told) {
  tell_waiting(operation, told);
  return memory::load_relaxed(operation.progress->verdict) != 0 || memory::load_relaxed(*operation.abort) != 0;  // A1
}

/// Says, by a relaxed load, whether ranks for which this kernel waits were lost with their kernels.
[[nodiscard]] RONDO_HD inline bool peers_are_lost(const DeviceOperation &operation) {
  return kernel_of_lost_peers(memory::load_relaxed(*operation.abort)) == operation.progress->ended_kernels + 1;  // A1
}

/// Waits, maybe for long, until has_come() or stops() is true. One thread of a group calls it, while the others are at
/// a barrier. Both functions may only load relaxed, because an acquire would empty the L1 cache, which other kernels
/// use. The thread pauses after each poll, to take little bandwidth of a link. Returns false to stop. After true, the
/// caller polls again by acquires.
template <Group G, class Stops, class HasCome>
[[nodiscard]] RONDO_HD bool watch(G group, const DeviceOperation &operation, const Stops &stops,
                                  const HasCome &has_come) {
  constexpr uint32_t polls = 8;  // for each read of words in host memory
  RONDO_KEEP_LOOP
  for (uint32_t poll = 0; poll % polls != 0 || !stops(); ++poll) {  // bounded by the deadline, when the host aborts
    if (has_come()) return true;
    group.pause();
  }
  (void)memory::load_acquire(*operation.abort);  // A1, pairs with the host's release store
  return false;
}

/// Records that the kernel has run operation `number` to its end, and returns the word for the host. `ends` has the
/// values that the kernel before it left.
[[nodiscard]] RONDO_HD inline uint64_t note_end(DeviceProgress &progress, uint64_t number, const KernelEnds &ends) {
  // A replay repeats the number of its capture, which must not hide the number of a later operation.
  const uint64_t latest = ends.number < number ? number : ends.number;
  progress.ended_kernels = ends.kernels + 1;
  progress.ended_number = latest;
  return pack_ended(latest, ends.kernels + 1);
}

/// Reports that `lane_count` lanes have ended. Thread 0 of a group calls it. `posts` is the number of the operation's
/// one_shot posts, the same in all lanes. load() returns KernelEnds.
template <class Load>
RONDO_HD void report(const DeviceOperation &operation, uint32_t lane_count, uint64_t verdict, uint32_t posts,
                     const Load &load) {
  DeviceProgress &progress = *operation.progress;
  bool failed = verdict != 0;
  if (failed) (void)memory::exchange_if(progress.verdict, 0, verdict);  // E1; if false, another lane was first
  if (operation.lane_count > 1) {
    const uint64_t own = lane_count + (failed ? failed_lanes : 0);
    const uint64_t before = failed ? memory::add<memory::Site::lane_end>(progress.ended_lanes, own)  // E2 pairs with E2
                                   : memory::add_at_end<memory::Site::lane_end>(progress.ended_lanes, own);  // E2
    const uint64_t all = before + own;
    if (all % failed_lanes != operation.lane_count) return;
    if (all != operation.lane_count && !failed) (void)memory::add(progress.ended_lanes, 0);  // E2, to acquire
    failed = all != operation.lane_count;
    memory::store_relaxed(progress.ended_lanes, 0);  // the next kernel begins when this one has ended
  }
  const KernelEnds ends = load();
  DeviceResult &result = *operation.result;
  if (failed && progress.told_verdict == 0) {
    progress.told_verdict = 1;
    memory::store_relaxed(result.failed_number, operation.number);
    memory::store_relaxed(result.verdict, memory::load_relaxed(progress.verdict));  // ordered by E2
  }
  progress.posts = ends.posts + posts;
  const uint64_t ended = note_end(progress, operation.number, ends);
  if (failed)
    memory::store_release<memory::Site::operation_end>(result.ended, ended);  // E3, pairs with the host
  else
    memory::store_at_end<memory::Site::operation_end>(result.ended, ended);  // E3
}

/// Runs the lanes first, first + stride, ... of a channel, at most lanes_max of them. `shared` is the block's shared
/// memory (shared_bytes_for()).
template <class Protocol, uint32_t lanes_max, Group G, class Reducer>
RONDO_HD void run_lanes(G group, const DeviceOperation &operation, const DeviceChannel &channel, uint32_t first,
                        uint32_t stride, const Reducer &reducer, std::byte *shared) {
  std::byte *const scratch = shared + channel.lane_count * lane_control_bytes;
  LaneState states[lanes_max]{};
  // The bits of `running` above the lanes count idle rounds, because another variable would spill registers on sm_120.
  constexpr uint32_t idle_round = 1u << lanes_max;
  constexpr uint32_t rounds_per_check = 8;  // idle rounds for each read of the abort word, which is in host memory
  static_assert(lanes_max <= 16);
  uint32_t running = 0;  // a bit for each lane, and the number of idle rounds; from 1 on, the wait is long
  uint32_t lane_count = 0;
  for (uint32_t lane = first; lane < channel.lane_count && lane_count < lanes_max; lane += stride)
    running |= 1u << lane_count++;
  uint64_t verdict = 0;
  bool told = false;
  if (group.rank() == 0) begin_operation(operation, operation.progress->ended_kernels);
  // After a failed kernel, no kernel may touch the links. Groups that have to wait also read the abort word.
  if (group.any(group.rank() == 0 && memory::load_relaxed(operation.progress->verdict) != 0))  // A1
    verdict = pack_verdict(Outcome::stopped, Fault::none, 0);
  while (running % idle_round != 0 && verdict == 0) {  // bounded by the deadline, at which the host sets the abort word
    bool moved = false;
    RONDO_UNROLL
    for (uint32_t index = 0; index < lanes_max && verdict == 0; ++index) {
      if ((running >> index & 1) == 0) continue;
      const uint32_t lane = first + index * stride;
      LaneLinks links{channel.links, channel.lanes + lane, scratch + lane * scratch_count * operation.scratch_bytes,
                      operation.scratch_bytes, running < idle_round ? operation.poll_count : 1,
                      running >= idle_round};
      const Progress progress =
          advance<G, Protocol>(group, states[index], channel.lanes[lane], operation.buffers, reducer, links);
      moved |= progress == Progress::moved || progress == Progress::done;
      if (progress == Progress::done) running &= ~(1u << index);
      if (progress == Progress::failed)
        verdict = pack_verdict(Outcome::fault, states[index].fault, links.at(states[index].fault_link).peer);
    }
    if (moved) running %= idle_round;
    if (moved || verdict != 0) continue;
    group.pause();
    const uint32_t idle_rounds = running / idle_round;
    running += idle_round;
    if (idle_rounds % rounds_per_check != 0) continue;
    if (group.any(group.rank() == 0 && must_stop(operation, told)))
      verdict = pack_verdict(Outcome::stopped, Fault::none, 0);
  }
  if (group.rank() == 0) report(operation, lane_count, verdict, 0, [&] { return load_ends(*operation.progress); });
}

/// Makes the reducer for the channel, which is a GroupReducer or GroupCopier.
template <class Reducer>
[[nodiscard]] RONDO_HD Reducer make_reducer(const DeviceOperation &operation, const DeviceChannel &channel) {
  return Reducer::make(operation.divisor, operation.op, channel.lanes[0].element_bytes);
}

}  // namespace rondo::device
