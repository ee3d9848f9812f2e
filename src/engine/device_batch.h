// SPDX-License-Identifier: Apache-2.0
// This class prepares a batch of messages for a device. Large messages are cut into parts, which use different
// channels. The parts with the same peer, direction and channel form a queue, in the order of their messages.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/engine/transfers.h"

namespace rondo {

class MessageBoards;

/// The most ranks that a communicator on a device may have if it exchanges messages.
inline constexpr uint32_t batch_ranks_max = 64;

class DeviceBatch {
 public:
  static constexpr uint32_t none = UINT32_MAX;
  struct Part {
    uint32_t transfer = 0;  ///< index of the part's message
    uint32_t queue = 0;
    uint32_t position = 0;  ///< position in its queue
    uint32_t channel = 0;
    uint64_t offset = 0;    ///< offset of the part in its message, in bytes
    uint64_t bytes = 0;
    uint32_t next = none;   ///< next part of the queue
  };
  /// The smallest size of a part in bytes. A smaller message is one part.
  static constexpr uint64_t part_bytes_min = 64 << 10;
  static constexpr uint32_t channels_max = 4;  ///< the most channels, and so the most parts of a message

  /// Copies `transfers`. A message has at most `channel_count` parts. Its two ends must pass equal channel counts.
  DeviceBatch(std::span<const Transfer> transfers, uint32_t channel_count);

  [[nodiscard]] std::span<const Transfer> transfers() const { return transfers_; }
  /// Returns all parts. The first queue_count() parts are the heads of the queues, in the order of the queues.
  [[nodiscard]] std::span<const Part> parts() const { return parts_; }
  [[nodiscard]] uint32_t queue_count() const { return queue_count_; }
  [[nodiscard]] uint32_t channel_count() const { return channel_count_; }

  [[nodiscard]] static uint32_t part_count(uint64_t message_bytes, uint32_t channel_count) {
    return static_cast<uint32_t>(std::clamp<uint64_t>(message_bytes / part_bytes_min, 1, channel_count));
  }
  /// Calls visit(channel, offset, bytes) for each part of a message. Both ends compute the parts from the size alone.
  template <class Visit>
  static void each_part(uint64_t message_bytes, uint32_t channel_count, const Visit &visit) {
    const uint32_t count = part_count(message_bytes, channel_count);
    const uint64_t step = (message_bytes / count + align_bytes - 1) / align_bytes * align_bytes;
    for (uint32_t channel = 0; channel < count; ++channel) {
      const uint64_t offset = count == 1 ? 0 : std::min(channel * step, message_bytes);
      const uint64_t end = channel + 1 == count ? message_bytes : std::min(offset + step, message_bytes);
      visit(channel, offset, end - offset);
    }
  }

 private:
  static constexpr uint64_t align_bytes = 256;

  std::vector<Transfer> transfers_;
  std::vector<Part> parts_;
  const uint32_t channel_count_;
  uint32_t queue_count_ = 0;
};

/// The size of a channel's FIFO from one rank to another.
struct SlotShape {
  uint64_t slot_bytes = 0;  ///< payload of a slot
  uint64_t slot_count = 0;
};

/// The progress of the kernel that runs a batch, or of the latest such kernel if none runs. Any thread may read it.
class BatchProgress {
 public:
  virtual ~BatchProgress() = default;

  /// Returns the sizes of the FIFOs that carry messages.
  [[nodiscard]] virtual SlotShape slots() const = 0;
  /// Returns the number of thread blocks of a kernel with `queue_count` queues.
  [[nodiscard]] virtual uint32_t block_count(uint32_t queue_count) const = 0;
  /// Returns how many parts of a queue are done. `turn` is the turn of the batch.
  [[nodiscard]] virtual uint32_t parts_done(uint64_t turn, uint32_t queue) const = 0;
  /// Returns how many checks in a row a thread block has made without finding work. UINT32_MAX: the block has ended.
  [[nodiscard]] virtual uint32_t quiet_checks(uint64_t turn, uint32_t block) const = 0;
  /// Returns the sender's size, in bytes, of the message or block whose two ends gave different sizes, if there is one.
  [[nodiscard]] virtual uint64_t sent_bytes() const = 0;
};

/// The heads of a batch on a device: the first incomplete message of each peer and direction.
class DeviceHeads final : public TransferHeads {
 public:
  /// Takes the batch and its turn. All references must outlive this object.
  DeviceHeads(const BatchProgress &progress, std::shared_ptr<const DeviceBatch> batch, uint64_t turn,
              MessageBoards &boards, uint32_t rank);

  /// Reads the kernel's report. If all messages are complete, the heads do not change.
  void refresh();
  /// Returns the head that receives from `peer`, or null.
  [[nodiscard]] const Transfer *receiving_from(uint32_t peer) const;

  [[nodiscard]] size_t head_count() const override { return heads_.size(); }
  [[nodiscard]] const Transfer &head(size_t index) const override { return batch_->transfers()[heads_[index]]; }
  /// Returns whether the head, whose peer has ended, is blocked. The first call only notes the kernel's progress and
  /// returns false. A later call returns true if the kernel has checked all heads since then and found nothing to do.
  [[nodiscard]] bool is_blocked(size_t index) override;
  [[nodiscard]] size_t late_head() override;
  [[nodiscard]] bool reads_slots() const override { return false; }

 private:
  [[nodiscard]] bool is_done(uint32_t transfer) const;

  const BatchProgress &progress_;
  const std::shared_ptr<const DeviceBatch> batch_;
  const uint64_t turn_;
  MessageBoards &boards_;
  const uint32_t rank_;
  std::vector<uint32_t> heads_;  ///< indices of transfers
  std::vector<uint32_t> noted_;  ///< quiet_checks() of each thread block at the note; empty before the first note
};

}  // namespace rondo
