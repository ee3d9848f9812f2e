// SPDX-License-Identifier: Apache-2.0
// This file has the body of the kernel that runs a batch of messages. One end of a message, or a part of it, is a lane
// of one step, which the interpreter runs with the protocol simple. Parts with the same peer, direction and channel
// form a queue.
//
// Progress  A block serves some of the queues. In every round its threads poll the heads of all these queues, and the
//           block moves one slice of each head that is ready. All blocks of a kernel are resident, so the proof of
//           docs/messages.md holds for any number of blocks.
// Reports   Thread 0 of a block stores in host memory how many parts of a queue are done, and how many checks in a row
//           found the block idle. The host uses this only to report what a rank waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/kernels/reduce.h"
#include "cuda/kernels/run.h"

namespace rondo::device {

inline constexpr uint32_t no_transfer = UINT32_MAX;

enum class TransferKind : uint32_t {
  receive,
  send,
  exchange,  ///< sends each slice, then receives the peer's slice in its place
};

/// A part of one end of a message.
struct DeviceTransfer {
  std::byte *data = nullptr;  ///< not written if it is sent
  uint64_t bytes = 0;         ///< 0: one slot without a payload
  uint64_t whole_bytes = 0;   ///< size of the whole message
  uint32_t signature = 0;
  uint32_t next = no_transfer;  ///< index, in the list, of the queue's next part
  uint32_t link = 0;            ///< index of the link ends
  TransferKind kind = TransferKind::receive;
};
static_assert(sizeof(DeviceTransfer) == 40);

/// The progress of a batch, as reported in host memory. The upper half of a word is the low half of the operation's
/// number, so words of earlier batches are ignored.
struct TransferReport {
  uint64_t *done = nullptr;   ///< by queue: number of finished parts
  uint64_t *quiet = nullptr;  ///< by block: checks since it last moved a slice, or transfers_all_done
  uint64_t *sent_bytes = nullptr;  ///< one word: the sender's size of a message whose two sizes differ
};
inline constexpr uint32_t transfers_all_done = UINT32_MAX;
[[nodiscard]] RONDO_HD constexpr uint64_t pack_report(uint64_t number, uint32_t count) { return number << 32 | count; }

/// The most transfers that fit into the kernel's parameter, which is limited to 4 KiB.
inline constexpr uint32_t transfers_inline_max = 64;

struct TransferOperation {
  DeviceOperation base;  ///< lane_count is the number of blocks; there are no channels and buffers
  DeviceLinkEnds *ends = nullptr;
  const DeviceTransfer *list = nullptr;  ///< null: the list is `few`
  TransferReport report;
  uint32_t queue_count = 0;  ///< queue i begins with entry i of the list
  uint32_t block_count = 1;
  uint32_t slot_bytes = 0;
  uint32_t reserved = 0;
  DeviceTransfer few[transfers_inline_max];
};
static_assert(std::is_trivially_copyable_v<TransferOperation> && std::is_standard_layout_v<TransferOperation>);
static_assert(sizeof(TransferOperation) <= 4096);

/// The link of one transfer.
struct TransferLinks : LaneLinks {
  uint64_t whole_bytes = 0;
};

/// The protocol simple, with slots that also carry the size of the whole message.
struct TransferSimple : GroupSimple {
  template <Group G>
  RONDO_HD static void post(G group, TransferLinks &links, LinkIndex link, uint32_t, uint64_t bytes, uint32_t signature,
                            PayloadKind, const MemoryHandle *, const std::byte *) {
    if (group.rank() != 0) return;
    SlotHeader fields;
    fields.signature = signature;
    fields.bytes = bytes;
    fields.kind = static_cast<uint32_t>(PayloadKind::in_slot);
    fields.region_bytes = links.whole_bytes;
    links.at(link).simple_out.fill(fields);
  }
};

/// Moves the bytes of slices by the threads of the block. Another carrier has the same members
/// (cuda/executors/copy_messages.cpp).
struct BlockCarrier {
  using Links = TransferLinks;
  using Protocol = TransferSimple;
  /// Returns the link of a transfer, by DeviceTransfer::link. The caller fills in the members of TransferLinks.
  [[nodiscard]] RONDO_HD Links links(uint32_t) const { return {}; }
  [[nodiscard]] RONDO_HD GroupCopier copier() const { return {}; }
};

/// The state of a queue, in shared memory. Thread 0 writes all members except `ready`.
struct TransferHead {
  DeviceLinkEnds *ends;
  uint64_t begin;        ///< bytes of the part that are finished
  uint32_t at;           ///< index in the list, or no_transfer if the queue is empty
  uint32_t done;         ///< number of finished parts
  uint32_t ready;        ///< a slot is available for its next slice
  uint32_t receives;     ///< for an exchange: its slice was sent
};
static_assert(sizeof(TransferHead) == 32);

/// Returns the most queues of a block.
[[nodiscard]] RONDO_HD constexpr uint32_t queues_of_block(uint32_t queue_count, uint32_t block_count) {
  return (queue_count + block_count - 1) / block_count;
}
/// Returns the shared memory of a block in bytes.
[[nodiscard]] RONDO_HD constexpr uint32_t transfer_shared_bytes(uint32_t queue_count, uint32_t block_count) {
  return lane_control_bytes +
         queues_of_block(queue_count, block_count) * static_cast<uint32_t>(sizeof(TransferHead));
}

/// A block of the kernel.
template <Group G, class Carrier>
class TransferBlock {
 public:
  RONDO_HD TransferBlock(G group, const TransferOperation &operation, uint32_t block, std::byte *shared,
                         const Carrier &carrier)
      : group_(group),
        carrier_(carrier),
        operation_(operation),
        list_(operation.list != nullptr ? operation.list : operation.few),
        heads_(reinterpret_cast<TransferHead *>(shared + lane_control_bytes)),
        block_(block),
        count_(block < operation.queue_count
                   ? (operation.queue_count - block + operation.block_count - 1) / operation.block_count
                   : 0),
        open_(count_) {}

  RONDO_HD void run() {
    const DeviceOperation &base = operation_.base;
    begin();
    uint64_t verdict = 0;
    uint32_t quiet = 0;
    bool told = false;
    // After a failed kernel, no kernel may touch the links. The vote also shows all threads what begin() has written.
    if (group_.any(group_.rank() == 0 && memory::load_relaxed(base.progress->verdict) != 0))  // A1
      verdict = pack_verdict(Outcome::stopped, Fault::none, 0);
    while (open_ != 0 && verdict == 0) {  // bounded by the deadline, at which the host sets the abort word
      if (group_.any(poll_heads())) {
        verdict = visit_ready();
        idle_rounds_ = quiet = 0;
        group_.sync();  // so that polls see what thread 0 has written to the heads
        continue;
      }
      if (idle_rounds_ < rounds_before_pause) group_.relax();
      else group_.pause();
      if (++idle_rounds_ % rounds_per_check != 0) continue;
      if (group_.rank() == 0 && quiet + 1 != transfers_all_done) tell_quiet(++quiet);
      if (group_.any(group_.rank() == 0 && must_stop(base, told)))
        verdict = pack_verdict(Outcome::stopped, Fault::none, 0);
    }
    if (group_.rank() != 0) return;
    if (verdict == 0) tell_quiet(transfers_all_done);
    report(base, 1, verdict, 0, [&] { return load_ends(*base.progress); });
  }

 private:
  /// Rounds without success between two reads of the abort word, which is in host memory.
  static constexpr uint32_t rounds_per_check = 16;
  /// Rounds without success before a long wait, with pauses and relaxed loads.
  static constexpr uint32_t rounds_before_pause = 64;

  [[nodiscard]] RONDO_HD uint32_t queue_of(uint32_t index) const { return block_ + index * operation_.block_count; }

  RONDO_HD void begin() {
    for (uint32_t index = group_.rank(); index < count_; index += group_.size()) {
      const uint32_t queue = queue_of(index);
      heads_[index] = {operation_.ends + list_[queue].link, 0, queue, 0, 0, 0};
      if (operation_.base.captured != 0) tell_done(queue, 0);  // a replay has the same number as the replay before
    }
    if (group_.rank() != 0) return;
    begin_operation(operation_.base, operation_.base.progress->ended_kernels);
    tell_quiet(0);
  }

  RONDO_HD void tell_done(uint32_t queue, uint32_t done) const {
    memory::store_relaxed(operation_.report.done[queue], pack_report(operation_.base.number, done));
  }
  RONDO_HD void tell_quiet(uint32_t quiet) const {
    memory::store_relaxed(operation_.report.quiet[block_], pack_report(operation_.base.number, quiet));
  }

  [[nodiscard]] RONDO_HD static bool sends(const TransferHead &head, const DeviceTransfer &transfer) {
    return transfer.kind == TransferKind::send || (transfer.kind == TransferKind::exchange && head.receives == 0);
  }

  /// Polls this thread's heads. Returns whether one of them is ready.
  [[nodiscard]] RONDO_HD bool poll_heads() {
    bool some = false;
    for (uint32_t index = group_.rank(); index < count_; index += group_.size()) {
      TransferHead &head = heads_[index];
      if (head.at == no_transfer) continue;
      SimpleSender &out = head.ends->simple_out;
      const SimpleReceiver &in = head.ends->simple_in;
      const bool sending = sends(head, list_[head.at]);
      bool ready = idle_rounds_ < rounds_before_pause || (sending ? out.may_send() : in.may_receive());
      if (ready) ready = sending ? out.can_send(false) : in.can_receive(false);
      head.ready = ready ? 1 : 0;
      some = some || ready;
    }
    return some;
  }

  /// Moves a slice of each head that is ready. Returns a verdict, or 0.
  [[nodiscard]] RONDO_HD uint64_t visit_ready() {
    for (uint32_t index = 0; index < count_; ++index) {
      const TransferHead head = heads_[index];  // a copy, as thread 0 changes it after a barrier of advance()
      if (head.at == no_transfer || head.ready == 0) continue;
      const DeviceTransfer transfer = list_[head.at];
      const bool sending = sends(head, transfer);
      Step step;
      step.flags = sending ? step_src | step_send : step_recv | step_dst;
      step.send_link[0] = sending ? 0 : no_link;
      step.recv_link[0] = sending ? no_link : 0;
      LaneProgram program;
      program.steps = &step;
      program.step_count = 1;
      program.slot_elements = operation_.slot_bytes;
      LaneState state;
      state.loaded = true;
      state.rest = {head.begin, transfer.bytes - head.begin};
      Buffers buffers;
      buffers.signature = transfer.signature;
      buffers.send.data = buffers.recv.data = transfer.data;
      typename Carrier::Links links = carrier_.links(transfer.link);
      links.ends = &heads_[index].ends;
      links.program = &program;
      links.whole_bytes = transfer.whole_bytes;
      if (!sending && differs_in_size(head, transfer))
        return pack_verdict(Outcome::fault, Fault::wrong_size, head.ends->peer);
      const Progress progress =
          advance<G, typename Carrier::Protocol>(group_, state, program, buffers, carrier_.copier(), links);
      if (progress == Progress::failed) return pack_verdict(Outcome::fault, state.fault, head.ends->peer);
      if (progress == Progress::moved) note_slice(index, head, transfer, sending, state);
    }
    return 0;
  }

  /// Says whether the full slot belongs to the message, but gives another size for it. One thread has acquired the
  /// slot, and the vote passed that on.
  [[nodiscard]] RONDO_HD bool differs_in_size(const TransferHead &head, const DeviceTransfer &transfer) const {
    const SlotHeader &header = head.ends->simple_in.header();
    if (header.signature != transfer.signature || header.region_bytes == transfer.whole_bytes) return false;
    if (header.region_bytes == 0 && header.bytes != 0) return false;  // it came over a network, without that size
    if (group_.rank() == 0) memory::store_relaxed(*operation_.report.sent_bytes, header.region_bytes);
    return true;
  }

  /// Records a finished slice. All threads of the group count the open queues, and thread 0 writes the head.
  RONDO_HD void note_slice(uint32_t index, TransferHead head, const DeviceTransfer &transfer, bool sending,
                           const LaneState &state) {
    head.ready = 0;
    head.receives = 0;
    if (sending && transfer.kind == TransferKind::exchange) {
      head.receives = 1;
    } else if (state.rest.count != 0) {
      head.begin = state.rest.begin;
    } else {
      head.begin = 0;
      head.at = transfer.next;
      ++head.done;
      if (transfer.next == no_transfer) --open_;
    }
    if (group_.rank() != 0) return;
    if (head.done != heads_[index].done) tell_done(queue_of(index), head.done);
    heads_[index] = head;
  }

  const G group_;
  const Carrier carrier_;
  const TransferOperation &operation_;
  const DeviceTransfer *const list_;
  TransferHead *const heads_;
  const uint32_t block_;
  const uint32_t count_;  ///< queues of the block
  uint32_t open_;         ///< number of them that are not empty
  uint32_t idle_rounds_ = 0;
};

/// Runs a block. `shared` is its shared memory, transfer_shared_bytes().
template <Group G, class Carrier = BlockCarrier>
RONDO_HD void run_transfers(G group, const TransferOperation &operation, uint32_t block, std::byte *shared,
                            const Carrier &carrier = {}) {
  TransferBlock<G, Carrier>(group, operation, block, shared, carrier).run();
}

}  // namespace rondo::device
