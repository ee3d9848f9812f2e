// SPDX-License-Identifier: Apache-2.0
// This file runs a batch of messages on host memory. One thread multiplexes the messages. A message is a lane of one
// step. The interpreter runs the lane over the FIFO of the message's pair and direction.
//
// Progress  The messages of a pair and direction form a queue. Every round visits the head of every queue that is not
//           empty, and a visit moves a few slices at most. So a batch completes once each peer has begun the matching
//           message for each of its messages, however few slots a FIFO has (docs/messages.md has the proof). A caller
//           that visits only some of the heads loses this guarantee.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "src/base/cpu.h"
#include "src/engine/host_links.h"
#include "src/engine/run_plan.h"
#include "src/engine/transfers.h"
#include "src/engine/waiter.h"

namespace rondo {

/// This rank's ends of the connections for messages, by peer. An end either sends or receives, so a receive never waits
/// for a send.
class MessageLinks {
 public:
  struct Peer {
    ConnectionView outgoing;
    ConnectionView incoming;
    uint32_t readable_kinds = 0;  ///< bits of PayloadKind: kinds of exported buffers that the peer can read
  };
  /// Makes the ends of a rank. With `wake`, a store wakes ranks that sleep. `access` must outlive this object.
  MessageLinks(std::span<const Peer> peers, PeerAccess &access, bool wake);
  MessageLinks(const MessageLinks &) = delete;
  MessageLinks &operator=(const MessageLinks &) = delete;

  [[nodiscard]] HostLinks of(uint32_t peer, bool sends) const {
    return {std::span(&pointers_[2 * size_t{peer} + (sends ? 1 : 0)], 1), &access_, &scratch_, wake_};
  }
  [[nodiscard]] const ConnectionView &outgoing(uint32_t peer) const { return outgoing_[peer]; }
  [[nodiscard]] uint64_t slot_bytes() const { return slot_bytes_; }
  [[nodiscard]] uint32_t peer_count() const { return static_cast<uint32_t>(pointers_.size() / 2); }

 private:
  std::vector<LinkEnds> ends_;        ///< two entries for each peer: the receiving end, then the sending end
  std::vector<LinkEnds *> pointers_;  ///< pointers to the entries of ends_
  std::vector<ConnectionView> outgoing_;  ///< indexed by peer
  PeerAccess &access_;
  const uint64_t slot_bytes_;
  Scratch scratch_;
  const bool wake_;
};

/// The link of a queue.
struct MessageLink : HostLinks {
  // Only queues that send use these members:
  ConnectionView outgoing;
  uint64_t posted = 0;      ///< number of posted slots
  bool in_header = false;   ///< true if the head's payload goes in the header of its slot
  bool exported = false;    ///< true if the peer may read the head's buffer
  SlotHeader short_header;  ///< holds a short payload before it is posted
};

/// The protocol `simple` for messages. A short payload goes in the header.
struct MessageSimple : HostSimple {
  static std::byte *stage(MessageLink &links, LinkIndex link, uint32_t which) {
    return links.in_header ? payload_of(links.short_header) : HostSimple::stage(links, link, which);
  }
  static void post(SingleThread thread, MessageLink &links, LinkIndex link, uint32_t which, uint64_t bytes,
                   uint32_t signature, PayloadKind kind, const MemoryHandle *handle, const std::byte *exported) {
    if (!links.in_header) {
      HostSimple::post(thread, links, link, which, bytes, signature, kind, handle, exported);
    } else {
      links.short_header.signature = signature;
      links.short_header.kind = static_cast<uint32_t>(payload_in_header);
      links.short_header.bytes = bytes;
      links.ends[link]->simple_out.post(links.short_header, links.wake);
      if (links.wake) links.peers->wake(links.ends[link]->peer);
    }
    // The peer's core last used the next header's cache line, and does not poll that line yet. So it is fetched now.
    prefetch_for_write(&links.outgoing.header(++links.posted));
  }
  /// Returns true once the peer no longer reads the head's buffer. HostSimple::drained() also counts a payload in the
  /// header as a reference to a buffer. So that function is called only if a buffer is exported.
  static bool drained(SingleThread thread, MessageLink &links) {
    return !links.exported || HostSimple::drained(thread, links);
  }
};

/// The messages of a batch with one peer in one direction, and the progress of their head.
struct TransferQueue {
  uint32_t peer = 0;
  bool sends = false;
  Transfer *first = nullptr;  ///< the head, or null if the queue is empty
  Transfer *last = nullptr;
  LaneState state;
  Buffers buffers;
  MessageLink links;
  bool begun = false;   ///< true if the head has begun
  uint64_t record = 0;  ///< record of the head for the observer, or 0 if the head has not begun

  [[nodiscard]] const Transfer &head() const { return *first; }
  /// Returns true if the head cannot move until the peer has stored something.
  [[nodiscard]] bool is_blocked() const;
};

/// An observer of a batch's messages.
class TransferObserver {
 public:
  virtual ~TransferObserver() = default;
  /// Runs when the head begins. It may export the buffer of a send in `queue.buffers`.
  virtual void begin(TransferQueue &queue) = 0;
  /// Runs when the head is complete.
  virtual void complete(TransferQueue &queue) = 0;
};

/// The queues of a rank, which take one batch after another. A batch allocates nothing.
class TransferQueues final : public TransferHeads {
 public:
  /// Makes empty queues. `links` must outlive this object.
  explicit TransferQueues(const MessageLinks &links);
  TransferQueues(const TransferQueues &) = delete;
  TransferQueues &operator=(const TransferQueues &) = delete;

  /// Takes a batch, which must outlive its run and have no message to this rank itself.
  void load(std::span<Transfer> transfers);

  /// Returns the queues that are not empty.
  [[nodiscard]] std::span<TransferQueue *const> active() const { return {active_.data(), active_count_}; }
  [[nodiscard]] size_t active_count() const { return active_count_; }
  [[nodiscard]] bool done() const { return active_count_ == 0; }
  [[nodiscard]] size_t head_count() const override { return active_count_; }
  [[nodiscard]] const Transfer &head(size_t index) const override { return active_[index]->head(); }
  [[nodiscard]] bool is_blocked(size_t index) override { return active_[index]->is_blocked(); }
  [[nodiscard]] size_t late_head() override;
  [[nodiscard]] SlotUse posted_slots(size_t index) const override;

  /// Sets the observer, before the first visit. A head begins at its own first visit. So a send does not wait until all
  /// heads have begun. `observer` must outlive the run of the batch.
  void start(TransferObserver &observer) { observer_ = &observer; }
  /// Moves as much of active()[index] as possible. Returns moved, blocked, failed or done. After `done`, the queue is
  /// empty, and another queue may have its index in active().
  [[nodiscard]] Progress visit(size_t index);
  /// Visits the head of every queue. Returns moved, blocked, done or failed. After `failed`, faulty() is the queue.
  [[nodiscard]] Progress round();
  [[nodiscard]] const TransferQueue &faulty() const { return *active_[faulty_]; }

 private:
  static constexpr uint32_t visit_slices_max = 4;

  void begin_head(TransferQueue &queue);

  TransferObserver *observer_ = nullptr;  ///< observer of the batch
  const std::array<LaneProgram, 2> programs_;  ///< programs to receive and to send
  std::vector<TransferQueue> queues_;     ///< two entries for each peer: the receiving queue, then the sending queue
  std::vector<TransferQueue *> active_;   ///< only the first active_count_ entries are used
  size_t active_count_ = 0;
  size_t faulty_ = 0;  ///< index in active_
};

/// Runs all queues until they are empty. After the outcome `stopped` or `fault`, it publishes nothing more.
/// @param poll_count  visits of a queue, in a row and without progress, before it calls the waiter
[[nodiscard]] RunOutcome run_transfers(TransferQueues &queues, Waiter &waiter, uint32_t poll_count);

}  // namespace rondo
