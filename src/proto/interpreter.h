// SPDX-License-Identifier: Apache-2.0
// The interpreter runs the steps of a lane, one slice at a time. Hosts and devices share it. A device calls advance()
// in a loop, the host executor multiplexes many lanes, and a simulator may choose the next lane from a seed.
//
// A call of advance() either does nothing and returns `blocked`, or moves one slice. To move a slice, it first polls
// all flags and counters that the slice waits for. Then it reduces the operands, posts the results and releases the
// operands. So between two calls, a lane has published whole slices only.
//
// All threads of a group (src/proto/group.h) take the same branches. By a vote before each slice, they learn whether
// all operands and credits have arrived. If one is missing, another vote shares faults. Between the first vote and the
// barrier before the posts, all threads may read the ends of the links. Then one thread writes the ends.
//
// If a payload already lies in a buffer of the sender, the slot can refer to the buffer instead of holding a copy ("by
// reference"). It lies in a buffer if src or acc is the step's only operand, or if the step writes dst. The peer must
// be able to read the buffer, and the algorithm must be reference_safe. A lane is done only when the peers have read
// all such buffers and consumed their slots.
#pragma once

#include <cstddef>
#include <cstdint>

#include "src/base/host_device.h"
#include "src/proto/connection.h"
#include "src/proto/group.h"
#include "src/proto/memory.h"
#include "src/proto/partition.h"
#include "src/proto/step.h"

namespace rondo {

enum class Progress : uint8_t { moved, blocked, done, failed };

enum class Fault : uint8_t {
  none,
  foreign_slot,  ///< the peer's slot belongs to another operation
  wrong_size,    ///< the peer's slot has another size than this rank expects
  unreadable,    ///< the peer's buffer could not be mapped or read
  withdrawn,     ///< the peer named a buffer whose registration it has ended
};

/// The method by which peers can read a buffer of a rank in place.
struct MemoryHandle {
  bool exported = false;                    ///< false: copy always
  bool replaced = false;                    ///< mapped: other memory is now at the buffer's address, see RegionRef
  PayloadKind kind = PayloadKind::in_slot;  ///< mapped or process: how other processes read [first, first + bytes)
  // Only an exported handle sets these fields. To clear them in others would slow down small calls.
  const std::byte *first;
  uint64_t bytes;
  uint64_t inode;          ///< mapped: inode of the memfd that holds the buffer
  uint64_t region_offset;  ///< mapped: offset of `first` in the region
  uint64_t region_bytes;   ///< mapped: size of the region
  int32_t descriptor;      ///< mapped: the owner's descriptor of the memfd
  uint32_t region;         ///< mapped: the low half of the region's number

  /// Returns how a peer gets [at, at + size) of the buffer. `accepted` has the kinds that the peer can read, as bits of
  /// PayloadKind. The result in_slot means that the payload is copied.
  [[nodiscard]] RONDO_HD PayloadKind choose(uint32_t accepted, const std::byte *at, uint64_t size) const {
    if (!exported) return PayloadKind::in_slot;
    if ((accepted & kind_bit(PayloadKind::address)) != 0) return PayloadKind::address;
    const bool covered = at >= first && size <= bytes && static_cast<uint64_t>(at - first) <= bytes - size;
    return covered && (accepted & kind_bit(kind)) != 0 ? kind : PayloadKind::in_slot;
  }
};

/// One of a rank's two buffers. It holds the elements of the logical vector from `origin` on.
struct Window {
  std::byte *data = nullptr;
  uint64_t origin = 0;
  MemoryHandle handle;
};

/// The arguments of an operation that change from call to call.
struct Buffers {
  Window send;  ///< never written
  Window recv;
  uint32_t signature = 0;  ///< digest of all operations up to this one (src/plan/plan.h); every slot carries it
};

/// The program of a lane. It is plain data, which the plan owns.
struct LaneProgram {
  const Step *steps = nullptr;
  uint32_t step_count = 0;
  uint32_t element_bytes = 1;
  bool reference_safe = false;
  uint64_t slot_elements = 1;  ///< number of elements of a slice
  Partition partition;
};

struct LaneState {
  uint64_t tile = 0;
  uint32_t step = 0;
  bool loaded = false;  ///< true if `rest` is the remainder of the current chunk
  Fault fault = Fault::none;
  LinkIndex fault_link = no_link;
  Range rest;
};

/// Finds the next chunk that is not empty. Returns false if the program has no more chunks.
RONDO_HD inline bool load_chunk(LaneState &state, const LaneProgram &program) {
  while (!state.loaded) {  // ends after tiles * steps iterations
    if (state.step == program.step_count) {
      state.step = 0;
      ++state.tile;
    }
    if (state.tile >= program.partition.tile_count || program.step_count == 0) return false;
    state.rest = program.partition.range(state.tile, program.steps[state.step].chunk);
    state.loaded = state.rest.count != 0;
    if (!state.loaded) ++state.step;
  }
  return true;
}

RONDO_HD inline void finish_slice(LaneState &state, uint64_t count) {
  state.rest.begin += count;
  state.rest.count -= count;
  if (state.rest.count != 0) return;
  state.loaded = false;
  ++state.step;
}

[[nodiscard]] RONDO_HD inline std::byte *address_of(const Window &window, const LaneProgram &program,
                                                    uint64_t element) {
  return window.data + (element - window.origin) * program.element_bytes;
}

/// Returns the window in which this step's payload lies already, so that peers can read it in place, or null.
[[nodiscard]] RONDO_HD inline const Window *exportable_window(const Step &step, const LaneProgram &program,
                                                              const Buffers &buffers) {
  if (!program.reference_safe) return nullptr;
  if ((step.flags & step_dst) != 0) return &buffers.recv;
  const uint8_t operands = step.flags & (step_recv | step_src | step_acc | step_finish);
  if (operands == step_src) return &buffers.send;
  if (operands == step_acc) return &buffers.recv;
  return nullptr;
}

/// Moves one slice of the lane's current step, or returns why that is not possible. Reducer::Args has add_input(),
/// add_output(), inputs[], input_count, outputs[], output_count, count, divisor, mean_shifts. Reducer::divisor is 0,
/// except for avg. src/engine/host_links.h describes Protocol and Links; every thread of the group calls them.
template <Group G, class Protocol, class Reducer, class Links>
[[nodiscard]] RONDO_HD Progress advance(G group, LaneState &state, const LaneProgram &program, const Buffers &buffers,
                                        const Reducer &reducer, Links &links) {
  if (!load_chunk(state, program)) return Protocol::drained(group, links) ? Progress::done : Progress::blocked;
  const Step &step = program.steps[state.step];
  const uint64_t count = state.rest.count < program.slot_elements ? state.rest.count : program.slot_elements;
  const uint64_t bytes = count * program.element_bytes;
  const bool sends = (step.flags & step_send) != 0;

  const Progress ready = Protocol::wait(group, links, step, bytes, buffers.signature, state);
  if (ready != Progress::moved) return ready;

  typename Reducer::Args args{};
  args.count = count;
  args.divisor = (step.flags & step_finish) != 0 ? reducer.divisor : 0;
  args.mean_shifts = reducer.divisor != 0 ? step.mean_shifts : 0;
  if ((step.flags & step_acc) != 0) args.add_input(address_of(buffers.recv, program, state.rest.begin));
  if ((step.flags & step_src) != 0) args.add_input(address_of(buffers.send, program, state.rest.begin));
  RONDO_UNROLL
  for (uint32_t which = 0; which < 2 && (step.flags & step_recv) != 0; ++which) {
    if (step.recv_link[which] == no_link) continue;
    const std::byte *operand = nullptr;
    const Progress progress =
        Protocol::fetch(group, links, step.recv_link[which], which, bytes, buffers.signature, operand, state.fault);
    if (progress == Progress::failed) state.fault_link = step.recv_link[which];
    if (progress != Progress::moved) return progress;
    args.add_input(operand);
  }

  const Window *const exporting = sends ? exportable_window(step, program, buffers) : nullptr;
  const std::byte *const exported = exporting != nullptr ? address_of(*exporting, program, state.rest.begin) : nullptr;
  if ((step.flags & step_dst) != 0) args.add_output(address_of(buffers.recv, program, state.rest.begin));
  const std::byte *staged = nullptr;
  PayloadKind kinds[2] = {PayloadKind::in_slot, PayloadKind::in_slot};
  RONDO_UNROLL
  for (uint32_t which = 0; which < 2 && sends; ++which) {
    const LinkIndex link = step.send_link[which];
    if (link == no_link) continue;
    if (exporting != nullptr)
      kinds[which] = exporting->handle.choose(Protocol::readable_kinds(links, link), exported, bytes);
    if (kinds[which] != PayloadKind::in_slot) continue;
    std::byte *const stage = Protocol::stage(links, link, which);
    if (stage != staged) args.add_output(stage);
    staged = stage;
  }
  const bool nothing =
      args.input_count == 1 && args.divisor == 0 && args.output_count == 1 && args.inputs[0] == args.outputs[0];
  if (args.output_count != 0 && !nothing) reducer(group, args);
  if constexpr (memory::is_kept(memory::Site::slice_barrier)) group.sync();

  RONDO_UNROLL
  for (uint32_t which = 0; which < 2 && sends; ++which)
    if (step.send_link[which] != no_link)
      Protocol::post(group, links, step.send_link[which], which, bytes, buffers.signature, kinds[which],
                     exporting != nullptr ? &exporting->handle : nullptr, exported);
  for (const LinkIndex link : step.recv_link)
    if ((step.flags & step_recv) != 0 && link != no_link) Protocol::release(group, links, link);
  Protocol::publish(group, links, step);
  finish_slice(state, count);
  return Progress::moved;
}

}  // namespace rondo
